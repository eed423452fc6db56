package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"agenthost/internal/codec"
	"agenthost/pkg/session"
)

// ErrNoRollouts is the error from a store without a backend for rollouts.
var ErrNoRollouts = errors.New("the session database does not support rollouts")

// MaxRolloutBytes is the maximum length of a rollout's data.
const MaxRolloutBytes = 64 << 10

// Rollouts stores each app's rollout in the session database. Hosts share it: a change is a
// compare-and-set, so that only one of two hosts that have read the same state changes it. It is safe
// for concurrent use.
type Rollouts struct {
	backend RolloutBackend
	clock   func() time.Time
	owner   string
	saves   atomic.Int64
}

// A Rollout is an app's row.
type Rollout struct {
	App string
	// Version counts the row's changes; 0 is a row that is not stored.
	Version int64
	// Data has at most [MaxRolloutBytes]. The store does not interpret it.
	Data    []byte
	Changed time.Time
}

// A RolloutBackend stores rollout rows. It is safe for concurrent use.
type RolloutBackend interface {
	// GetRollout returns ErrNotFound for an app without a row.
	GetRollout(ctx context.Context, app string) (*Rollout, error)
	// SaveRollout stores a row if the stored one has the version before it, or if there is none and the
	// version is 1. Otherwise it fails with [session.ErrStale]. A call that the backend repeats because
	// it does not know whether the first attempt was committed succeeds if the stored row has its SaveID.
	SaveRollout(ctx context.Context, r *RolloutRecord) error
}

// A RolloutRecord is a row with the id of the call that stored it.
type RolloutRecord struct {
	Rollout
	SaveID string
}

// Get returns an app's rollout. An app without one is ErrNotFound. It returns [ErrNoRollouts] if the
// store has no backend for rollouts.
func (r *Rollouts) Get(ctx context.Context, app string) (*Rollout, error) {
	if r.backend == nil {
		return nil, ErrNoRollouts
	}
	if err := checkRolloutApp(app); err != nil {
		return nil, err
	}
	return r.backend.GetRollout(ctx, app)
}

// Save stores a rollout if the stored one still has its version; version 0 creates it. It then
// increases the version and sets the time. If another host has changed the rollout meanwhile, it
// returns an error that wraps [session.ErrStale]: read it again. Data over [MaxRolloutBytes] is a
// [session.LimitError]. It returns [ErrNoRollouts] if the store has no backend for rollouts.
func (r *Rollouts) Save(ctx context.Context, rollout *Rollout) error {
	if r.backend == nil {
		return ErrNoRollouts
	}
	if err := checkRolloutApp(rollout.App); err != nil {
		return err
	}
	if rollout.Version < 0 {
		return fmt.Errorf("version of a rollout must not be negative, got %d: %w", rollout.Version, session.ErrInvalid)
	}
	if len(rollout.Data) > MaxRolloutBytes {
		return &session.LimitError{Part: "rollout of app " + rollout.App, Limit: MaxRolloutBytes}
	}
	rec := &RolloutRecord{
		Rollout: Rollout{
			App: rollout.App, Version: rollout.Version + 1, Data: append([]byte{}, rollout.Data...), Changed: r.clock().UTC().Truncate(time.Microsecond),
		},
		SaveID: r.owner + "/" + strconv.FormatInt(r.saves.Add(1), 10),
	}
	if err := r.backend.SaveRollout(ctx, rec); err != nil {
		return err
	}
	rollout.Version, rollout.Changed = rec.Version, rec.Changed
	return nil
}

func checkRolloutApp(app string) error {
	if app == "" {
		return fmt.Errorf("app is required: %w", session.ErrInvalid)
	}
	return codec.CheckText("app", app, codec.MaxApp)
}

// IsSaved reports whether a stored row is what a call stores. A backend that may repeat a call
// compares them.
func (r *RolloutRecord) IsSaved(stored *RolloutRecord) bool {
	return stored.Version == r.Version && stored.SaveID == r.SaveID && bytes.Equal(stored.Data, r.Data)
}
