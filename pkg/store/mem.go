package store

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"agenthost/pkg/session"
)

// memEventBytes is the cache cost of an event of the memory backend: a slice
// element, since the backend holds the event itself.
const memEventBytes = 8

// memBackend stores sessions in the memory of the process.
type memBackend struct {
	mu       sync.RWMutex
	closed   bool
	lastID   int64
	sessions map[session.Key]*memSession
	apps     map[string]map[string]any
	users    map[userKey]map[string]any
}

// A userKey identifies a user of an app.
type userKey struct{ app, user string }

type memSession struct {
	head
	events  []*session.Event
	texts   []int64          // JSON sizes of the events
	bytes   int64            // their sum
	seqs    map[string]int64 // by event id; nil for a short session
	state   map[string]any
	initial map[string]any // the state at creation
	lease   memLease
}

func newMemBackend() *memBackend {
	return &memBackend{
		sessions: map[session.Key]*memSession{},
		apps:     map[string]map[string]any{},
		users:    map[userKey]map[string]any{},
	}
}

func (m *memBackend) createSession(_ context.Context, key session.Key, cells []cell, now time.Time, g *grant) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return errClosed
	}
	if _, ok := m.sessions[key]; ok {
		return errExists(key.ID)
	}
	m.lastID++
	m.sessions[key] = &memSession{
		head:    head{id: m.lastID, updated: now},
		state:   map[string]any{},
		initial: filterSessionCells(cells),
	}
	m.writeCells(key, cells)
	if g != nil {
		m.sessions[key].grantLease(g)
	}
	return nil
}

// writeCells sets the cells of an existing session. The caller holds the lock.
func (m *memBackend) writeCells(key session.Key, cells []cell) {
	for _, c := range cells {
		state := m.scopeState(key, c.scope)
		if c.value == nil {
			delete(state, c.key)
		} else {
			state[c.key] = c.value
		}
	}
}

func (m *memBackend) scopeState(key session.Key, s session.Scope) map[string]any {
	switch s {
	case session.ScopeApp:
		return getOrCreate(m.apps, key.App)
	case session.ScopeUser:
		return getOrCreate(m.users, userKey{key.App, key.User})
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

// mergeState returns the merged state of a session. The caller holds the lock.
func (m *memBackend) mergeState(key session.Key, s *memSession) map[string]any {
	app, user := m.apps[key.App], m.users[userKey{key.App, key.User}]
	keys := len(app) + len(user) + len(s.state)
	if keys == 0 {
		return nil
	}
	all := make(map[string]any, keys)
	for _, scope := range []map[string]any{app, user, s.state} {
		for k, v := range scope {
			all[k] = cloneValue(v)
		}
	}
	return all
}

func (m *memBackend) readSession(_ context.Context, key session.Key, w eventWindow) (*snapshot, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.closed {
		return nil, errClosed
	}
	s, ok := m.sessions[key]
	if !ok {
		return nil, errNotFound(key.ID)
	}
	events := s.events
	if w.id == s.id {
		events = events[min(w.since, s.version):]
	}
	events = w.filterEvents(events)
	snap := &snapshot{head: s.head, state: m.mergeState(key, s)}
	if len(events) > 0 {
		snap.events = make([]storedEvent, len(events))
		for i, e := range events {
			snap.events[i] = storedEvent{e, s.texts[e.Seq-1], memEventBytes}
		}
	}
	return snap, nil
}

func (m *memBackend) listSessions(_ context.Context, q sessionQuery) ([]*listedSession, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.closed {
		return nil, errClosed
	}
	var all []*listedSession
	for key, s := range m.sessions {
		if q.matchesSession(key, s.head) {
			all = append(all, &listedSession{key: key, head: s.head})
		}
	}
	slices.SortFunc(all, func(a, b *listedSession) int { return cmp.Compare(a.id, b.id) })
	if q.limit > 0 && len(all) > q.limit {
		all = all[:q.limit]
	}
	for _, l := range all {
		l.state = m.mergeState(l.key, m.sessions[l.key])
	}
	return all, nil
}

func (q sessionQuery) matchesSession(key session.Key, h head) bool {
	return key.App == q.app && (q.user == "" || key.User == q.user) && h.id > q.after &&
		(q.before.IsZero() || h.updated.Before(q.before))
}

func (m *memBackend) deleteSession(_ context.Context, key session.Key) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return errClosed
	}
	delete(m.sessions, key)
	return nil
}

func (m *memBackend) appendEvent(_ context.Context, rec record) (appendResult, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return appendResult{}, errClosed
	}
	s, ok := m.sessions[rec.key]
	if !ok {
		return appendResult{}, errNotFound(rec.key.ID)
	}
	if seq := s.findSeq(rec.event.ID); seq != 0 {
		if len(rec.updates) > 0 {
			rec.event.Actions.StateDelta = s.events[seq-1].Actions.StateDelta
		}
		return appendResult{seq, s.texts[seq-1], memEventBytes}, nil
	}
	if rec.epoch != 0 && rec.epoch != s.lease.epoch {
		return appendResult{}, errFenced(rec.key.ID)
	}
	if s.version != rec.version || rec.id != 0 && rec.id != s.id {
		return appendResult{}, errStale(rec.key.ID, rec.version, s.version)
	}
	var computed []cell
	if len(rec.updates) > 0 {
		var err error
		computed, rec.text, err = rec.computeUpdates(rec.event, func(u *update) any {
			return cloneValue(m.scopeState(rec.key, u.scope)[u.key])
		})
		if err != nil {
			return appendResult{}, err
		}
	}
	s.addEvent(rec.event, int64(len(rec.text)))
	m.writeCells(rec.key, rec.cells)
	m.writeCells(rec.key, computed)
	return appendResult{s.version, int64(len(rec.text)), memEventBytes}, nil
}

func (m *memBackend) readSharedState(_ context.Context, key session.Key) (map[string]any, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.closed {
		return nil, errClosed
	}
	all := m.mergeState(key, &memSession{})
	if all == nil {
		all = map[string]any{}
	}
	return all, nil
}

func (m *memBackend) sumEventBytes(_ context.Context, key session.Key) (int64, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	s, ok := m.sessions[key]
	switch {
	case m.closed:
		return 0, errClosed
	case !ok:
		return 0, errNotFound(key.ID)
	}
	return s.bytes, nil
}

// shortSession is the number of events up to which a linear search is faster
// than a map.
const shortSession = 16

// findSeq returns the sequence number of an event, or 0 if the session does not
// have it.
func (s *memSession) findSeq(id string) int64 {
	if s.seqs != nil {
		return s.seqs[id]
	}
	return 1 + int64(slices.IndexFunc(s.events, func(ev *session.Event) bool { return ev.ID == id }))
}

func (s *memSession) addEvent(ev *session.Event, text int64) {
	if s.events == nil {
		s.events = make([]*session.Event, 0, shortSession)
	}
	s.events, s.texts, s.bytes = append(s.events, ev), append(s.texts, text), s.bytes+text
	s.version, s.updated = s.version+1, ev.Timestamp
	switch {
	case s.seqs != nil:
		s.seqs[ev.ID] = s.version
	case len(s.events) > shortSession:
		s.seqs = make(map[string]int64, 2*shortSession)
		for i, ev := range s.events {
			s.seqs[ev.ID] = int64(i) + 1
		}
	}
}

func (m *memBackend) ping(context.Context) error {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.closed {
		return errClosed
	}
	return nil
}

func (m *memBackend) close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	clear(m.sessions)
	return nil
}
