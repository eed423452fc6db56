package memstore

import (
	"bytes"
	"context"
	"slices"
	"sync"
	"time"

	"agenthost/internal/codec"
	"agenthost/pkg/session"
	"agenthost/pkg/store"
	"agenthost/pkg/store/backend"
)

// memEventBytes is an event's cache cost in the memory backend: a slice element, since the backend
// holds the event itself.
const memEventBytes = 8

// Sessions stores sessions in process memory.
type Sessions struct {
	mu       sync.RWMutex
	closed   bool
	lastID   int64
	sessions map[session.Key]*memSession
	sweeps   map[string]store.Sweep // by app
	apps     map[string]map[string]any
	users    map[store.UserKey]map[string]any
	rollouts map[string]store.Rollout // by app
	// days are the outcomes of deleted sessions, by app and in order of days.
	days map[string][]*store.OutcomeDay
}

type memSession struct {
	store.Head
	created time.Time
	events  []memEvent
	bytes   int64            // the events' JSON sizes
	seqs    map[string]int64 // by event id; nil for a short session
	state   map[string]any
	initial map[string]any // the state at creation
	lease   memLease
	// outcome is the stored form of the latest outcome, in a buffer that is used again; past has the
	// earlier ones that it follows, and spare is a buffer for one.
	outcome  []byte
	past     []pastOutcome
	spare    []byte
	room     [256]byte // for outcome
	feedback []store.Feedback
}

// A pastOutcome is the outcome of an earlier event.
type pastOutcome struct {
	version int64
	text    []byte
}

// A memEvent is an event with its JSON size.
type memEvent struct {
	*session.Event
	text int64
}

// NewSessions returns a backend without sessions.
func NewSessions() *Sessions {
	return &Sessions{
		sessions: map[session.Key]*memSession{},
		sweeps:   map[string]store.Sweep{},
		apps:     map[string]map[string]any{},
		users:    map[store.UserKey]map[string]any{},
		rollouts: map[string]store.Rollout{},
		days:     map[string][]*store.OutcomeDay{},
	}
}

// CreateSession implements [store.SessionBackend].
func (m *Sessions) CreateSession(_ context.Context, key session.Key, cells []store.StateWrite, now time.Time, g *store.LeaseGrant) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return store.ErrClosed
	}
	if _, ok := m.sessions[key]; ok {
		return backend.SessionExists(key.ID)
	}
	m.lastID++
	m.sessions[key] = &memSession{
		Head:    store.Head{ID: m.lastID, Updated: now},
		created: now,
		state:   map[string]any{},
		initial: store.SessionState(cells),
	}
	m.writeCells(key, cells)
	if g != nil {
		m.sessions[key].grantLease(g)
	}
	return nil
}

// writeCells sets an existing session's cells. The caller holds the lock.
func (m *Sessions) writeCells(key session.Key, cells []store.StateWrite) {
	for _, c := range cells {
		state := m.scopeState(key, c.Scope)
		if c.Value == nil {
			delete(state, c.Key)
		} else {
			state[c.Key] = c.Value
		}
	}
}

func (m *Sessions) scopeState(key session.Key, s session.Scope) map[string]any {
	switch s {
	case session.ScopeApp:
		return getOrCreate(m.apps, key.App)
	case session.ScopeUser:
		return getOrCreate(m.users, store.UserKey{App: key.App, User: key.User})
	default:
		return m.sessions[key].state
	}
}

func getOrCreate[K comparable](states map[K]map[string]any, k K) map[string]any {
	if states[k] == nil {
		states[k] = map[string]any{}
	}
	return states[k]
}

// mergeState returns a session's merged state. The caller holds the lock.
func (m *Sessions) mergeState(key session.Key, s *memSession) map[string]any {
	app, user := m.apps[key.App], m.users[store.UserKey{App: key.App, User: key.User}]
	keys := len(app) + len(user) + len(s.state)
	if keys == 0 {
		return nil
	}
	all := make(map[string]any, keys)
	for _, scope := range []map[string]any{app, user, s.state} {
		for k, v := range scope {
			all[k] = codec.CloneValue(v)
		}
	}
	return all
}

// ReadSession implements [store.SessionBackend].
func (m *Sessions) ReadSession(_ context.Context, key session.Key, w store.EventWindow) (*store.Snapshot, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.closed {
		return nil, store.ErrClosed
	}
	s, ok := m.sessions[key]
	if !ok {
		return nil, backend.SessionNotFound(key.ID)
	}
	stored := s.events
	if w.ID == s.ID {
		stored = stored[min(w.Since, s.Version):]
	}
	snap := &store.Snapshot{Head: s.Head, State: m.mergeState(key, s), Outcome: bytes.Clone(s.outcome)}
	if len(stored) == 0 {
		return snap, nil
	}
	events := make([]*session.Event, len(stored))
	for i, e := range stored {
		events[i] = e.Event
	}
	events = w.FilterEvents(events)
	snap.Events = make([]store.StoredEvent, len(events))
	for i, e := range events {
		snap.Events[i] = store.StoredEvent{Event: e, TextBytes: s.events[e.Seq-1].text, CacheBytes: memEventBytes}
	}
	return snap, nil
}

// ListSessions implements [store.SessionBackend].
func (m *Sessions) ListSessions(_ context.Context, q store.SessionQuery) ([]*store.ListedSession, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.closed {
		return nil, store.ErrClosed
	}
	var all []*store.ListedSession
	for key, s := range m.sessions {
		if q.Matches(key, s.Head) {
			all = append(all, &store.ListedSession{Key: key, Head: s.Head})
		}
	}
	all = q.OrderSessions(all)
	for _, l := range all {
		if l.State = m.mergeState(l.Key, m.sessions[l.Key]); l.State == nil {
			l.State = map[string]any{}
		}
	}
	return all, nil
}

// DeleteSession implements [store.SessionBackend].
func (m *Sessions) DeleteSession(_ context.Context, key session.Key) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return store.ErrClosed
	}
	delete(m.sessions, key)
	return nil
}

// AppendEvent implements [store.SessionBackend].
func (m *Sessions) AppendEvent(_ context.Context, rec store.AppendRecord) (store.AppendResult, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return store.AppendResult{}, store.ErrClosed
	}
	s, ok := m.sessions[rec.Key]
	if !ok {
		return store.AppendResult{}, backend.SessionNotFound(rec.Key.ID)
	}
	if seq := s.findSeq(rec.Event.ID); seq != 0 {
		if len(rec.Updates) > 0 {
			rec.Event.Actions.StateDelta = s.events[seq-1].Actions.StateDelta
		}
		return store.AppendResult{Seq: seq, TextBytes: s.events[seq-1].text, CacheBytes: memEventBytes}, nil
	}
	if rec.Epoch != 0 && rec.Epoch != s.lease.epoch {
		return store.AppendResult{}, backend.SessionFenced(rec.Key.ID)
	}
	if s.Version != rec.Version || rec.ID != 0 && rec.ID != s.ID {
		return store.AppendResult{}, backend.SessionStale(rec.Key.ID, rec.Version, s.Version)
	}
	var computed []store.StateWrite
	if len(rec.Updates) > 0 {
		var err error
		computed, rec.Text, err = rec.ComputeUpdates(rec.Event, func(u *store.SharedUpdate) any {
			return codec.CloneValue(m.scopeState(rec.Key, u.Scope)[u.Key])
		})
		if err != nil {
			return store.AppendResult{}, err
		}
	}
	s.setOutcome(rec.Outcome)
	s.addEvent(rec.Event, int64(len(rec.Text)))
	m.writeCells(rec.Key, rec.Writes)
	m.writeCells(rec.Key, computed)
	return store.AppendResult{Seq: s.Version, TextBytes: int64(len(rec.Text)), CacheBytes: memEventBytes}, nil
}

// ReadSharedState implements [store.SessionBackend].
func (m *Sessions) ReadSharedState(_ context.Context, key session.Key) (map[string]any, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.closed {
		return nil, store.ErrClosed
	}
	all := m.mergeState(key, &memSession{})
	if all == nil {
		all = map[string]any{}
	}
	return all, nil
}

// SumEventBytes implements [store.SessionBackend].
func (m *Sessions) SumEventBytes(_ context.Context, key session.Key) (int64, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	s, ok := m.sessions[key]
	switch {
	case m.closed:
		return 0, store.ErrClosed
	case !ok:
		return 0, backend.SessionNotFound(key.ID)
	}
	return s.bytes, nil
}

// shortSession is up to how many events a linear search is faster than a map.
const shortSession = 16

// firstEvents is a new session's capacity: it fits most first turns.
const firstEvents = 8

// findSeq returns an event's sequence number, or 0 if the session does not have it.
func (s *memSession) findSeq(id string) int64 {
	if s.seqs != nil {
		return s.seqs[id]
	}
	return 1 + int64(slices.IndexFunc(s.events, func(ev memEvent) bool { return ev.ID == id }))
}

func (s *memSession) addEvent(ev *session.Event, text int64) {
	if s.events == nil {
		s.events = make([]memEvent, 0, firstEvents)
	}
	s.events, s.bytes = append(s.events, memEvent{ev, text}), s.bytes+text
	s.Version, s.Updated = s.Version+1, ev.Timestamp
	switch {
	case s.seqs != nil:
		s.seqs[ev.ID] = s.Version
	case len(s.events) > shortSession:
		s.seqs = make(map[string]int64, 2*shortSession)
		for i, ev := range s.events {
			s.seqs[ev.ID] = int64(i) + 1
		}
	}
}

// Ping checks that the backend can write.
func (m *Sessions) Ping(context.Context) error {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.closed {
		return store.ErrClosed
	}
	return nil
}

// Close closes the backend.
func (m *Sessions) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	clear(m.sessions)
	clear(m.rollouts)
	clear(m.days)
	return nil
}

// memLease is a session's lease in memory.
type memLease struct {
	owner string
	epoch int64
	until time.Time
}

// AcquireLease implements [store.SessionBackend].
func (m *Sessions) AcquireLease(_ context.Context, g *store.LeaseGrant) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return "", store.ErrClosed
	}
	s, ok := m.sessions[g.Key]
	if !ok {
		return "", backend.SessionNotFound(g.Key.ID)
	}
	if s.lease.until.After(g.Now) && s.lease.owner != g.Owner {
		g.ID, g.Epoch = s.ID, s.lease.epoch
		return s.lease.owner, nil
	}
	s.grantLease(g)
	return "", nil
}

// grantLease leases a session. The caller holds the lock.
func (s *memSession) grantLease(g *store.LeaseGrant) {
	s.lease = memLease{g.Owner, s.lease.epoch + 1, g.Now.Add(g.Term)}
	g.ID, g.Epoch = s.ID, s.lease.epoch
}

// ReadLease implements [store.SessionBackend].
func (m *Sessions) ReadLease(_ context.Context, key session.Key, now time.Time) (string, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.closed {
		return "", store.ErrClosed
	}
	s, ok := m.sessions[key]
	switch {
	case !ok:
		return "", backend.SessionNotFound(key.ID)
	case s.lease.until.After(now):
		return s.lease.owner, nil
	}
	return "", nil
}

// RenewLeases implements [store.SessionBackend].
func (m *Sessions) RenewLeases(_ context.Context, all []*store.LeaseGrant) ([]*store.LeaseGrant, error) {
	return m.setLeaseEnds(all, func(g *store.LeaseGrant) time.Time { return g.Now.Add(g.Term) })
}

// ReleaseLeases implements [store.SessionBackend].
func (m *Sessions) ReleaseLeases(_ context.Context, all []*store.LeaseGrant) error {
	_, err := m.setLeaseEnds(all, func(*store.LeaseGrant) time.Time { return time.Time{} })
	return err
}

// setLeaseEnds sets when grants expire, and returns the lost ones.
func (m *Sessions) setLeaseEnds(all []*store.LeaseGrant, until func(*store.LeaseGrant) time.Time) ([]*store.LeaseGrant, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, store.ErrClosed
	}
	var gone []*store.LeaseGrant
	for _, g := range all {
		if s := m.sessions[g.Key]; s != nil && s.ID == g.ID && s.lease.epoch == g.Epoch {
			s.lease.until = until(g)
		} else {
			gone = append(gone, g)
		}
	}
	return gone, nil
}

// ReadInitialState implements [store.SessionBackend].
func (m *Sessions) ReadInitialState(_ context.Context, key session.Key) (map[string]any, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.closed {
		return nil, store.ErrClosed
	}
	s, ok := m.sessions[key]
	if !ok {
		return nil, backend.SessionNotFound(key.ID)
	}
	return codec.CloneMap(s.initial), nil
}
