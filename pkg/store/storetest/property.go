package storetest

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"agenthost/pkg/session"
	"agenthost/pkg/store"
)

// A plainStore is the rules without any care for speed, disk or other programs:
// what a store must look like from outside.
type plainStore struct {
	order    []session.Key // by creation
	sessions map[session.Key]*plainSession
	apps     map[string]map[string]any
	users    map[store.UserKey]map[string]any
}

type plainSession struct {
	initial, own map[string]any
	events       []plainEvent
}

type plainEvent struct {
	id, text string
	at       time.Time
	delta    map[string]any
}

func newPlainStore() *plainStore {
	return &plainStore{
		sessions: map[session.Key]*plainSession{},
		apps:     map[string]map[string]any{},
		users:    map[store.UserKey]map[string]any{},
	}
}

// apply writes a delta to its scopes; nil takes a key away.
func (m *plainStore) apply(key session.Key, delta map[string]any) {
	for k, v := range delta {
		scope := m.sessions[key].own
		switch {
		case strings.HasPrefix(k, "temp:"):
			continue
		case strings.HasPrefix(k, "app:"):
			scope = findScope(m.apps, key.App)
		case strings.HasPrefix(k, "user:"):
			scope = findScope(m.users, store.UserKey{App: key.App, User: key.User})
		}
		if v == nil {
			delete(scope, k)
		} else {
			scope[k] = v
		}
	}
}

func (m *plainStore) state(key session.Key) map[string]any {
	all := map[string]any{}
	maps.Copy(all, m.apps[key.App])
	maps.Copy(all, m.users[store.UserKey{App: key.App, User: key.User}])
	maps.Copy(all, m.sessions[key].own)
	return all
}

// A trial carries operations out on stores that share a database, and on the
// plain one.
type trial struct {
	t      *rapid.T
	stores []*testStore
	plain  *plainStore
	app    string
	made   int // events
	// held are retained session handles.
	held []handle
}

// A handle is a session as a store gave it out. It belongs to that store.
type handle struct {
	*session.Session
	from *store.Sessions
}

// sessions belong to one store.
func (tr *trial) store() *testStore {
	return tr.stores[rapid.IntRange(0, len(tr.stores)-1).Draw(tr.t, "store")]
}

func (tr *trial) sessions() *store.Sessions { return tr.store().Sessions }

// key is one of few, so that operations meet.
func (tr *trial) key() session.Key {
	return session.Key{
		App:  tr.app,
		User: rapid.SampledFrom([]string{"ana", "Ana", "josé"}).Draw(tr.t, "user"),
		ID:   rapid.SampledFrom([]string{"s", "S", "日本"}).Draw(tr.t, "id"),
	}
}

func (tr *trial) delta() map[string]any {
	keys := rapid.SampledFrom([]string{"a", "A", "b", "user:a", "user:b", "app:a", "app:b", "temp:a", "x:y"})
	values := rapid.OneOf(
		rapid.Just[any](nil),
		rapid.Map(rapid.Int64(), func(n int64) any { return n }),
		rapid.Map(rapid.Float64Range(-1e300, 1e300), func(f float64) any { return f }),
		rapid.Map(rapid.StringN(0, 8, -1), func(s string) any { return s }),
		rapid.Map(rapid.Int64(), func(n int64) any { return []any{n, map[string]any{"k": true}} }),
	)
	return rapid.MapOfN(keys, values, 0, 4).Draw(tr.t, "delta")
}

func (tr *trial) is(what string, err, want error) {
	if !errors.Is(err, want) {
		tr.t.Fatalf("%s = %v, want %v", what, err, want)
	}
}

func (tr *trial) create(*rapid.T) {
	key, delta := tr.key(), tr.delta()
	sessions := tr.sessions()
	sess, err := sessions.Create(tr.t.Context(), key, delta)
	if tr.plain.sessions[key] != nil {
		tr.is("creating what is there", err, session.ErrExists)
		return
	}
	tr.is("Create", err, nil)
	own := map[string]any{}
	for k, v := range delta {
		if scope, _ := session.ScopeOf(k); scope == session.ScopeSession && v != nil {
			own[k] = v
		}
	}
	tr.plain.sessions[key] = &plainSession{initial: own, own: map[string]any{}}
	tr.plain.order = append(tr.plain.order, key)
	tr.plain.apply(key, delta)
	tr.held = append(tr.held, handle{sess, sessions})
	tr.same("created", key, sess)
}

// event is new, or has the id of one that may be there.
func (tr *trial) event(delta map[string]any) (*session.Event, plainEvent) {
	tr.made++
	id := tr.made
	if rapid.IntRange(0, 9).Draw(tr.t, "repeat") == 0 {
		id = rapid.IntRange(1, tr.made).Draw(tr.t, "id of the event")
	}
	ev := textEvent("user", fmt.Sprint("text ", tr.made))
	ev.ID = fmt.Sprint("event-", id)
	ev.Timestamp = time.Unix(int64(rapid.IntRange(1, 6).Draw(tr.t, "time")), 0).UTC()
	ev.Actions.StateDelta = maps.Clone(delta)
	return ev, plainEvent{ev.ID, ev.Text(), ev.Timestamp, session.WithoutTemp(delta)}
}

func (tr *trial) append(*rapid.T) {
	sessions := tr.sessions()
	sess, err := sessions.Get(tr.t.Context(), tr.key(), nil)
	if err != nil {
		tr.is("Get", err, session.ErrNotFound)
		return
	}
	tr.appendTo(handle{sess, sessions}, tr.delta())
}

// appendToHeld uses a handle that may be old.
func (tr *trial) appendToHeld(t *rapid.T) {
	if len(tr.held) == 0 {
		t.Skip("no session is held")
	}
	tr.appendTo(rapid.SampledFrom(tr.held).Draw(t, "handle"), tr.delta())
}

func (tr *trial) appendTo(sess handle, delta map[string]any) {
	ev, plain := tr.event(delta)
	there, version, before := tr.plain.sessions[sess.Key], sess.Version, sess.State.All()
	err := sess.from.Append(tr.t.Context(), sess.Session, ev)
	if there == nil {
		tr.is("Append to nothing", err, session.ErrNotFound)
		return
	}
	at := slices.IndexFunc(there.events, func(e plainEvent) bool { return e.id == plain.id })
	switch now := int64(len(there.events)); {
	case at >= 0 && int64(at) < version+1:
		tr.is("Append of an event that is there", err, nil)
		tr.equal("place of an event that is there", int64(at+1), ev.Seq)
	case at >= 0 || now != version:
		tr.is("Append to an old handle", err, session.ErrStale)
		tr.equal("state after a refusal", before, sess.State.All())
		tr.equal("version after a refusal", version, sess.Version)
	default:
		tr.is("Append", err, nil)
		there.events = append(there.events, plain)
		tr.plain.apply(sess.Key, delta)
		tr.equal("version", now+1, sess.Version)
		for k, v := range delta {
			if got, _ := sess.State.Get(k); !cmp.Equal(v, got) {
				tr.t.Fatalf("%s is %v in the handle, want %v", k, got, v)
			}
		}
	}
}

// rewind takes a session's end back as the host does: by an event whose delta makes the session's
// own state what it was.
func (tr *trial) rewind(t *rapid.T) {
	key, sessions := tr.key(), tr.sessions()
	sess, err := sessions.Get(t.Context(), key, nil)
	if err != nil || sess.Version == 0 {
		t.Skip("nothing to take back")
	}
	there := tr.plain.sessions[key]
	kept := rapid.IntRange(0, len(there.events)-1).Draw(t, "kept")
	then, err := sessions.Initial(t.Context(), key)
	tr.is("Initial", err, nil)
	tr.equal("initial state", there.initial, then)
	for _, ev := range sess.Events()[:kept] {
		for k, v := range ev.Actions.StateDelta {
			if scope, _ := session.ScopeOf(k); scope == session.ScopeSession {
				then[k] = v
			}
		}
	}
	delta := map[string]any{}
	for k := range there.own {
		delta[k] = nil
	}
	maps.Copy(delta, then)
	tr.appendTo(handle{sess, sessions}, delta)
}

func (tr *trial) delete(t *rapid.T) {
	key := tr.key()
	tr.is("Delete", tr.sessions().Delete(t.Context(), key), nil)
	delete(tr.plain.sessions, key)
	tr.plain.order = slices.DeleteFunc(tr.plain.order, func(k session.Key) bool { return k == key })
	// An old handle for a recreated session may have the same version by chance; either result is
	// allowed.
	tr.held = slices.DeleteFunc(tr.held, func(h handle) bool { return h.Key == key })
}

// evictCache empties a cache, as time does.
func (tr *trial) evictCache(*rapid.T) { tr.store().dropCache() }

// part reads an event window.
func (tr *trial) part(t *rapid.T) {
	o, key := &store.GetOptions{}, tr.key()
	if n := rapid.IntRange(-1, 4).Draw(t, "the latest"); n >= 0 {
		o.NumRecentEvents = &n
	}
	if s := rapid.IntRange(0, 7).Draw(t, "after"); s > 0 {
		o.After = time.Unix(int64(s), 0)
	}
	sess, err := tr.sessions().Get(t.Context(), key, o)
	there := tr.plain.sessions[key]
	if there == nil {
		tr.is("Get of nothing", err, session.ErrNotFound)
		return
	}
	tr.is("Get", err, nil)
	tr.equal("events of the window", there.window(o), textsOf(sess))
	tr.equal("version", int64(len(there.events)), sess.Version)
}

func (s *plainSession) window(o *store.GetOptions) []string {
	var texts []string
	for _, e := range s.events {
		if !o.After.IsZero() && e.at.Before(o.After) {
			texts = nil
			continue
		}
		texts = append(texts, e.text)
	}
	if n := o.NumRecentEvents; n != nil && len(texts) > *n {
		texts = slices.Clip(texts[len(texts)-*n:])
	}
	if len(texts) == 0 {
		return nil
	}
	return texts
}

func (tr *trial) list(t *rapid.T) {
	user := rapid.SampledFrom([]string{"", "ana", "Ana", "absent"}).Draw(t, "user")
	got, err := tr.sessions().List(t.Context(), tr.app, user)
	tr.is("List", err, nil)
	var want []session.Key
	for _, key := range tr.plain.order {
		if user == "" || key.User == user {
			want = append(want, key)
		}
	}
	var keys []session.Key
	for _, sess := range got {
		keys = append(keys, sess.Key)
		tr.equal("state in the list", tr.plain.state(sess.Key), sess.State.All())
		tr.equal("version in the list", int64(len(tr.plain.sessions[sess.Key].events)), sess.Version)
	}
	byKey := func(a, b session.Key) int { return strings.Compare(a.User+"/"+a.ID, b.User+"/"+b.ID) }
	slices.SortFunc(want, byKey)
	slices.SortFunc(keys, byKey)
	tr.equal("list", want, keys)
	tr.equal("order of the list", true, slices.IsSortedFunc(got, compareActivity))
}

// check compares every session as every store shows it.
func (tr *trial) check(t *rapid.T) {
	for _, s := range tr.stores {
		for _, key := range tr.plain.order {
			sess, err := s.Sessions.Get(t.Context(), key, nil)
			tr.is("Get", err, nil)
			tr.same("read", key, sess)
		}
	}
}

func (tr *trial) same(what string, key session.Key, sess *session.Session) {
	there := tr.plain.sessions[key]
	tr.equal(what+": events", there.window(&store.GetOptions{}), textsOf(sess))
	tr.equal(what+": state", tr.plain.state(key), sess.State.All())
	tr.equal(what+": version", int64(len(there.events)), sess.Version)
	for i, ev := range sess.Events() {
		tr.equal(what+": seq", int64(i+1), ev.Seq)
		if want := there.events[i].delta; len(want)+len(ev.Actions.StateDelta) > 0 {
			tr.equal(what+": delta", want, ev.Actions.StateDelta)
		}
	}
}

func (tr *trial) equal(what string, want, got any) {
	if d := cmp.Diff(want, got); d != "" {
		tr.t.Fatalf("%s (-want +got):\n%s", what, d)
	}
}

func textsOf(sess *session.Session) []string {
	var texts []string
	for _, e := range sess.Events() {
		texts = append(texts, e.Text())
	}
	return texts
}

// Whatever is done in whatever order, through one store or through two on the same database: what
// is read is what a plain model with the same rules has.
func (su *Suite) testRandomOperations(t *testing.T) {
	for replicas := 1; replicas <= 2; replicas++ {
		t.Run(fmt.Sprint(replicas), func(t *testing.T) {
			db := su.Create(t)
			var stores []*testStore
			for range replicas {
				stores = append(stores, openStore(t, db, nil))
			}
			// Servers need network round trips, so they get fewer attempts.
			few, tries := !su.LocalClock, 0
			rapid.Check(t, func(rt *rapid.T) {
				tries++ // each in its own app: nothing is there before
				if few && tries%4 != 0 {
					return
				}
				tr := &trial{t: rt, stores: stores, plain: newPlainStore(), app: fmt.Sprint("app-", tries)}
				rt.Repeat(map[string]func(*rapid.T){
					"":              tr.check,
					"create":        tr.create,
					"append":        tr.append,
					"append again":  tr.append,
					"append to old": tr.appendToHeld,
					"rewind":        tr.rewind,
					"delete":        tr.delete,
					"evict":         tr.evictCache,
					"part":          tr.part,
					"list":          tr.list,
				})
			})
		})
	}
}

func findScope[K comparable](states map[K]map[string]any, k K) map[string]any {
	if states[k] == nil {
		states[k] = map[string]any{}
	}
	return states[k]
}
