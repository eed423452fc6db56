package vertexstore

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"agenthost/internal/codec"
	"agenthost/pkg/session"
	"agenthost/pkg/store"
	"agenthost/pkg/store/backend"
)

// Sessions is a [store.SessionBackend] in Vertex AI Agent Engine. It has no leases:
// [store.Backends.Unshared] must be true. It is safe for concurrent use.
type Sessions struct {
	client *client
	// ttl is how long a session exists; 0 is the service's default, a year.
	ttl time.Duration
	// freshFor is how long an append trusts an event list.
	freshFor time.Duration

	// locks serialize a session's appends, shared those that change shared state.
	locks  [256]sync.Mutex
	shared sync.Mutex

	mu     sync.Mutex
	closed bool
	logs   map[session.Key]*eventLog
}

var (
	_ store.SessionBackend  = (*Sessions)(nil)
	_ store.ExpiringBackend = (*Sessions)(nil)
)

// listFreshFor is the default for [Sessions.freshFor]. Listing before each append would double the
// requests in a turn, and the service has a request quota.
const listFreshFor = 2 * time.Second

// minTTL is the service's minimum.
const minTTL = 24 * time.Hour

const sessionParameters = "agentengine: session URLs have the parameter ttl, such as ttl=720h"

// readTTL reads a URL's parameters.
func readTTL(parameters string) (time.Duration, error) {
	values, err := url.ParseQuery(parameters)
	if err != nil || len(values) > 1 || len(values) == 1 && !values.Has("ttl") {
		return 0, errors.New(sessionParameters)
	}
	if len(values) == 0 {
		return 0, nil
	}
	ttl, err := time.ParseDuration(values.Get("ttl"))
	if err != nil {
		return 0, errors.New(sessionParameters)
	}
	if ttl < minTTL {
		return 0, fmt.Errorf("ttl must be at least %s, got %s", minTTL, ttl)
	}
	return ttl, nil
}

// Open returns an engine's sessions, by a URL such as agentengine://123. Its parameter ttl is how
// long a session exists after its creation, at least 24h; the default is the service's, a year.
// Open reads from the engine once, so that a wrong engine, project or location, or a missing role,
// is an error.
func Open(ctx context.Context, rawURL string, o *Options) (*Sessions, error) {
	if o == nil {
		o = &Options{}
	}
	name, parameters, _ := strings.Cut(rawURL, "?")
	ttl, err := readTTL(parameters)
	if err != nil {
		return nil, err
	}
	c, err := newClient(engineKind, name, o)
	if err != nil {
		return nil, err
	}
	b := &Sessions{client: c, ttl: ttl, freshFor: listFreshFor, logs: map[session.Key]*eventLog{}}
	return b, b.Ping(ctx)
}

// Engine returns the engine's resource name.
func (b *Sessions) Engine() string { return b.client.resourceName() }

// pingTimeout limits Ping.
const pingTimeout = 10 * time.Second

// Ping checks that the engine exists and that its sessions can be read.
func (b *Sessions) Ping(ctx context.Context) error {
	if err := b.checkOpen(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	var list struct{}
	_, err := b.client.sendOnce(ctx, &call{method: http.MethodGet, path: b.client.resourceName() + "/sessions", query: url.Values{"pageSize": {"1"}}}, nil, &list)
	if err != nil {
		return fmt.Errorf("sessions of %s: %w", b.client.resourceName(), err)
	}
	return nil
}

// Close implements [store.SessionBackend].
func (b *Sessions) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	clear(b.logs)
	b.client.http.CloseIdleConnections()
	return nil
}

func (b *Sessions) checkOpen() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return store.ErrClosed
	}
	return nil
}

// lockSession serializes one session's calls.
func (b *Sessions) lockSession(key session.Key) (unlock func(), err error) {
	if err := b.checkOpen(); err != nil {
		return nil, err
	}
	h := fnv.New32a()
	h.Write([]byte(key.String()))
	m := &b.locks[h.Sum32()%uint32(len(b.locks))]
	m.Lock()
	return m.Unlock, nil
}

// CreateSession implements [store.SessionBackend]. The service sets the time.
func (b *Sessions) CreateSession(ctx context.Context, key session.Key, cells []store.StateWrite, _ time.Time, g *store.LeaseGrant) error {
	return b.CreateExpiring(ctx, key, cells, time.Time{}, g)
}

// CreateExpiring implements [store.ExpiringBackend]; the zero time means the URL's ttl. The service
// requires a time at least 24 hours after the creation.
func (b *Sessions) CreateExpiring(ctx context.Context, key session.Key, cells []store.StateWrite, expires time.Time, g *store.LeaseGrant) error {
	if !expires.IsZero() && time.Until(expires) < minTTL-time.Minute { // the clocks may differ
		return fmt.Errorf("sessions in Vertex AI exist for at least 24 hours, this one would expire at %s: %w", expires.UTC().Format(time.RFC3339), session.ErrInvalid)
	}
	unlock, err := b.lockSession(key)
	if err != nil {
		return err
	}
	defer unlock()
	r, err := b.insertSession(ctx, key, cells, expires)
	if err != nil {
		return err
	}
	b.setLog(key, newEventLog(r))
	if g != nil {
		g.ID, g.Epoch = r.headID(), 1
	}
	return nil
}

// ReadSession implements [store.SessionBackend].
func (b *Sessions) ReadSession(ctx context.Context, key session.Key, w store.EventWindow) (*store.Snapshot, error) {
	unlock, err := b.lockSession(key)
	if err != nil {
		return nil, err
	}
	defer unlock()
	snap, err := b.readSnapshot(ctx, key, w)
	if errors.Is(err, errRecreated) { // the log was dropped
		snap, err = b.readSnapshot(ctx, key, w)
	}
	return snap, err
}

// readSnapshot reads a session with two requests: its events, then its state, so that the state has
// all events' effects.
func (b *Sessions) readSnapshot(ctx context.Context, key session.Key, w store.EventWindow) (*store.Snapshot, error) {
	l := b.findLog(key)
	if l == nil {
		l = &eventLog{seqs: map[string]int64{}}
	}
	events, err := b.readWindow(ctx, key, l, w)
	if err != nil {
		return nil, err
	}
	r, err := b.getSession(ctx, key)
	if err != nil {
		return nil, err
	}
	if l.id == 0 {
		l.id, l.created = r.headID(), r.createdAt()
		b.setLog(key, l)
		events = events[l.findStart(w):]
	}
	if r.headID() != l.id {
		b.setLog(key, nil)
		return nil, recreatedError(key)
	}
	from := len(l.entries) - len(events)
	snap := &store.Snapshot{Head: l.storeHead(), Events: events, Whole: from == 0 && w.ID == l.id && w.Since > 0 && !w.IsNarrow()}
	if snap.State, _, err = r.decodeState(); err != nil {
		return nil, err
	}
	if n := len(l.entries); n > 0 {
		snap.LastID = l.entries[n-1].id
	}
	if w.IsNarrow() {
		plain := make([]*session.Event, len(events))
		for i := range events {
			plain[i] = events[i].Event
		}
		snap.Events = events[len(events)-len(w.FilterEvents(plain)):]
	}
	return snap, nil
}

// ListSessions implements [store.SessionBackend]. The service does not return how many events there
// are: the versions are 0.
func (b *Sessions) ListSessions(ctx context.Context, q store.SessionQuery) ([]*store.ListedSession, error) {
	if err := b.checkOpen(); err != nil {
		return nil, err
	}
	return b.listSessions(ctx, q)
}

// DeleteSession implements [store.SessionBackend].
func (b *Sessions) DeleteSession(ctx context.Context, key session.Key) error {
	unlock, err := b.lockSession(key)
	if err != nil {
		return err
	}
	defer unlock()
	switch _, err := b.getSession(ctx, key); {
	case errors.Is(err, session.ErrNotFound):
		b.setLog(key, nil)
		return nil
	case err != nil:
		return err
	}
	path, err := b.sessionPath(key)
	if err != nil {
		return err
	}
	var op operation
	err = b.client.sendCall(ctx, &call{method: http.MethodDelete, path: path}, &op)
	switch {
	case isMissingSession(err):
		err = nil
	case err == nil:
		err = b.client.waitOperation(ctx, &op)
	}
	if err != nil {
		return fmt.Errorf("deleting session %s: %w", key.ID, err)
	}
	b.setLog(key, nil)
	return nil
}

// AppendEvent implements [store.SessionBackend].
func (b *Sessions) AppendEvent(ctx context.Context, rec store.AppendRecord) (at store.AppendResult, err error) {
	unlock, err := b.lockSession(rec.Key)
	if err != nil {
		return at, err
	}
	defer unlock()
	l, err := b.openLogForAppend(ctx, rec.Key)
	if err != nil {
		return at, err
	}
	if !l.isFresh(b.freshFor) {
		if _, err := b.readEvents(ctx, rec.Key, l, len(l.entries)); err != nil {
			return at, err
		}
	}
	if seq := l.seqs[rec.Event.ID]; seq != 0 {
		return b.repeatAppend(ctx, &rec, l, seq)
	}
	if n := int64(len(l.entries)); rec.Version != n || rec.ID != 0 && rec.ID != l.id {
		return at, backend.SessionStale(rec.Key.ID, rec.Version, n)
	}
	if err := checkCells(rec.Writes); err != nil {
		return at, err
	}
	if hasShared(&rec) {
		b.shared.Lock()
		defer b.shared.Unlock()
	}
	if len(rec.Updates) > 0 {
		if err := b.computeUpdates(ctx, &rec); err != nil {
			return at, err
		}
	}
	return b.insertEvent(ctx, &rec, l)
}

// hasShared reports whether an append changes shared state.
func hasShared(rec *store.AppendRecord) bool {
	for _, w := range rec.Writes {
		if w.Scope != session.ScopeSession {
			return true
		}
	}
	return len(rec.Updates) > 0
}

// repeatAppend is the result when appending an event that the session already has.
func (b *Sessions) repeatAppend(ctx context.Context, rec *store.AppendRecord, l *eventLog, seq int64) (store.AppendResult, error) {
	if len(rec.Updates) > 0 {
		events, err := b.readEvents(ctx, rec.Key, l, 0)
		if err != nil {
			return store.AppendResult{}, err
		}
		rec.Event.Actions.StateDelta = events[seq-1].Event.Actions.StateDelta
	}
	return l.appendResult(seq), nil
}

// computeUpdates computes a record's updates from the state in the service.
func (b *Sessions) computeUpdates(ctx context.Context, rec *store.AppendRecord) error {
	r, err := b.getSession(ctx, rec.Key)
	if err != nil {
		return err
	}
	state, _, err := r.decodeState()
	if err != nil {
		return err
	}
	given := rec.Event.Actions.StateDelta
	cells, text, err := rec.ComputeUpdates(rec.Event, func(u *store.SharedUpdate) any { return codec.CloneValue(state[u.Key]) })
	if err == nil {
		err = checkCells(cells)
	}
	if err != nil {
		rec.Event.Actions.StateDelta = given
		return err
	}
	rec.Text = text
	return nil
}

// SumEventBytes implements [store.SessionBackend].
func (b *Sessions) SumEventBytes(ctx context.Context, key session.Key) (n int64, err error) {
	unlock, err := b.lockSession(key)
	if err != nil {
		return 0, err
	}
	defer unlock()
	l, err := b.openLog(ctx, key)
	if err != nil {
		return 0, err
	}
	if _, err := b.readEvents(ctx, key, l, len(l.entries)); err != nil {
		return 0, err
	}
	for _, e := range l.entries {
		n += e.bytes
	}
	return n, nil
}

// ReadInitialState implements [store.SessionBackend]. For another program's session it returns the
// keys that no event has written.
func (b *Sessions) ReadInitialState(ctx context.Context, key session.Key) (map[string]any, error) {
	unlock, err := b.lockSession(key)
	if err != nil {
		return nil, err
	}
	defer unlock()
	r, err := b.getSession(ctx, key)
	if err != nil {
		return nil, err
	}
	state, initial, err := r.decodeState()
	if err != nil || initial != nil {
		return initial, err
	}
	maps.DeleteFunc(state, func(k string, _ any) bool {
		scope, _ := session.ScopeOf(k)
		return scope != session.ScopeSession
	})
	if r.Labels[createLabel] != "" || len(state) == 0 {
		return map[string]any{}, nil
	}
	events, err := b.readEvents(ctx, key, newEventLog(r), 0)
	for _, e := range events {
		for k := range e.Event.Actions.StateDelta {
			delete(state, k)
		}
	}
	return state, err
}

// ReadSharedState implements [store.SessionBackend]. A user without a session has no user: keys
// yet.
func (b *Sessions) ReadSharedState(ctx context.Context, key session.Key) (map[string]any, error) {
	if err := b.checkOpen(); err != nil {
		return nil, err
	}
	return b.readShared(ctx, key)
}

// AcquireLease implements [store.LeaseRows]. The service has no leases: it always succeeds for an
// existing session.
func (b *Sessions) AcquireLease(ctx context.Context, g *store.LeaseGrant) (string, error) {
	if err := b.checkOpen(); err != nil {
		return "", err
	}
	r, err := b.getSession(ctx, g.Key)
	if err != nil {
		return "", err
	}
	g.ID, g.Epoch = r.headID(), 1
	return "", nil
}

// ReadLease implements [store.LeaseRows]. The service has no leases: each one is free.
func (b *Sessions) ReadLease(context.Context, session.Key, time.Time) (string, error) {
	return "", b.checkOpen()
}

// RenewLeases implements [store.LeaseRows].
func (b *Sessions) RenewLeases(context.Context, []*store.LeaseGrant) ([]*store.LeaseGrant, error) {
	return nil, b.checkOpen()
}

// ReleaseLeases implements [store.LeaseRows].
func (b *Sessions) ReleaseLeases(context.Context, []*store.LeaseGrant) error { return b.checkOpen() }

// EarliestTime implements [store.RetentionRows]. The service has no clock to read.
func (b *Sessions) EarliestTime(_ context.Context, now time.Time) (time.Time, error) {
	return now, b.checkOpen()
}

// FindExpired implements [store.RetentionRows]. The service lists sessions only by user, so that it
// examines all.
func (b *Sessions) FindExpired(ctx context.Context, q store.ExpiryQuery) (*store.ExpiredPage, error) {
	if err := b.checkOpen(); err != nil {
		return nil, err
	}
	return b.listExpired(ctx, q)
}

// AcquireSweep implements [store.RetentionRows]. The service has no leases: it always succeeds.
func (b *Sessions) AcquireSweep(context.Context, store.Sweep) (bool, error) {
	return true, b.checkOpen()
}
