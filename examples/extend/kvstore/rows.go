package kvstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"agenthost/pkg/session"
	"agenthost/pkg/store"
	"agenthost/pkg/store/backend"
)

// rows are the session rows in a transaction.
type rows struct{ Tx }

// A head is a session's row.
type head struct {
	ID      int64  `json:"id"`
	Version int64  `json:"version"`
	Updated int64  `json:"updated"` // microseconds
	LastID  string `json:"lastId,omitempty"`
	Created int64  `json:"created,omitempty"` // microseconds
	// Active is the age row's time in microseconds: the session was active then, and perhaps later.
	Active int64 `json:"active,omitempty"`
	Bytes  int64 `json:"bytes"` // JSON size of all events
	// Epoch, Owner and Until (nanoseconds) are the lease.
	Epoch int64  `json:"epoch,omitempty"`
	Owner string `json:"owner,omitempty"`
	Until int64  `json:"until,omitempty"`
}

func (h *head) storeHead() store.Head {
	return store.Head{ID: h.ID, Version: h.Version, Updated: time.UnixMicro(h.Updated).UTC()}
}

// viewSession runs a reading transaction on a session that must exist.
func (b *Sessions) viewSession(ctx context.Context, key session.Key, read func(rows, *head) error) error {
	err := b.viewRows(ctx, func(tx rows) error {
		h, err := tx.getHead(key)
		if err != nil {
			return err
		}
		return read(tx, h)
	})
	return wrapDamage(key, err)
}

// wrapDamage adds the session key to the error about a damaged row.
func wrapDamage(key session.Key, err error) error {
	if damaged := (*backend.DamagedError)(nil); errors.As(err, &damaged) {
		return backend.WrapReadError(key, err)
	}
	return err
}

// getHead returns the head of a session, which must exist.
func (tx rows) getHead(key session.Key) (*head, error) {
	h, err := tx.findHead(key)
	if err == nil && h == nil {
		err = backend.SessionNotFound(key.ID)
	}
	return h, err
}

// findHead returns a session's head, or nil.
func (tx rows) findHead(key session.Key) (*head, error) {
	b, err := tx.Get(headKey(key))
	if err != nil || b == nil {
		return nil, err
	}
	h := &head{}
	if err := json.Unmarshal(b, h); err != nil {
		return nil, backend.NewDamagedError(err, "head")
	}
	if h.ID < 1 || h.Version < 0 || h.Bytes < 0 {
		return nil, backend.NewDamagedError(fmt.Errorf("id %d, version %d, %d bytes", h.ID, h.Version, h.Bytes), "head")
	}
	return h, nil
}

func (tx rows) putHead(key session.Key, h *head) error {
	b, err := json.Marshal(h)
	if err != nil {
		return err
	}
	return tx.Put(headKey(key), b)
}

// reserveID returns the next head ID.
func (tx rows) reserveID() (int64, error) {
	b, err := tx.Get(counterKey())
	if err != nil {
		return 0, err
	}
	last, ok := parseNumber(b)
	if b != nil && !ok {
		return 0, backend.NewDamagedError(errors.New("not a number"), "last session")
	}
	return last + 1, tx.Put(counterKey(), appendNumber(nil, last+1))
}

func (tx rows) insertSession(key session.Key, h *head, cells []store.StateWrite) error {
	initial, err := backend.AppendMap(nil, store.SessionState(cells))
	if err != nil {
		return err
	}
	name := []byte(key.User + separator + key.ID)
	return errors.Join(
		tx.putHead(key, h), tx.Put(initialKey(h.ID), initial),
		tx.Put(orderKey(key.App, "", h.ID), name), tx.Put(orderKey(key.App, key.User, h.ID), name),
		tx.Put(ageKey(key.App, h.Active, h.ID), name),
		tx.writeState(key, cells),
	)
}

// deleteSession deletes a session's rows.
func (tx rows) deleteSession(key session.Key, h *head) error {
	doomed := [][]byte{headKey(key), initialKey(h.ID), orderKey(key.App, "", h.ID), orderKey(key.App, key.User, h.ID), ageKey(key.App, h.Active, h.ID)}
	state := statePrefix(key, session.ScopeSession)
	for _, r := range [][2][]byte{
		{state, endOfPrefix(state)},
		{eventKey(h.ID, 0), eventKey(h.ID+1, 0)},
		{eventIDKey(h.ID, ""), eventIDKey(h.ID+1, "")},
	} {
		err := tx.Scan(r[0], r[1], func(k, _ []byte) error {
			doomed = append(doomed, append([]byte(nil), k...))
			return nil
		})
		if err != nil {
			return err
		}
	}
	for _, k := range doomed {
		if err := tx.Delete(k); err != nil {
			return err
		}
	}
	return nil
}

// endOfPrefix returns the first key after those with a prefix that ends with the
// separator.
func endOfPrefix(prefix []byte) []byte {
	end := append([]byte(nil), prefix...)
	end[len(end)-1]++
	return end
}

// errEnough ends a scan that has all it needs.
var errEnough = errors.New("enough rows")

// listSessions reads the heads and states that a query selects.
func (tx rows) listSessions(q store.SessionQuery) ([]*store.ListedSession, error) {
	var all []*store.ListedSession
	from, to := orderKey(q.App, q.User, q.After+1), orderKey(q.App, q.User, math.MaxInt64)
	err := tx.Scan(from, to, func(_, name []byte) error {
		user, id, _ := strings.Cut(string(name), separator)
		key := session.Key{App: q.App, User: user, ID: id}
		h, err := tx.findHead(key)
		switch {
		case err != nil:
			return backend.WrapReadError(key, err)
		case h == nil:
			return backend.WrapReadError(key, backend.NewDamagedError(errMissing, "head"))
		case !q.Matches(key, h.storeHead()):
			return nil
		}
		l := &store.ListedSession{Key: key, Head: h.storeHead()}
		if l.State, err = tx.readState(key, false); err != nil {
			return backend.WrapReadError(key, err)
		}
		if all = append(all, l); len(all) == q.Limit && !q.Newest {
			return errEnough
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return q.OrderSessions(all), err
}

// writeState writes state cells.
func (tx rows) writeState(key session.Key, cells []store.StateWrite) error {
	for _, c := range cells {
		at := stateKey(key, c.Scope, c.Key)
		if c.Value == nil {
			if err := tx.Delete(at); err != nil {
				return err
			}
			continue
		}
		text, err := backend.EncodeValue(c.Value)
		if err != nil {
			return fmt.Errorf("state key %q: %w", c.Key, err)
		}
		if err := tx.Put(at, []byte(text)); err != nil {
			return err
		}
	}
	return nil
}

// readState returns the merged state that a session sees, or only its shared keys.
func (tx rows) readState(key session.Key, shared bool) (map[string]any, error) {
	all := map[string]any{}
	for _, scope := range []session.Scope{session.ScopeApp, session.ScopeUser, session.ScopeSession} {
		if shared && scope == session.ScopeSession {
			break
		}
		prefix := statePrefix(key, scope)
		err := tx.Scan(prefix, endOfPrefix(prefix), func(k, text []byte) (err error) {
			name := string(k[len(prefix):])
			all[name], err = decodeState(name, text)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// readStateKey returns a key's value, or nil.
func (tx rows) readStateKey(key session.Key, scope session.Scope, name string) (any, error) {
	text, err := tx.Get(stateKey(key, scope, name))
	if err != nil || text == nil {
		return nil, err
	}
	return decodeState(name, text)
}

func decodeState(name string, text []byte) (any, error) {
	v, err := backend.DecodeValue(text)
	if err != nil {
		return nil, backend.NewDamagedError(err, "state key %q", name)
	}
	return v, nil
}

func (tx rows) readInitialState(h *head) (map[string]any, error) {
	text, err := tx.Get(initialKey(h.ID))
	if err != nil {
		return nil, err
	}
	state, err := session.DecodeMap(text)
	if err == nil && state == nil {
		err = errMissing
	}
	if err != nil {
		return nil, backend.NewDamagedError(err, "initial state")
	}
	return state, nil
}
