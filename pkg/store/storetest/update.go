package storetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"

	"agenthost/pkg/session"
)

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

// Updates of a key in one event are applied in order, after a plain write of the key;
// a later plain write replaces them.
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

// An update that cannot be computed is an error that names the key, and nothing of
// its event is stored: no key either that was missing before.
func (su *Suite) testUpdateRejected(t *testing.T) {
	tests := []struct {
		verb    session.UpdateVerb
		old, by any
		want    string // of the error
	}{
		{session.UpdateAdd, "five", 1, "stored value must be a number, got a string"},
		{session.UpdateAdd, 5, "x", "operand must be a number, got a string"},
		{session.UpdateAdd, math.MaxFloat64, math.MaxFloat64, "sum exceeds the range of a number"},
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

// Two stores of one database increase the same keys from many sessions at once,
// and lose nothing. The control reads and sets, as `set` does, and does lose.
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
