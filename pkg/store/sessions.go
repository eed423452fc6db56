package store

import (
	"context"
	"fmt"
	"strings"
	"time"

	"agenthost/pkg/session"
)

// Sessions keeps sessions with their events and state. Many goroutines may use
// it. Beside the errors that its methods name, each returns those of the
// backend, and the context's when it is cancelled in time.
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

// GetOptions narrow the events of a Get; the state is always whole. Nil and
// the zero value ask for all events. Together they mean the latest of those
// after the time.
type GetOptions struct {
	// NumRecentEvents keeps only so many events, the latest ones; 0 keeps
	// none.
	NumRecentEvents *int
	// After keeps the events of this time and later, that is, those behind the
	// last one that is older; the zero time keeps all.
	After time.Time
}

// Create makes a session with an initial state. Keys with app: and user: are
// written to their scopes, temp: keys are left out. The id is trimmed of white
// space; without one, the session gets a new id. ErrExists says that the id is
// taken, ErrInvalid that the key or the state cannot be stored.
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
// what is appended later, unless opts narrow it; its state is the caller's
// own. ErrNotFound says that there is none.
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
			return w, fmt.Errorf("number of recent events %d is below zero: %w", *n, session.ErrInvalid)
		}
		w.last = *n
	}
	if !o.After.IsZero() {
		w.after = &o.After
	}
	return w, nil
}

// readWhole reads a session with all its events, of which the cache may have
// the most.
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
		s.leases.logger.Warn("stored events are not those of the cache: database went back to an older state", "app", key.App, "user", key.User, "session", key.ID)
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

// Delete removes a session with its events and its own state; app: and user:
// keys stay. A missing session is no error.
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

// currentTime is the clock's time as databases keep it.
func (s *Sessions) currentTime() time.Time { return s.clock().UTC().Truncate(time.Microsecond) }
