package a2apush

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"agenthost/pkg/connection"
	"agenthost/pkg/protocol/task"
)

// lifetime is how long configurations are stored after their last change.
const lifetime = 30 * 24 * time.Hour

// rowName is the connection of the rows.
const rowName = "a2a_push"

// maxSwaps limits how often a change is repeated that another one has preceded.
const maxSwaps = 16

// A Sealer encrypts rows: the host's keys. It is safe for concurrent use.
type Sealer interface {
	SealText(row *connection.Grant, text []byte) []byte
	OpenSealed(row *connection.Grant) ([]byte, error)
}

// Errors of [Configs].
var (
	// ErrTooMany reports one configuration too many.
	ErrTooMany = fmt.Errorf("push notification configurations exceed the limit of %d for a task", MaxConfigs)
	// ErrUnknown reports a configuration that the task does not have.
	ErrUnknown = errors.New("unknown push notification configuration")

	errContended = errors.New("push notification configurations are changed by too many requests at once")
)

// Configs are the stored configurations. They are safe for concurrent use. All methods take a task's ID; the
// caller checks that its user has the task.
type Configs struct {
	store connection.GrantStore
	keys  Sealer
	now   func() time.Time
}

// NewConfigs returns the configurations in a grant store, encrypted with keys.
func NewConfigs(store connection.GrantStore, keys Sealer, now func() time.Time) *Configs {
	return &Configs{store, keys, now}
}

// newRow returns a task's row without its content.
func newRow(id task.ID) *connection.Grant {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %q", rowName, []string{id.Key.App, id.Key.User, id.Key.ID, id.Invocation}))
	return &connection.Grant{ID: hex.EncodeToString(sum[:]), User: connection.User{App: id.Key.App, UserID: id.Key.User}, Connection: rowName}
}

// List returns a task's configurations, the oldest first.
func (c *Configs) List(ctx context.Context, id task.ID) ([]*Config, error) {
	_, all, err := c.readRow(ctx, id)
	return all, err
}

// readRow returns a task's row, and its configurations. Without a row it has version 0.
func (c *Configs) readRow(ctx context.Context, id task.ID) (*connection.Grant, []*Config, error) {
	row, err := c.store.GetGrant(ctx, newRow(id).ID)
	if err != nil {
		return nil, nil, err
	}
	if row == nil {
		return newRow(id), nil, nil
	}
	if row.Expires.Before(c.now()) {
		return row, nil, nil
	}
	text, err := c.keys.OpenSealed(row)
	if err != nil {
		return nil, nil, fmt.Errorf("reading push notification configurations: %w", err)
	}
	var all []*Config
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, nil, fmt.Errorf("reading push notification configurations: %w", err)
	}
	return row, all, nil
}

// changeRow replaces a task's configurations by those that change returns, unless it returns false.
// Another replica's change in between repeats it.
func (c *Configs) changeRow(ctx context.Context, id task.ID, change func([]*Config) ([]*Config, bool, error)) error {
	for range maxSwaps {
		row, all, err := c.readRow(ctx, id)
		if err != nil {
			return err
		}
		all, changed, err := change(all)
		if err != nil || !changed {
			return err
		}
		stored := false
		if len(all) == 0 {
			stored, err = c.store.DeleteGrant(ctx, row.ID, row.Version)
		} else {
			text, encodeErr := json.Marshal(all)
			if encodeErr != nil {
				return encodeErr
			}
			row.Version++
			row.Expires = c.now().Add(lifetime)
			row.Sealed = c.keys.SealText(row, text)
			stored, err = c.store.SwapGrant(ctx, row)
		}
		if err != nil || stored {
			return err
		}
	}
	return errContended
}

// Add stores a configuration, instead of one with the same ID. The error is ErrTooMany, or the store's.
func (c *Configs) Add(ctx context.Context, id task.ID, config *Config) error {
	if err := c.store.DeleteExpired(ctx, c.now()); err != nil {
		return err
	}
	return c.changeRow(ctx, id, func(all []*Config) ([]*Config, bool, error) {
		if at := indexOf(all, config.ID); at >= 0 {
			all[at] = config
			return all, true, nil
		}
		if len(all) >= MaxConfigs {
			return nil, false, ErrTooMany
		}
		return append(all, config), true, nil
	})
}

// Delete deletes a configuration. The error is ErrUnknown, or the store's.
func (c *Configs) Delete(ctx context.Context, id task.ID, configID string) error {
	return c.changeRow(ctx, id, func(all []*Config) ([]*Config, bool, error) {
		at := indexOf(all, configID)
		if at < 0 {
			return nil, false, ErrUnknown
		}
		return slices.Delete(all, at, at+1), true, nil
	})
}

func indexOf(all []*Config, id string) int {
	return slices.IndexFunc(all, func(one *Config) bool { return one.ID == id })
}

// Claim marks a task's state as sent, and returns the configurations to which neither it nor a later one was
// sent before. It returns them to one caller of all replicas. The state is that after the event with the number.
func (c *Configs) Claim(ctx context.Context, id task.ID, event int64, state string) ([]*Config, error) {
	var claimed []*Config
	err := c.changeRow(ctx, id, func(all []*Config) ([]*Config, bool, error) {
		claimed = nil
		for _, one := range all {
			if event > one.SentEvent || event == one.SentEvent && one.Sent != state {
				one.SentEvent, one.Sent = event, state
				claimed = append(claimed, one)
			}
		}
		return all, len(claimed) > 0, nil
	})
	if err != nil {
		return nil, err
	}
	return claimed, nil
}

// IsCurrent reports whether a claimed configuration is stored, and no later state was claimed.
func (c *Configs) IsCurrent(ctx context.Context, id task.ID, config *Config) bool {
	all, err := c.List(ctx, id)
	at := indexOf(all, config.ID)
	return err == nil && at >= 0 && *all[at] == *config
}
