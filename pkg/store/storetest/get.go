package storetest

import (
	"testing"
	"time"

	"agenthost/pkg/session"
	"agenthost/pkg/store"
)

func (su *Suite) testGetFilters(t *testing.T) {
	n := func(i int) *int { return &i }
	at := func(s int64) time.Time { return time.Unix(s, 0) }
	tests := []struct {
		name string
		o    *store.GetOptions
		want []int64
	}{
		{"no options", nil, []int64{1, 2, 3, 4, 5}},
		{"zero options", &store.GetOptions{}, []int64{1, 2, 3, 4, 5}},
		{"the last two", &store.GetOptions{NumRecentEvents: n(2)}, []int64{4, 5}},
		{"none", &store.GetOptions{NumRecentEvents: n(0)}, nil},
		{"more than there are", &store.GetOptions{NumRecentEvents: n(9)}, []int64{1, 2, 3, 4, 5}},
		{"after is inclusive", &store.GetOptions{After: at(30)}, []int64{3, 4, 5}},
		{"after a time between", &store.GetOptions{After: at(31)}, []int64{4, 5}},
		{"after all", &store.GetOptions{After: at(99)}, nil},
		{"before all", &store.GetOptions{After: at(1)}, []int64{1, 2, 3, 4, 5}},
		{"both", &store.GetOptions{NumRecentEvents: n(2), After: at(20)}, []int64{4, 5}},
		{"both, few after", &store.GetOptions{NumRecentEvents: n(4), After: at(50)}, []int64{5}},
	}
	for _, kept := range []string{"cached", "not cached"} {
		t.Run(kept, func(t *testing.T) {
			s := su.open(t, nil)
			sess := createSession(t, s, alice, map[string]any{"k": "v"})
			for i := range 5 {
				ev := textEvent("user", "hi")
				ev.Timestamp = at(int64(i+1) * 10)
				appendEvent(t, s, sess, ev)
			}
			for _, tt := range tests {
				if kept == "not cached" {
					s.dropCache()
				}
				sess := getSession(t, s, alice, tt.o)
				var got []int64
				for _, e := range sess.Events() {
					got = append(got, e.Seq)
				}
				diff(t, tt.name, tt.want, got)
				diff(t, tt.name+": state", map[string]any{"k": "v"}, sess.State.All())
				diff(t, tt.name+": version", int64(5), sess.Version)
			}
			_, err := s.Sessions.Get(t.Context(), alice, &store.GetOptions{NumRecentEvents: n(-1)})
			wantErr(t, "a negative number", err, wantedError{session.ErrInvalid, "number of recent events must not be negative, got -1"})
			_, err = s.Sessions.Get(t.Context(), session.Key{App: "a", User: "u", ID: "none"}, &store.GetOptions{NumRecentEvents: n(1)})
			wantErr(t, "no such session", err, wantedError{session.ErrNotFound, "session not found: none"})
		})
	}
}

// A run that reads only a part of the history appends like any other.
func (su *Suite) testAppendAfterFilteredGet(t *testing.T) {
	s := su.open(t, nil)
	sess := createSession(t, s, alice, nil)
	appendEvent(t, s, sess, textEvent("user", "one"))
	appendEvent(t, s, sess, textEvent("agent", "two"))
	one := 1
	part := getSession(t, s, alice, &store.GetOptions{NumRecentEvents: &one})
	ev := appendEvent(t, s, part, textEvent("user", "three"))
	diff(t, "events of the part", 2, part.History.Len())
	whole := getSession(t, s, alice, nil)
	if whole.History.Len() != 3 || whole.Events()[2] != ev {
		t.Errorf("whole history has %d events", whole.History.Len())
	}
}

func (su *Suite) testHistoryShared(t *testing.T) {
	s := su.open(t, nil)
	created := createSession(t, s, alice, nil)
	a, b := getSession(t, s, alice, nil), getSession(t, s, alice, nil)
	if a.History != b.History || a.History != created.History {
		t.Error("two readers have two histories")
	}
	appendEvent(t, s, a, textEvent("user", "hi"))
	if b.History.Len() != 1 {
		t.Errorf("the other reader sees %d events, want 1", b.History.Len())
	}
}

func (su *Suite) testGetCopiesState(t *testing.T) {
	s := su.open(t, nil)
	want := map[string]any{"k": []any{"v"}, "app:m": map[string]any{"a": "b"}}
	sess := createSession(t, s, alice, map[string]any{"k": []any{"v"}, "app:m": map[string]any{"a": "b"}})
	for range 2 {
		diff(t, "state", want, sess.State.All())
		for _, v := range sess.State.All() {
			switch v := v.(type) {
			case []any:
				v[0] = "changed"
			case map[string]any:
				v["a"] = "changed"
			}
		}
		sess.State.Apply(map[string]any{"more": 1})
		sess = getSession(t, s, alice, nil)
	}
	diff(t, "state", want, sess.State.All())
}

func (su *Suite) testDeleteAndCreateAgain(t *testing.T) {
	s := su.open(t, nil)
	old := createSession(t, s, alice, map[string]any{"k": 1, "user:k": 2})
	appendEvent(t, s, old, stateEvent(map[string]any{"l": 3}))
	if err := s.Sessions.Delete(t.Context(), alice); err != nil {
		t.Fatal(err)
	}
	_, err := s.Sessions.Get(t.Context(), alice, nil)
	wantErr(t, "Get", err, wantedError{session.ErrNotFound, "session not found: s"})
	sess := createSession(t, s, alice, nil)
	if sess.Version != 0 || sess.History == old.History || sess.History.Len() != 0 {
		t.Errorf("new session: version %d, %d events, the old history: %v", sess.Version, sess.History.Len(), sess.History == old.History)
	}
	diff(t, "state", map[string]any{"user:k": int64(2)}, sess.State.All())
	wantErr(t, "Append by the old handle", s.Sessions.Append(t.Context(), old, textEvent("user", "x")), wantedError{session.ErrStale, ""})
}

func (su *Suite) testListOrder(t *testing.T) {
	s := su.open(t, nil)
	ids := []string{"z", "a", "m", "b"}
	for _, id := range ids {
		createSession(t, s, session.Key{App: "app", User: "u" + id, ID: id}, map[string]any{"k": id, "user:u": id, "app:a": id})
	}
	appendEvent(t, s, getSession(t, s, session.Key{App: "app", User: "uz", ID: "z"}, nil), textEvent("user", "hi"))
	list, err := s.Sessions.List(t.Context(), "app", "")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, sess := range list {
		got = append(got, sess.ID)
		diff(t, "state of "+sess.ID, map[string]any{"k": sess.ID, "user:u": sess.ID, "app:a": "b"}, sess.State.All())
	}
	diff(t, "order", ids, got)
	diff(t, "version", int64(1), list[0].Version)
}

// A history that the cache gave up still grows for the one who holds it.
func (su *Suite) testAppendAfterEviction(t *testing.T) {
	s := su.open(t, nil)
	held := createSession(t, s, alice, nil)
	s.dropCache()
	other := getSession(t, s, alice, nil)
	appendEvent(t, s, held, textEvent("user", "hi"))
	if held.History == other.History || held.History.Len() != 1 || other.History.Len() != 1 {
		t.Errorf("histories have %d and %d events", held.History.Len(), other.History.Len())
	}
	s.dropCache()
	appendEvent(t, s, held, textEvent("agent", "hello"))
	diff(t, "Get", plainState(t, held), plainState(t, getSession(t, s, alice, nil)))
}

// Windows of an intact session are not reported as gaps, even if it is deleted during
// the read.
func (su *Suite) testValidWindows(t *testing.T) {
	s := su.open(t, nil)
	sess := createSession(t, s, alice, nil)
	for range 3 {
		appendEvent(t, s, sess, textEvent("user", "hi"))
	}
	for last := range 5 {
		s.dropCache()
		if n := getSession(t, s, alice, &store.GetOptions{NumRecentEvents: &last}).History.Len(); n != min(last, 3) {
			t.Errorf("the last %d events are %d", last, n)
		}
		s.dropCache()
		after := sess.Events()[1].Timestamp
		if n := getSession(t, s, alice, &store.GetOptions{After: after, NumRecentEvents: &last}).History.Len(); n > last {
			t.Errorf("the last %d events after a time are %d", last, n)
		}
	}
}
