package storetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"agenthost/pkg/session"
	"agenthost/pkg/store"
)

func (su *Suite) testCreateState(t *testing.T) {
	s := su.open(t, nil)
	sess := createSession(t, s, alice, map[string]any{"k": 1, "user:k": 2, "app:k": 3, "temp:k": 4, "nil": nil})
	want := map[string]any{"k": int64(1), "user:k": int64(2), "app:k": int64(3)}
	diff(t, "state of Create", want, sess.State.All())
	diff(t, "state of Get", want, getSession(t, s, alice, nil).State.All())
	second := createSession(t, s, session.Key{App: "app", User: "alice", ID: "t"}, map[string]any{"app:k": 5})
	diff(t, "state of a second", map[string]any{"user:k": int64(2), "app:k": int64(5)}, second.State.All())
}

func (su *Suite) testStateValueRoundTrip(t *testing.T) {
	type point struct {
		X int `json:"x"`
	}
	values := map[string]any{
		"int": 3, "big": int64(1)<<53 + 1, "max": int64(math.MaxInt64), "min": int64(math.MinInt64),
		"float": 5.0, "tiny": 1e-300, "huge": 1e300, "half": 0.5, "true": true, "text": "a\"b\\c\n<&>語\u2028",
		"empty": "", "list": []any{1, "x", nil, []any{}}, "map": map[string]any{"z": map[string]any{}, "a": 1.0},
		"struct": point{7}, "strings": []string{"a"}, "number": json.Number("12"), "uint8": uint8(9),
		"user:text": "u", "app:list": []any{true}, "": "no key", "user:": "no key either",
	}
	want := map[string]any{
		"int": int64(3), "big": int64(1)<<53 + 1, "max": int64(math.MaxInt64), "min": int64(math.MinInt64),
		"float": 5.0, "tiny": 1e-300, "huge": 1e300, "half": 0.5, "true": true, "text": "a\"b\\c\n<&>語\u2028",
		"empty": "", "list": []any{int64(1), "x", nil, []any{}}, "map": map[string]any{"z": map[string]any{}, "a": 1.0},
		"struct": map[string]any{"x": int64(7)}, "strings": []any{"a"}, "number": int64(12), "uint8": int64(9),
		"user:text": "u", "app:list": []any{true}, "": "no key", "user:": "no key either",
	}
	s := su.open(t, nil)
	sess := createSession(t, s, alice, nil)
	appendEvent(t, s, sess, stateEvent(values))
	diff(t, "live state", want, sess.State.All())
	again := getSession(t, s, alice, nil)
	diff(t, "state", want, again.State.All())
	diff(t, "delta", want, again.Events()[0].Actions.StateDelta)
	list, err := s.Sessions.List(t.Context(), "app", "")
	if err != nil {
		t.Fatal(err)
	}
	diff(t, "listed state", want, list[0].State.All())
}

func (su *Suite) testStateValueInvalid(t *testing.T) {
	deep := any("x")
	for range 200 {
		deep = []any{deep}
	}
	tests := []struct {
		name  string
		key   string
		value any
		want  string
	}{
		{"NaN", "k", math.NaN(), `state key "k": NaN is not a JSON number`},
		{"infinity in a list", "k", []any{math.Inf(1)}, `state key "k": +Inf is not a JSON number`},
		{"channel", "k", make(chan int), `state key "k": chan int is not a JSON value`},
		{"function in a map", "k", map[string]any{"f": func() {}}, `func() is not a JSON value`},
		{"too deep", "k", deep, "value exceeds the nesting limit of 100"},
		{"long key", strings.Repeat("k", 256), 1, "state key exceeds the limit of 255 characters"},
		{"NUL in the key", "a\x00", 1, `state key "a\x00" contains a NUL byte`},
	}
	s := su.open(t, nil)
	sess := createSession(t, s, alice, nil)
	for _, tt := range tests {
		delta := map[string]any{tt.key: tt.value}
		wantErr(t, "Append of "+tt.name, s.Sessions.Append(t.Context(), sess, stateEvent(delta)), wantedError{session.ErrInvalid, tt.want})
		_, err := s.Sessions.Create(t.Context(), session.Key{App: "a", User: "u"}, delta)
		wantErr(t, "Create with "+tt.name, err, wantedError{session.ErrInvalid, tt.want})
	}
	ev := textEvent("user", "hi")
	ev.ID = strings.Repeat("x", 129)
	foreign := textEvent("user", "hi")
	foreign.InvocationID = strings.Repeat("x", 129)
	wantErr(t, "long invocation id", s.Sessions.Append(t.Context(), sess, foreign), wantedError{session.ErrInvalid, "invocation id exceeds the limit of 128 characters"})
	wantErr(t, "long id", s.Sessions.Append(t.Context(), sess, ev), wantedError{session.ErrInvalid, "event id exceeds the limit of 128 characters"})
	if sess.Version != 0 || len(sess.State.All()) != 0 {
		t.Errorf("after refusals: version %d, state %v", sess.Version, sess.State.All())
	}
}

// updateEvent is an event that updates one key.
func updateEvent(key string, verb session.UpdateVerb, v any) *session.Event {
	ev := textEvent("user", "hi")
	ev.Actions.Update(session.StateUpdate{Key: key, Verb: verb, Value: v})
	return ev
}

// An update verb changes the stored value in every scope: the event, the session in
// memory and later reads have the result.
func (su *Suite) testUpdateVerbs(t *testing.T) {
	tests := []struct {
		verb    session.UpdateVerb
		old, by any
		want    any
	}{
		{session.UpdateAdd, nil, 2, int64(2)},
		{session.UpdateAdd, 40, 2, int64(42)},
		{session.UpdateAdd, 1, 0.5, 1.5},
		{session.UpdateAdd, 0.5, 1, 1.5},
		{session.UpdateAdd, 2.0, 1, 3.0},
		{session.UpdateAdd, int64(1) << 53, 1, int64(1)<<53 + 1},
		{session.UpdateAdd, int64(math.MaxInt64), 1, json.Number("9223372036854775808")},
		{session.UpdateAppend, nil, "a", []any{"a"}},
		{session.UpdateAppend, []any{"a"}, []any{"b"}, []any{"a", []any{"b"}}},
		{session.UpdateMax, nil, 3, int64(3)},
		{session.UpdateMax, 3, 5, int64(5)},
		{session.UpdateMax, 5.5, 5, 5.5},
		{session.UpdateMax, "2026-01-02", "2026-02-01", "2026-02-01"},
		{session.UpdateMin, nil, 3, int64(3)},
		{session.UpdateMin, 3, 5, int64(3)},
		{session.UpdateMin, int64(1)<<53 + 1, float64(int64(1) << 53), float64(int64(1) << 53)},
	}
	s := su.open(t, nil)
	for i, tt := range tests {
		for _, prefix := range []string{"", "user:", "app:", "temp:"} {
			key := fmt.Sprint(prefix, "k", i)
			where := session.Key{App: "app", User: "alice", ID: fmt.Sprint(strings.TrimSuffix(prefix, ":"), i)}
			sess := createSession(t, s, where, map[string]any{key: tt.old})
			if tt.old != nil && prefix == "temp:" {
				sess.State.Apply(map[string]any{key: session.Normalize(tt.old)})
			}
			ev := appendEvent(t, s, sess, updateEvent(key, tt.verb, tt.by))
			got, _ := sess.State.Get(key)
			diff(t, key+" in memory", tt.want, got)
			if prefix == "temp:" {
				diff(t, "event of temp:", 0, len(ev.Actions.StateDelta))
				continue
			}
			again := getSession(t, s, where, nil)
			got, _ = again.State.Get(key)
			diff(t, key, tt.want, got)
			diff(t, "event of "+key, map[string]any{key: tt.want}, again.Events()[0].Actions.StateDelta)
			diff(t, "event in memory", again.Events()[0].Actions.StateDelta, ev.Actions.StateDelta)
		}
	}
}

// Updates to a key in one event are applied in order, after a plain write to the key; a later plain
// write replaces them.
func (su *Suite) testUpdatesInOneEvent(t *testing.T) {
	s := su.open(t, nil)
	sess := createSession(t, s, alice, map[string]any{"user:n": 1, "n": 1, "user:set": 7})
	ev := textEvent("user", "hi")
	ev.Actions.Update(session.StateUpdate{Key: "user:set", Verb: session.UpdateAdd, Value: 100})
	ev.Actions.SetState("user:set", 5)
	for _, key := range []string{"user:n", "n", "user:set", "user:new"} {
		ev.Actions.Update(session.StateUpdate{Key: key, Verb: session.UpdateAdd, Value: 2, Default: 10})
		ev.Actions.Update(session.StateUpdate{Key: key, Verb: session.UpdateMax, Value: 4})
	}
	appendEvent(t, s, sess, ev)
	want := map[string]any{"user:n": int64(4), "n": int64(4), "user:set": int64(7), "user:new": int64(12)}
	diff(t, "delta", want, ev.Actions.StateDelta)
	diff(t, "state", want, getSession(t, s, alice, nil).State.All())
}

// An update that cannot be computed is an error that names the key, and no part of its event is
// stored: no key either that was missing before.
func (su *Suite) testUpdateRejected(t *testing.T) {
	tests := []struct {
		verb    session.UpdateVerb
		old, by any
		want    string // the error's
	}{
		{session.UpdateAdd, "five", 1, "stored value must be a number, got a string"},
		{session.UpdateAdd, 5, "x", "operand must be a number, got a string"},
		{session.UpdateAdd, math.MaxFloat64, math.MaxFloat64, "the result exceeds the range of a number"},
		{session.UpdateAppend, 5, 1, "stored value must be a list, got a number"},
		{session.UpdateMax, "a", 1, "both values must be numbers or strings, got a string and a number"},
		{session.UpdateMin, true, 1, "both values must be numbers or strings, got true or false and a number"},
		{"mul", 1, 1, `unknown verb "mul"`},
	}
	s := su.open(t, nil)
	for i, tt := range tests {
		for _, prefix := range []string{"", "user:", "app:"} {
			key := fmt.Sprint(prefix, "k", i)
			where := session.Key{App: "app", User: "alice", ID: fmt.Sprint(strings.TrimSuffix(prefix, ":"), i)}
			sess := createSession(t, s, where, map[string]any{key: tt.old})
			before := getSession(t, s, where, nil).State.All()
			ev := updateEvent("user:a", session.UpdateAdd, 1)
			ev.Actions.SetState("plain", true)
			ev.Actions.Update(session.StateUpdate{Key: key, Verb: tt.verb, Value: tt.by})
			err := s.Sessions.Append(t.Context(), sess, ev)
			want := fmt.Sprintf("state key %q: %s", key, tt.want)
			if !errors.Is(err, session.ErrInvalid) || !strings.Contains(err.Error(), want) {
				t.Errorf("Append = %v, want %q", err, want)
			}
			diff(t, "updates of the event", 2, len(ev.Actions.StateUpdates))
			again := getSession(t, s, where, nil)
			diff(t, "state", before, again.State.All())
			diff(t, "events", 0, len(again.Events()))
		}
	}
}

// Two stores on one database increase the same keys from many sessions at once, and lose nothing.
// The control reads and sets, as `set` does, and does lose.
func (su *Suite) testUpdatesConcurrent(t *testing.T) {
	const each, sessions = 12, 8
	a, b := su.openPair(t)
	stores := []*testStore{a, b}
	all := make([]*session.Session, sessions)
	for i := range all {
		all[i] = createSession(t, stores[i%2], session.Key{App: "app", User: "alice", ID: fmt.Sprint(i)}, nil)
	}
	together := func(write func(sess *session.Session) *session.Event) map[string]any {
		var wait sync.WaitGroup
		for i, sess := range all {
			wait.Go(func() {
				for range each {
					if err := stores[i%2].Sessions.Append(t.Context(), sess, write(sess)); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wait.Wait()
		return getSession(t, a, all[0].Key, nil).State.All()
	}
	state := together(func(*session.Session) *session.Event {
		ev := updateEvent("user:n", session.UpdateAdd, 1)
		ev.Actions.Update(session.StateUpdate{Key: "app:n", Verb: session.UpdateAdd, Value: 2})
		ev.Actions.SetState("user:other", "x")
		return ev
	})
	diff(t, "user:n", any(int64(each*sessions)), state["user:n"])
	diff(t, "app:n", any(int64(2*each*sessions)), state["app:n"])

	// Each session sees its own writes only, as it was read before.
	state = together(func(sess *session.Session) *session.Event {
		n, _ := sess.State.Get("user:control")
		old, _ := n.(int64)
		return stateEvent(map[string]any{"user:control": old + 1})
	})
	diff(t, "the control, which loses the updates of the others", any(int64(each)), state["user:control"])
}

// An event that is retried after a lost response is applied once, and the retry
// returns the stored event.
func (su *Suite) testUpdateRetry(t *testing.T) {
	s := su.open(t, nil)
	first, second := createSession(t, s, alice, nil), getSession(t, s, alice, nil)
	ev := updateEvent("user:n", session.UpdateAdd, 1)
	ev.ID = "same"
	again := updateEvent("user:n", session.UpdateAdd, 1)
	again.ID = "same"
	appendEvent(t, s, first, ev)
	other := createSession(t, s, session.Key{App: "app", User: "alice", ID: "other"}, nil)
	appendEvent(t, s, other, updateEvent("user:n", session.UpdateAdd, 1))
	appendEvent(t, s, second, again)
	diff(t, "delta", map[string]any{"user:n": int64(1)}, again.Actions.StateDelta)
	diff(t, "state", map[string]any{"user:n": int64(2)}, getSession(t, s, alice, nil).State.All())
	diff(t, "events", 1, len(getSession(t, s, alice, nil).Events()))
}

// A stale append does not add.
func (su *Suite) testUpdateStale(t *testing.T) {
	s := su.open(t, nil)
	first, second := createSession(t, s, alice, nil), getSession(t, s, alice, nil)
	appendEvent(t, s, first, textEvent("user", "one"))
	if err := s.Sessions.Append(t.Context(), second, updateEvent("app:new", session.UpdateAdd, 1)); !errors.Is(err, session.ErrStale) {
		t.Errorf("Append = %v, want ErrStale", err)
	}
	diff(t, "state", 0, len(getSession(t, s, alice, nil).State.All()))
}

// openLimited opens a store with small limits.
func (su *Suite) openLimited(t *testing.T) *testStore {
	t.Helper()
	return su.open(t, &store.Options{MaxStateBytes: 1 << 10, MaxEventBytes: 4 << 10, MaxSessionBytes: 16 << 10})
}

// wantLimit checks which limit an error reports.
func wantLimit(t *testing.T, err error, want string) {
	t.Helper()
	if !errors.Is(err, session.ErrInvalid) || !errors.Is(err, session.ErrTooLarge) || err.Error() != want {
		t.Errorf("error is %v, want %q", err, want)
	}
}

// A write that makes a scope's state larger than the limit is rejected before anything is stored,
// and the session stays usable. Each scope has its own limit.
func (su *Suite) testStateLimit(t *testing.T) {
	s := su.openLimited(t)
	for _, scope := range []string{"session", "user", "app"} {
		key := session.Key{App: "limited", User: "alice", ID: scope + "-state"}
		prefix := map[string]string{"session": "", "user": "user:", "app": "app:"}[scope]
		want := fmt.Sprintf("state of the %s exceeds the limit of 1 KiB", scope)
		sess := createSession(t, s, key, map[string]any{prefix + "a": strings.Repeat("x", 600)})
		before := sess.State.All()

		over := stateEvent(map[string]any{prefix + "b": strings.Repeat("x", 600)})
		wantLimit(t, s.Sessions.Append(t.Context(), sess, over), want)
		diff(t, "events", 0, len(getSession(t, s, key, nil).Events()))
		diff(t, "state", before, getSession(t, s, key, nil).State.All())
		diff(t, "state in memory", before, sess.State.All())

		// The parts of one key count, and writes one after the other.
		appendEvent(t, s, sess, stateEvent(map[string]any{prefix + "b": map[string]any{"list": []any{"x", 12345, nil, 1.5}}}))
		appendEvent(t, s, sess, stateEvent(map[string]any{prefix + "c": strings.Repeat("x", 300)}))
		wantLimit(t, s.Sessions.Append(t.Context(), sess, stateEvent(map[string]any{prefix + "d": strings.Repeat("x", 90)})), want)
		appendEvent(t, s, sess, stateEvent(map[string]any{prefix + "a": nil, prefix + "d": strings.Repeat("x", 600)}))
		diff(t, "events", 3, len(getSession(t, s, key, nil).Events()))
	}
}

// The state that a session begins with has the same limits, together with what
// the user and the app have already.
func (su *Suite) testStateLimitCreate(t *testing.T) {
	s := su.openLimited(t)
	long := strings.Repeat("x", 600)
	createSession(t, s, alice, map[string]any{"user:a": long, "app:a": long, "a": long, "temp:a": strings.Repeat("x", 2000)})
	large := session.Key{App: "app", User: "alice", ID: "large"}
	for prefix, scope := range map[string]string{"": "session", "user:": "user", "app:": "app"} {
		state := map[string]any{prefix + "b": long}
		if prefix == "" {
			state["c"] = long
		}
		_, err := s.Sessions.Create(t.Context(), large, state)
		wantLimit(t, err, fmt.Sprintf("state of the %s exceeds the limit of 1 KiB", scope))
		if _, err := s.Sessions.Get(t.Context(), large, nil); !errors.Is(err, session.ErrNotFound) {
			t.Errorf("the session is there: %v", err)
		}
	}
	createSession(t, s, session.Key{App: "app", User: "bob", ID: "s"}, map[string]any{"user:b": long})
}

// Updates are checked by the value that is stored, also when the session was read
// before others made it larger.
func (su *Suite) testStateLimitUpdates(t *testing.T) {
	s := su.openLimited(t)
	for prefix, scope := range map[string]string{"": "session", "user:": "user", "app:": "app"} {
		want := fmt.Sprintf("state of the %s exceeds the limit of 1 KiB", scope)
		key := session.Key{App: "limited", User: "alice", ID: "updates-" + scope}
		item := strings.Repeat("x", 300)
		sess := createSession(t, s, key, nil)
		early := getSession(t, s, key, nil)
		for range 3 {
			appendEvent(t, s, sess, updateEvent(prefix+"list", session.UpdateAppend, item))
		}
		before := getSession(t, s, key, nil).State.All()
		wantLimit(t, s.Sessions.Append(t.Context(), sess, updateEvent(prefix+"list", session.UpdateAppend, item)), want)
		if prefix != "" {
			other := key
			other.ID += "-other"
			second := createSession(t, s, other, nil)
			second.State = early.State
			wantLimit(t, s.Sessions.Append(t.Context(), second, updateEvent(prefix+"list", session.UpdateAppend, item)), want)
		}
		diff(t, "state", before, getSession(t, s, key, nil).State.All())
		diff(t, "events", 3, len(getSession(t, s, key, nil).Events()))
		appendEvent(t, s, sess, updateEvent(prefix+"n", session.UpdateAdd, 1))
	}
}

// A scope that is larger than the limit, because an operator imported it or has
// lowered the limit, may become smaller, and other writes are stored.
func (su *Suite) testStateLimitShrink(t *testing.T) {
	db := su.Create(t)
	a, b := openStore(t, db, nil), openStore(t, db, &store.Options{MaxStateBytes: 1 << 10})
	createSession(t, a, alice, map[string]any{"user:a": strings.Repeat("x", 4000), "user:b": strings.Repeat("x", 4000)})
	sess := getSession(t, b, alice, nil)
	appendEvent(t, b, sess, textEvent("user", "hi"))
	appendEvent(t, b, sess, stateEvent(map[string]any{"k": 1}))
	appendEvent(t, b, sess, stateEvent(map[string]any{"user:a": strings.Repeat("x", 3000)}))
	wantLimit(t, b.Sessions.Append(t.Context(), sess, stateEvent(map[string]any{"user:c": 1})), "state of the user exceeds the limit of 1 KiB")
	appendEvent(t, b, sess, stateEvent(map[string]any{"user:a": nil, "user:b": nil}))
	appendEvent(t, b, sess, stateEvent(map[string]any{"user:c": 1}))
}

// Large writes to shared state wait for each other, so that many at once do not exceed the limit
// together: neither appends, whose readers have not seen the other writes, nor updates, nor new
// sessions.
func (su *Suite) testStateLimitConcurrent(t *testing.T) {
	const writers, each = 12, 100 << 10
	writes := map[string]func(t *testing.T, s *testStore, sess *session.Session) error{
		"append": func(t *testing.T, s *testStore, sess *session.Session) error {
			return s.Sessions.Append(t.Context(), sess, stateEvent(map[string]any{"user:" + sess.ID: strings.Repeat("x", each)}))
		},
		"update": func(t *testing.T, s *testStore, sess *session.Session) error {
			return s.Sessions.Append(t.Context(), sess, updateEvent("user:"+sess.ID, session.UpdateAppend, strings.Repeat("x", each)))
		},
		"create": func(t *testing.T, s *testStore, sess *session.Session) error {
			key := sess.Key
			key.ID += "-new"
			_, err := s.Sessions.Create(t.Context(), key, map[string]any{"user:" + sess.ID: strings.Repeat("x", each)})
			return err
		},
	}
	for name, write := range writes {
		t.Run(name, func(t *testing.T) {
			s := su.open(t, &store.Options{MaxStateBytes: 500 << 10})
			var all []*session.Session
			for i := range writers {
				all = append(all, createSession(t, s, session.Key{App: "app", User: "alice", ID: fmt.Sprint(i)}, nil))
			}
			var stored atomic.Int64
			var wait sync.WaitGroup
			for _, sess := range all {
				wait.Go(func() {
					switch err := write(t, s, sess); {
					case err == nil:
						stored.Add(1)
					case !errors.Is(err, session.ErrTooLarge):
						t.Error(err)
					}
				})
			}
			wait.Wait()
			diff(t, "writes that were stored", int64(4), stored.Load())
			diff(t, "keys", 4, len(getSession(t, s, all[0].Key, nil).State.All()))
		})
	}
}

func (su *Suite) testConcurrentSharedStateWrites(t *testing.T) {
	const writers, keys = 16, 20
	s := su.open(t, nil)
	runConcurrently(t, writers, func(i int) error {
		key := session.Key{App: "app", User: fmt.Sprint("u", i%4), ID: fmt.Sprint(i)}
		sess, err := s.Sessions.Create(t.Context(), key, nil)
		for n := 0; n < keys && err == nil; n++ {
			name := fmt.Sprint(i, "-", n)
			err = s.Sessions.Append(t.Context(), sess, stateEvent(map[string]any{"app:" + name: n, "user:" + name: n, "app:same": n}))
		}
		return err
	})
	sess := createSession(t, s, session.Key{App: "app", User: "u0"}, nil)
	want := writers*keys + 1 + writers/4*keys
	if got := len(sess.State.All()); got != want {
		t.Errorf("state has %d keys, want %d", got, want)
	}
}
