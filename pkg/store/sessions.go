package store

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"agenthost/internal/codec"
	"agenthost/pkg/session"
)

// Sessions stores sessions with their events and state. It is safe for concurrent use. Besides the
// documented errors, methods return errors from the backend and from a canceled context.
type Sessions struct {
	backend SessionBackend
	clock   func() time.Time
	newID   func() string
	cache   *cache
	limits  limits
	// growing is the queue before the shared state that is written much of.
	growing *growthQueue
	runs    *runQueue
	leases  *leaseManager
	active  activeRuns
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
// stored, or if the id is one that ADK reserves: user, . and ..
func (s *Sessions) Create(ctx context.Context, key session.Key, state map[string]any) (*session.Session, error) {
	return s.CreateExpiring(ctx, key, state, time.Time{})
}

// CreateExpiring is Create for a session that the store deletes at a time; the zero time is never.
// It fails with ErrInvalid if the store's sessions cannot expire; see [ExpiringBackend].
func (s *Sessions) CreateExpiring(ctx context.Context, key session.Key, state map[string]any, expires time.Time) (*session.Session, error) {
	key.ID = strings.TrimSpace(key.ID)
	if key.ID == "" {
		key.ID = s.newID()
	}
	if err := codec.CheckSession(key); err != nil {
		return nil, err
	}
	if slices.Contains(reservedIDs, key.ID) {
		return nil, fmt.Errorf("session id %q is reserved, use another one: %w", key.ID, session.ErrInvalid)
	}
	state, err := codec.CanonicalizeState(state)
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	g := s.leases.pendingGrant(key)
	if err := s.writeInitial(ctx, key, state, expires, g); err != nil {
		return nil, err
	}
	if g != nil {
		if err := s.leases.trackLease(g, nil); err != nil {
			return nil, err
		}
	}
	return s.Get(ctx, key, nil)
}

// reservedIDs are the ids that new sessions cannot have, as in ADK since 2.10: in its
// folders and buckets they are those of a user's artifacts, or path segments.
var reservedIDs = []string{"user", ".", ".."}

// writeInitial checks the state that a session begins with, and creates the session.
func (s *Sessions) writeInitial(ctx context.Context, key session.Key, state map[string]any, expires time.Time, g *LeaseGrant) error {
	expiring, _ := s.backend.(ExpiringBackend)
	if !expires.IsZero() && expiring == nil {
		return fmt.Errorf("sessions of this store do not expire: set retention in app.yaml: %w", session.ErrInvalid)
	}
	cells := SplitState(state)
	b := &appendLimits{limits: s.limits, delta: state}
	if slices.ContainsFunc(cells, func(c StateWrite) bool { return c.Scope != session.ScopeSession }) {
		shared, err := s.backend.ReadSharedState(ctx, key)
		if err != nil {
			return err
		}
		b.state = session.NewState(shared)
	}
	release, err := s.growing.lockGrowth(ctx, key, b, nil)
	if err != nil {
		return err
	}
	defer release()
	if err := b.checkDelta(); err != nil {
		return err
	}
	if !expires.IsZero() {
		return expiring.CreateExpiring(ctx, key, cells, expires, g)
	}
	return s.backend.CreateSession(ctx, key, cells, s.currentTime(), g)
}

// Get reads a session. Its history is shared with other readers and grows with
// later appends, unless opts selects events. Its state belongs to the caller. A
// missing session is ErrNotFound.
func (s *Sessions) Get(ctx context.Context, key session.Key, opts *GetOptions) (*session.Session, error) {
	w, err := opts.toEventWindow()
	if err != nil {
		return nil, err
	}
	if err := codec.CheckSession(key); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if w.IsNarrow() && s.cache.get(key) == nil {
		snap, err := s.backend.ReadSession(ctx, key, w)
		if err != nil {
			return nil, err
		}
		events := make([]*session.Event, len(snap.Events))
		for i, st := range snap.Events {
			events[i] = st.Event
		}
		return newSessionView(key, snap, session.NewHistory(events)), nil
	}
	sess, err := s.readWhole(ctx, key)
	if err == nil && w.IsNarrow() {
		whole := sess.History
		sess.History = session.NewHistory(w.FilterEvents(whole.Events()))
		sess.History.AddBytes(whole.Bytes())
	}
	return sess, err
}

func (o *GetOptions) toEventWindow() (EventWindow, error) {
	w := EventWindow{Last: -1}
	if o == nil {
		return w, nil
	}
	if n := o.NumRecentEvents; n != nil {
		if *n < 0 {
			return w, fmt.Errorf("number of recent events must not be negative, got %d: %w", *n, session.ErrInvalid)
		}
		w.Last = *n
	}
	if !o.After.IsZero() {
		w.After = &o.After
	}
	return w, nil
}

// readWhole reads a session with all its events. It loads only events that the
// cache does not have.
func (s *Sessions) readWhole(ctx context.Context, key session.Key) (*session.Session, error) {
	e := s.cache.get(key)
	w := EventWindow{Last: -1}
	if e != nil {
		w.ID = e.id
		w.Since, w.SinceID = e.lastEvent()
		s.cache.hits.Add(1)
	} else {
		s.cache.misses.Add(1)
	}
	snap, err := s.backend.ReadSession(ctx, key, w)
	if err != nil {
		return nil, err
	}
	switch {
	case e == nil || e.id != snap.ID:
		e = s.cache.put(key, snap)
	case snap.Whole:
		s.leases.logger.Warn("cached events do not match the database, reloading session: the database was restored to an older state", "app", key.App, "user", key.User, "session", key.ID)
		s.cache.drop(key)
		e = s.cache.put(key, snap)
	default:
		s.cache.appendNew(e, snap.Events)
	}
	return newSessionView(key, snap, e.history), nil
}

func newSessionView(key session.Key, snap *Snapshot, h *session.History) *session.Session {
	return session.New(session.Session{Key: key, Version: snap.Version, History: h, LastUpdate: snap.Updated, Outcome: snap.Outcome}, snap.State)
}

// Delete deletes a session with its events, its outcomes and its own state; app: and user:
// keys stay. Deleting a missing session succeeds.
func (s *Sessions) Delete(ctx context.Context, key session.Key) error {
	return s.deleteBy(ctx, key, func() error { return s.backend.DeleteSession(ctx, key) })
}

// deleteBy deletes a session by a call of a backend.
func (s *Sessions) deleteBy(ctx context.Context, key session.Key, deleteRows func() error) error {
	if err := codec.CheckSession(key); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	defer s.leases.dropDeleted(key)
	defer s.cache.drop(key)
	return deleteRows()
}

// currentTime returns the clock's time in the databases' precision.
func (s *Sessions) currentTime() time.Time { return s.clock().UTC().Truncate(time.Microsecond) }

// Initial returns the session's own state as given to Create, without app:,
// user: and temp: keys. No event contains it. A missing session is ErrNotFound.
func (s *Sessions) Initial(ctx context.Context, key session.Key) (map[string]any, error) {
	if err := codec.CheckSession(key); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return s.backend.ReadInitialState(ctx, key)
}

// MaxPage is the maximum page size.
const MaxPage = 1000

// A PageRequest selects a page in a session list.
type PageRequest struct {
	App string
	// User selects one user; empty selects all users.
	User string
	// Size is how many sessions a page has at most, from 1 to 1000.
	Size int
	// Token is the token that the previous page returned as next; empty selects
	// the first page.
	Token string
	// WithoutState returns sessions whose state may be empty, which is cheaper.
	WithoutState bool
}

// MaxListed is how many sessions List returns at most.
const MaxListed = 10_000

// listBatch is how many states List reads at once.
const listBatch = 200

// List returns a user's sessions, or those of all the app's users if user is empty, with state and
// without events. As in ADK since 2.7, they are sorted by last update, user and id: the last one is
// the most recently active. Above MaxListed sessions, only those created last are included. An invalid
// app or user is ErrInvalid.
func (s *Sessions) List(ctx context.Context, app, user string) (all []*session.Session, err error) {
	_, err = s.VisitSessions(ctx, app, user, func(batch []*session.Session) error {
		all = append(all, batch...)
		return nil
	})
	return all, err
}

// VisitSessions passes List's sessions to a function in batches, so that a caller need not hold all states. A
// session that is deleted meanwhile may be left out. It stops at an error from visit and returns it, and reports whether
// there are older sessions than List has.
func (s *Sessions) VisitSessions(ctx context.Context, app, user string, visit func([]*session.Session) error) (older bool, err error) {
	heads, err := s.querySessions(ctx, SessionQuery{App: app, User: user, Newest: true, Limit: MaxListed + 1, WithoutState: true})
	if err != nil {
		return false, err
	}
	if len(heads) > MaxListed {
		heads, older = heads[:MaxListed], true
	}
	slices.SortFunc(heads, func(a, b *ListedSession) int {
		return cmp.Or(a.Updated.Compare(b.Updated), strings.Compare(a.Key.User, b.Key.User), strings.Compare(a.Key.ID, b.Key.ID))
	})
	for batch := range slices.Chunk(heads, listBatch) {
		batch, err := s.addStates(ctx, app, batch)
		if err != nil {
			return false, err
		}
		if err := visit(newSessionViews(batch)); err != nil {
			return false, err
		}
	}
	return older, nil
}

// addStates reads the states that a list has left out. It returns the batch without sessions that were deleted
// meanwhile.
func (s *Sessions) addStates(ctx context.Context, app string, batch []*ListedSession) ([]*ListedSession, error) {
	q := SessionQuery{App: app}
	for _, l := range batch {
		if l.State == nil {
			q.IDs = append(q.IDs, l.ID)
		}
	}
	if q.IDs == nil {
		return batch, nil
	}
	rows, err := s.querySessions(ctx, q)
	if err != nil {
		return nil, err
	}
	byID := make(map[int64]*ListedSession, len(rows))
	for _, row := range rows {
		byID[row.ID] = row
	}
	whole := make([]*ListedSession, 0, len(batch))
	for _, l := range batch {
		if row := byID[l.ID]; l.State == nil && row != nil {
			l = row
		} else if l.State == nil {
			continue
		}
		whole = append(whole, l)
	}
	return whole, nil
}

// Page returns a page of List's sessions in creation order, and the next page's token, which is
// empty after the last one. Sessions created meanwhile appear at the end, deleted ones are omitted.
// An invalid size or token is ErrInvalid.
func (s *Sessions) Page(ctx context.Context, req *PageRequest) (all []*session.Session, next string, err error) {
	if req.Size < 1 || req.Size > MaxPage {
		return nil, "", fmt.Errorf("page size %d is not between 1 and %d: %w", req.Size, MaxPage, session.ErrInvalid)
	}
	q := SessionQuery{App: req.App, User: req.User, Limit: req.Size + 1, WithoutState: req.WithoutState}
	if req.Token != "" {
		if q.After, err = strconv.ParseInt(req.Token, 36, 64); err != nil || q.After < 0 {
			return nil, "", fmt.Errorf("page token %q is not from a previous page: %w", req.Token, session.ErrInvalid)
		}
	}
	rows, err := s.querySessions(ctx, q)
	if err != nil {
		return nil, "", err
	}
	if len(rows) > req.Size {
		rows = rows[:req.Size]
		next = strconv.FormatInt(rows[req.Size-1].ID, 36)
	}
	return newSessionViews(rows), next, nil
}

func (s *Sessions) querySessions(ctx context.Context, q SessionQuery) ([]*ListedSession, error) {
	if q.App == "" {
		return nil, fmt.Errorf("app is required: %w", session.ErrInvalid)
	}
	if err := codec.CheckText("app", q.App, codec.MaxApp); err != nil {
		return nil, err
	}
	if err := codec.CheckText("user id", q.User, codec.MaxUser); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return s.backend.ListSessions(ctx, q)
}

func newSessionViews(rows []*ListedSession) []*session.Session {
	all := make([]*session.Session, len(rows))
	for i, l := range rows {
		all[i] = newSessionView(l.Key, &Snapshot{Head: l.Head, State: l.State}, session.NewHistory(nil))
	}
	return all
}

// ValidateOwner reports whether sessions may belong to an app and a user: an error that
// is [session.ErrInvalid] names what is wrong.
func ValidateOwner(app, user string) error { return codec.CheckOwner(app, user) }
