// Package kvstore keeps sessions in any key-value database that orders its keys and has
// transactions. A Go program adapts the database with two methods, and its transactions
// with four; the rows and their rules are in this package.
package kvstore

import (
	"context"
	"sync"
	"time"

	"agenthost/pkg/session"
	"agenthost/pkg/store"
	"agenthost/pkg/store/backend"
)

// A DB is a key-value database. It is safe for concurrent use.
type DB interface {
	// View runs read in a transaction that sees one consistent state, and returns its
	// error.
	View(ctx context.Context, read func(Tx) error) error
	// Update runs write in a serializable transaction that is durable when Update
	// returns nil. If write or the commit fails, nothing has changed. After a conflict,
	// Update may run write again.
	Update(ctx context.Context, write func(Tx) error) error
}

// A Tx is a [DB] transaction, used by one goroutine. Keys order byte by byte. The keys and values
// that it returns are valid until it ends, and are not changed.
type Tx interface {
	// Get returns a key's value, or nil if the key is missing.
	Get(key []byte) ([]byte, error)
	// Put sets a key's value. The caller does not change either afterwards.
	Put(key, value []byte) error
	// Delete deletes a key. A missing key is not an error.
	Delete(key []byte) error
	// Scan calls each in key order for the keys with from <= key < to, until each fails, and
	// returns that error. each does not write.
	Scan(from, to []byte, each func(key, value []byte) error) error
}

// Sessions is a [store.SessionBackend] on a key-value database. Leases end by the clock of the
// process that acquires them, so the replicas' clocks must agree.
type Sessions struct {
	db DB
	// mu is held for reading by each transaction, and for writing by Close.
	mu     sync.RWMutex
	closed bool
}

// NewSessions returns the sessions in a database. The caller closes the database after
// the store.
func NewSessions(db DB) *Sessions { return &Sessions{db: db} }

// viewRows runs a reading transaction.
func (b *Sessions) viewRows(ctx context.Context, read func(rows) error) error {
	b.mu.RLock()
	defer b.mu.RUnlock()
	if b.closed {
		return store.ErrClosed
	}
	return b.db.View(ctx, func(tx Tx) error { return read(rows{tx}) })
}

// updateRows runs a writing transaction.
func (b *Sessions) updateRows(ctx context.Context, write func(rows) error) error {
	b.mu.RLock()
	defer b.mu.RUnlock()
	if b.closed {
		return store.ErrClosed
	}
	return b.db.Update(ctx, func(tx Tx) error { return write(rows{tx}) })
}

// Ping checks that the database can write.
func (b *Sessions) Ping(ctx context.Context) error {
	return b.updateRows(ctx, func(tx rows) error { return tx.Put(pingKey(), []byte("1")) })
}

// Close waits for transactions.
func (b *Sessions) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	return nil
}

// CreateSession implements [store.SessionBackend].
func (b *Sessions) CreateSession(ctx context.Context, key session.Key, cells []store.StateWrite, now time.Time, g *store.LeaseGrant) error {
	var h head
	err := b.updateRows(ctx, func(tx rows) error {
		switch old, err := tx.findHead(key); {
		case err != nil:
			return err
		case old != nil:
			return backend.SessionExists(key.ID)
		}
		id, err := tx.reserveID()
		if err != nil {
			return err
		}
		h = head{ID: id, Updated: now.UnixMicro(), Created: now.UnixMicro(), Active: now.UnixMicro()}
		if g != nil {
			h.grantLease(g)
		}
		return tx.insertSession(key, &h, cells)
	})
	if err == nil && g != nil {
		g.ID, g.Epoch = h.ID, h.Epoch
	}
	return wrapDamage(key, err)
}

// ListSessions implements [store.SessionBackend].
func (b *Sessions) ListSessions(ctx context.Context, q store.SessionQuery) (all []*store.ListedSession, err error) {
	err = b.viewRows(ctx, func(tx rows) error {
		all, err = tx.listSessions(q)
		return err
	})
	return all, err
}

// DeleteSession implements [store.SessionBackend].
func (b *Sessions) DeleteSession(ctx context.Context, key session.Key) error {
	return b.updateRows(ctx, func(tx rows) error {
		h, err := tx.findHead(key)
		if err != nil || h == nil {
			return err
		}
		return tx.deleteSession(key, h)
	})
}

// AppendEvent implements [store.SessionBackend].
func (b *Sessions) AppendEvent(ctx context.Context, rec store.AppendRecord) (at store.AppendResult, err error) {
	given := rec.Event.Actions.StateDelta
	err = b.updateRows(ctx, func(tx rows) error {
		rec.Event.Actions.StateDelta = given // a conflict may have undone an attempt
		at, err = tx.appendEvent(rec)
		return err
	})
	return at, wrapDamage(rec.Key, err)
}

// ReadSession implements [store.SessionBackend].
func (b *Sessions) ReadSession(ctx context.Context, key session.Key, w store.EventWindow) (snap *store.Snapshot, err error) {
	err = b.viewSession(ctx, key, func(tx rows, h *head) error {
		snap = &store.Snapshot{Head: h.storeHead(), LastID: h.LastID}
		if snap.State, err = tx.readState(key, false); err == nil {
			err = tx.readWindow(snap, w)
		}
		return err
	})
	return snap, err
}

// ReadInitialState implements [store.SessionBackend].
func (b *Sessions) ReadInitialState(ctx context.Context, key session.Key) (state map[string]any, err error) {
	err = b.viewSession(ctx, key, func(tx rows, h *head) error {
		state, err = tx.readInitialState(h)
		return err
	})
	return state, err
}

// SumEventBytes implements [store.SessionBackend].
func (b *Sessions) SumEventBytes(ctx context.Context, key session.Key) (n int64, err error) {
	err = b.viewSession(ctx, key, func(_ rows, h *head) error {
		n = h.Bytes
		return nil
	})
	return n, err
}

// ReadSharedState implements [store.SessionBackend].
func (b *Sessions) ReadSharedState(ctx context.Context, key session.Key) (state map[string]any, err error) {
	err = b.viewRows(ctx, func(tx rows) error {
		state, err = tx.readState(key, true)
		return err
	})
	return state, err
}
