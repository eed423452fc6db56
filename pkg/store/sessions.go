package store

import (
	"context"
	"fmt"
	"strings"
	"time"

	"agenthost/pkg/session"
)

// Sessions stores sessions with their events and state. It is safe for
// concurrent use. Besides the documented errors, methods return errors of the
// backend and of a cancelled context.
type Sessions struct {
	backend backend
	clock   func() time.Time
	newID   func() string
	cache   *cache
	limits  limits
	// growing is the queue before the shared state that is written much of.
	growing *runQueue
	runs    *runQueue
	leases  *leaseManager
}

// GetOptions select the events that Get returns; the state is always complete.
// Nil and the zero value select all events. If both fields are set, Get returns
// the latest events after the time.
type GetOptions struct {
	// NumRecentEvents limits the result to the latest events; 0 returns no
	// events.
	NumRecentEvents *int
	// After selects the events from this time on, that is, those that follow
	// the last older event. The zero time selects all.
	After time.Time
}

// Create creates a session with an initial state. app: and user: keys are
// written to their scopes, temp: keys are dropped. White space around the id is
// trimmed; an empty id is replaced by a generated one. It fails with ErrExists
// if the id is in use, and with ErrInvalid if the key or the state cannot be
// stored.
func (s *Sessions) Create(ctx context.Context, key session.Key, state map[string]any) (*session.Session, error) {
	key.ID = strings.TrimSpace(key.ID)
	if key.ID == "" {
		key.ID = s.newID()
	}
	if err := checkSession(key); err != nil {
		return nil, err
	}
	state, err := canonicalizeState(state)
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	g := s.leases.pendingGrant(key)
	if err := s.writeInitial(ctx, key, state, g); err != nil {
		return nil, err
	}
	if g != nil {
		if err := s.leases.trackLease(g); err != nil {
			return nil, err
		}
	}
	return s.Get(ctx, key, nil)
}

// Get reads a session. Its history is shared with other readers and grows with
// later appends, unless opts selects events. Its state belongs to the caller. A
// missing session is ErrNotFound.
func (s *Sessions) Get(ctx context.Context, key session.Key, opts *GetOptions) (*session.Session, error) {
	w, err := opts.toEventWindow()
	if err != nil {
		return nil, err
	}
	if err := checkSession(key); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if w.isNarrow() && s.cache.get(key) == nil {
		return s.readNarrow(ctx, key, w)
	}
	sess, err := s.readWhole(ctx, key)
	if err == nil && w.isNarrow() {
		whole := sess.History
		sess.History = session.NewHistory(w.filterEvents(whole.Events()))
		sess.History.AddBytes(whole.Bytes())
	}
	return sess, err
}

func (o *GetOptions) toEventWindow() (eventWindow, error) {
	w := eventWindow{last: -1}
	if o == nil {
		return w, nil
	}
	if n := o.NumRecentEvents; n != nil {
		if *n < 0 {
			return w, fmt.Errorf("number of recent events must not be negative, got %d: %w", *n, session.ErrInvalid)
		}
		w.last = *n
	}
	if !o.After.IsZero() {
		w.after = &o.After
	}
	return w, nil
}

// readWhole reads a session with all its events. It loads only events that the
// cache does not have.
func (s *Sessions) readWhole(ctx context.Context, key session.Key) (*session.Session, error) {
	e := s.cache.get(key)
	w := eventWindow{last: -1}
	if e != nil {
		w.id = e.id
		w.since, w.sinceID = e.lastEvent()
		s.cache.hits.Add(1)
	} else {
		s.cache.misses.Add(1)
	}
	snap, err := s.backend.readSession(ctx, key, w)
	if err != nil {
		return nil, err
	}
	switch {
	case e == nil || e.id != snap.id:
		e = s.cache.put(key, snap)
	case snap.whole:
		s.leases.logger.Warn("cached events do not match the database, reloading session: the database was restored to an older state", "app", key.App, "user", key.User, "session", key.ID)
		s.cache.drop(key)
		e = s.cache.put(key, snap)
	default:
		s.cache.appendNew(e, snap.events)
	}
	return newSessionView(key, snap, e.history), nil
}

func (s *Sessions) readNarrow(ctx context.Context, key session.Key, w eventWindow) (*session.Session, error) {
	snap, err := s.backend.readSession(ctx, key, w)
	if err != nil {
		return nil, err
	}
	events := make([]*session.Event, len(snap.events))
	for i, st := range snap.events {
		events[i] = st.event
	}
	return newSessionView(key, snap, session.NewHistory(events)), nil
}

func newSessionView(key session.Key, snap *snapshot, h *session.History) *session.Session {
	return &session.Session{
		Key:        key,
		Version:    snap.version,
		History:    h,
		State:      session.NewState(snap.state),
		LastUpdate: snap.updated,
	}
}

// Delete deletes a session with its events and its own state; app: and user:
// keys stay. Deleting a missing session succeeds.
func (s *Sessions) Delete(ctx context.Context, key session.Key) error {
	if err := checkSession(key); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	defer s.leases.dropDeleted(key)
	defer s.cache.drop(key)
	return s.backend.deleteSession(ctx, key)
}

// currentTime returns the clock's time in the precision of the databases.
func (s *Sessions) currentTime() time.Time { return s.clock().UTC().Truncate(time.Microsecond) }
