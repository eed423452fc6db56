package store

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"agenthost/pkg/session"
)

// limits are the maximum sizes of the parts of a session, in bytes. They are
// checked before each write against the session in memory, which has the current
// state and the total size of its events.
type limits struct{ state, event, session int64 }

// appendLimits are the limits of one append.
type appendLimits struct {
	limits
	state *session.State
	delta map[string]any // of the event
	size  int64          // of the session's events so far
}

// largeGrowth is from how many bytes on writes of the same shared state wait for
// each other, so that each is checked against what those before it have left.
// growthWait is how long.
const (
	largeGrowth = 64 << 10
	growthWait  = 30 * time.Second
)

// writeRecord checks a record against the limits, encodes its event, and passes it to
// the backend. The results of updates are checked when the backend computes them.
func (s *Sessions) writeRecord(ctx context.Context, sess *session.Session, rec *AppendRecord) (AppendResult, error) {
	size, err := s.loadEventBytes(ctx, sess)
	if err != nil {
		return AppendResult{}, err
	}
	b := &appendLimits{s.limits, sess.State, rec.Event.Actions.StateDelta, size}
	if len(b.delta) > 0 || len(rec.Updates) > 0 {
		release, err := s.lockGrowth(ctx, rec.Key, b, rec.Updates)
		if err != nil {
			return AppendResult{}, err
		}
		defer release()
		if err := b.checkDelta(); err != nil {
			return AppendResult{}, err
		}
	}
	if len(rec.Updates) > 0 {
		rec.limits = b
		return s.backend.AppendEvent(ctx, *rec)
	}
	room := eventBuffers.Get().(*[]byte)
	if rec.Text, err = b.encodeEvent((*room)[:0], rec.Event); err != nil {
		return AppendResult{}, err
	}
	at, err := s.backend.AppendEvent(ctx, *rec)
	if *room = rec.Text; cap(*room) <= maxPooledBuffer {
		eventBuffers.Put(room)
	}
	return at, err
}

// eventBuffers is room for the JSON of events, each until it is stored.
var eventBuffers = sync.Pool{New: func() any { return new([]byte) }}

// maxPooledBuffer is the most that is kept of it.
const maxPooledBuffer = 64 << 10

// lockGrowth waits for other large writes of the same shared state in this process,
// and reads the state that they have left. Small writes do not wait.
func (s *Sessions) lockGrowth(ctx context.Context, key session.Key, b *appendLimits, updates []SharedUpdate) (release func(), err error) {
	growth := b.stateGrowth()
	for _, u := range updates {
		for _, step := range u.Steps {
			growth[u.Scope] += session.EntrySize("", session.Normalize(step.Value))
		}
	}
	var held []session.Key
	release = func() {
		for _, k := range held {
			s.growing.releaseSession(k)
		}
	}
	defer func() {
		if err != nil {
			release()
		}
	}()
	// All wait in this order, so that no two wait for each other.
	for _, scope := range []session.Scope{session.ScopeApp, session.ScopeUser} {
		if growth[scope] < largeGrowth {
			continue
		}
		owner := session.Key{App: key.App}
		if scope == session.ScopeUser {
			owner.User = key.User
		}
		if turn := s.growing.acquireOrEnqueue(owner); turn != nil {
			if err := s.growing.waitTurn(ctx, owner, turn, growthWait); err != nil {
				return nil, fmt.Errorf("writing state of the %s: %w", scopeName(scope), err)
			}
		}
		held = append(held, owner)
	}
	if len(held) == 0 {
		return release, nil
	}
	all, err := s.backend.ReadSharedState(ctx, key)
	if err != nil {
		return nil, err
	}
	for k, v := range b.state.All() {
		if scope, _ := session.ScopeOf(k); scope == session.ScopeSession {
			all[k] = v
		}
	}
	b.state = session.NewState(all)
	return release, nil
}

// loadEventBytes returns the total size of the session's events. For a partial read it
// queries the backend once.
func (s *Sessions) loadEventBytes(ctx context.Context, sess *session.Session) (int64, error) {
	n := sess.History.Bytes()
	if n > 0 || sess.Version == 0 {
		return n, nil
	}
	n, err := s.backend.SumEventBytes(ctx, sess.Key)
	if err == nil {
		sess.History.AddBytes(n)
	}
	return n, err
}

// writeInitial checks the state that a session begins with, and creates the session.
func (s *Sessions) writeInitial(ctx context.Context, key session.Key, state map[string]any, g *LeaseGrant) error {
	cells := SplitState(state)
	b := &appendLimits{limits: s.limits, delta: state}
	if slices.ContainsFunc(cells, func(c StateWrite) bool { return c.Scope != session.ScopeSession }) {
		shared, err := s.backend.ReadSharedState(ctx, key)
		if err != nil {
			return err
		}
		b.state = session.NewState(shared)
	}
	release, err := s.lockGrowth(ctx, key, b, nil)
	if err != nil {
		return err
	}
	defer release()
	if err := b.checkDelta(); err != nil {
		return err
	}
	return s.backend.CreateSession(ctx, key, cells, s.currentTime(), g)
}

// encodeEvent writes the JSON of an event that is not too long into room.
func (b *appendLimits) encodeEvent(room []byte, ev *session.Event) ([]byte, error) {
	text, err := session.AppendEvent(room, ev)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", err, session.ErrInvalid)
	}
	n := int64(len(text))
	if n > b.event {
		return nil, &session.LimitError{Part: "event", Limit: b.event}
	}
	if b.size+n > b.session {
		return nil, &session.LimitError{Part: "session", Limit: b.session, Hint: "start a new session"}
	}
	return text, nil
}

// checkDelta checks what the delta of the event does to the state.
func (b *appendLimits) checkDelta() error {
	if len(b.delta) == 0 {
		return nil
	}
	return b.checkScopes(nil, b.stateGrowth())
}

// stateGrowth is by how much the delta makes each scope larger.
func (b *appendLimits) stateGrowth() *[session.ScopeTemp]int64 {
	var growth [session.ScopeTemp]int64
	for k, v := range b.delta {
		scope, _ := session.ScopeOf(k)
		if scope == session.ScopeTemp {
			continue
		}
		old, _ := b.state.Get(k)
		growth[scope] += session.EntrySize(k, v) - session.EntrySize(k, old)
	}
	return &growth
}

// checkUpdates checks what updates do to shared state, by the values before and
// after them. The rest of the state is what the session's reader has seen.
func (b *appendLimits) checkUpdates(before, after map[string]any) error {
	since, growth := *b.stateGrowth(), [session.ScopeTemp]int64{}
	for k, v := range after {
		scope, _ := session.ScopeOf(k)
		seen, _ := b.state.Get(k)
		was := session.EntrySize(k, before[k])
		since[scope] += was - session.EntrySize(k, seen)
		growth[scope] += session.EntrySize(k, v) - was
	}
	return b.checkScopes(&since, &growth)
}

// checkScopes refuses a scope that grows beyond the limit. One that is too large
// already may shrink.
func (b *appendLimits) checkScopes(since, growth *[session.ScopeTemp]int64) error {
	for scope, n := range growth {
		if n <= 0 {
			continue
		}
		size := b.state.Size(session.Scope(scope)) + n
		if since != nil {
			size += since[scope]
		}
		if size > b.limits.state {
			return &session.LimitError{Part: "state of the " + scopeName(session.Scope(scope)), Limit: b.limits.state}
		}
	}
	return nil
}

func scopeName(s session.Scope) string {
	switch s {
	case session.ScopeApp:
		return "app"
	case session.ScopeUser:
		return "user"
	default:
		return "session"
	}
}
