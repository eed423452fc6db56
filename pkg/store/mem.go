package store

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"agenthost/pkg/session"
)

// memEventBytes is what the cache pays for an event of the memory backend: a
// place in a slice, since the event itself is held here.
const memEventBytes = 8

// memory keeps sessions as long as the process lives.
type memory struct {
	mu       sync.RWMutex
	closed   bool
	lastID   int64
	sessions map[session.Key]*memSession
	apps     map[string]map[string]any
	users    map[owner]map[string]any
}

// An owner is a user of an app.
type owner struct{ app, user string }

type memSession struct {
	head
	events []*session.Event
	texts  []int64          // the lengths of the events' JSON
	bytes  int64            // their sum
	seqs   map[string]int64 // by event id; nil of a short session
	state  map[string]any
	first  map[string]any // the state at the creation
	lease  memLease
}

func newMemory() *memory {
	return &memory{
		sessions: map[session.Key]*memSession{},
		apps:     map[string]map[string]any{},
		users:    map[owner]map[string]any{},
	}
}

func (m *memory) create(_ context.Context, key session.Key, cells []cell, now time.Time, g *grant) error {
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
		head:  head{id: m.lastID, updated: now},
		state: map[string]any{},
		first: ownOf(cells),
	}
	m.write(key, cells)
	if g != nil {
		m.sessions[key].give(g)
	}
	return nil
}

// write sets the cells of an existing session. The caller holds the lock.
func (m *memory) write(key session.Key, cells []cell) {
	for _, c := range cells {
		state := m.scope(key, c.scope)
		if c.value == nil {
			delete(state, c.key)
		} else {
			state[c.key] = c.value
		}
	}
}

func (m *memory) scope(key session.Key, s session.Scope) map[string]any {
	switch s {
	case session.ScopeApp:
		return place(m.apps, key.App)
	case session.ScopeUser:
		return place(m.users, owner{key.App, key.User})
	default:
		return m.sessions[key].state
	}
}

func place[K comparable](states map[K]map[string]any, k K) map[string]any {
	if states[k] == nil {
		states[k] = map[string]any{}
	}
	return states[k]
}

// merged is the state that a session's reader gets. The caller holds the lock.
func (m *memory) merged(key session.Key, s *memSession) map[string]any {
	app, user := m.apps[key.App], m.users[owner{key.App, key.User}]
	keys := len(app) + len(user) + len(s.state)
	if keys == 0 {
		return nil
	}
	all := make(map[string]any, keys)
	for _, scope := range []map[string]any{app, user, s.state} {
		for k, v := range scope {
			all[k] = clone(v)
		}
	}
	return all
}

func (m *memory) read(_ context.Context, key session.Key, w window) (*snapshot, error) {
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
	events = w.pick(events)
	snap := &snapshot{head: s.head, state: m.merged(key, s)}
	if len(events) > 0 {
		snap.events = make([]stored, len(events))
		for i, e := range events {
			snap.events[i] = stored{e, s.texts[e.Seq-1], memEventBytes}
		}
	}
	return snap, nil
}

func (m *memory) list(_ context.Context, q sessionQuery) ([]*listed, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.closed {
		return nil, errClosed
	}
	var all []*listed
	for key, s := range m.sessions {
		if q.wants(key, s.head) {
			all = append(all, &listed{key: key, head: s.head})
		}
	}
	slices.SortFunc(all, func(a, b *listed) int { return cmp.Compare(a.id, b.id) })
	if q.most > 0 && len(all) > q.most {
		all = all[:q.most]
	}
	for _, l := range all {
		l.state = m.merged(l.key, m.sessions[l.key])
	}
	return all, nil
}

func (q sessionQuery) wants(key session.Key, h head) bool {
	return key.App == q.app && (q.user == "" || key.User == q.user) && h.id > q.after &&
		(q.before.IsZero() || h.updated.Before(q.before))
}

func (m *memory) remove(_ context.Context, key session.Key) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return errClosed
	}
	delete(m.sessions, key)
	return nil
}

func (m *memory) append(_ context.Context, rec record) (placed, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return placed{}, errClosed
	}
	s, ok := m.sessions[rec.key]
	if !ok {
		return placed{}, errNotFound(rec.key.ID)
	}
	if seq := s.seqOf(rec.event.ID); seq != 0 {
		if len(rec.updates) > 0 {
			rec.event.Actions.StateDelta = s.events[seq-1].Actions.StateDelta
		}
		return placed{seq, s.texts[seq-1], memEventBytes}, nil
	}
	if rec.epoch != 0 && rec.epoch != s.lease.epoch {
		return placed{}, errFenced(rec.key.ID)
	}
	if s.version != rec.version || rec.id != 0 && rec.id != s.id {
		return placed{}, errStale(rec.key.ID, rec.version, s.version)
	}
	var computed []cell
	if len(rec.updates) > 0 {
		var err error
		computed, rec.text, err = rec.settle(rec.event, func(u *update) any {
			return clone(m.scope(rec.key, u.scope)[u.key])
		})
		if err != nil {
			return placed{}, err
		}
	}
	s.add(rec.event, int64(len(rec.text)))
	m.write(rec.key, rec.cells)
	m.write(rec.key, computed)
	return placed{s.version, int64(len(rec.text)), memEventBytes}, nil
}

func (m *memory) shared(_ context.Context, key session.Key) (map[string]any, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.closed {
		return nil, errClosed
	}
	all := m.merged(key, &memSession{})
	if all == nil {
		all = map[string]any{}
	}
	return all, nil
}

func (m *memory) size(_ context.Context, key session.Key) (int64, error) {
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

// shortSession is the number of events up to which one is sooner looked for than
// looked up.
const shortSession = 16

// seqOf is the place of an event that the session has; 0 if it has not.
func (s *memSession) seqOf(id string) int64 {
	if s.seqs != nil {
		return s.seqs[id]
	}
	return 1 + int64(slices.IndexFunc(s.events, func(ev *session.Event) bool { return ev.ID == id }))
}

func (s *memSession) add(ev *session.Event, text int64) {
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

func (m *memory) ping(context.Context) error {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.closed {
		return errClosed
	}
	return nil
}

func (m *memory) close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	clear(m.sessions)
	return nil
}
