package storetest

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"agenthost/pkg/session"
	"agenthost/pkg/store"
)

func (su *Suite) testAppendVisibility(t *testing.T) {
	s := su.open(t, nil)
	sess := createSession(t, s, alice, nil)
	at := time.Date(2026, 1, 2, 3, 4, 5, 678901999, time.FixedZone("", 3600))
	ev := textEvent("user", "hi")
	ev.Timestamp = at
	appendEvent(t, s, sess, ev)
	if ev.ID == "" || ev.Seq != 1 || sess.Version != 1 || sess.History.Len() != 1 || sess.Events()[0] != ev {
		t.Errorf("after Append: id %q, seq %d, version %d, %d events", ev.ID, ev.Seq, sess.Version, sess.History.Len())
	}
	want := at.Truncate(time.Microsecond)
	if !ev.Timestamp.Equal(want) || !sess.LastUpdate.Equal(want) {
		t.Errorf("times = %v, %v, want %v", ev.Timestamp, sess.LastUpdate, want)
	}
	again := getSession(t, s, alice, nil)
	diff(t, "Get", plainState(t, sess), plainState(t, again))
}

func (su *Suite) testAppendAssignsIDAndTime(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 600, time.UTC)
	n := 0
	o := &store.Options{
		Clock: func() time.Time { return now },
		NewID: func() string { n++; return fmt.Sprint("id", n) },
	}
	n = 0
	s := su.open(t, o)
	sess := createSession(t, s, session.Key{App: "a", User: "u"}, nil)
	ev := appendEvent(t, s, sess, textEvent("user", "hi"))
	diff(t, "ids", []string{"id1", "id2"}, []string{sess.ID, ev.ID})
	diff(t, "time", now.Truncate(time.Microsecond), ev.Timestamp)
}

// The scopes of adk-python sessions/state.py; a null removes, as in adk-java.
func (su *Suite) testAppendScopes(t *testing.T) {
	s := su.open(t, nil)
	sess := createSession(t, s, alice, map[string]any{"gone": 1, "user:gone": 1, "app:gone": 1})
	delta := map[string]any{
		"k": "s", "user:k": "u", "app:k": "a", "temp:k": "t", "other:k": "o",
		"gone": nil, "user:gone": nil, "app:gone": nil, "never": nil,
	}
	ev := appendEvent(t, s, sess, stateEvent(delta))
	stored := map[string]any{
		"k": "s", "user:k": "u", "app:k": "a", "other:k": "o",
		"gone": nil, "user:gone": nil, "app:gone": nil, "never": nil,
	}
	diff(t, "delta of the event", stored, ev.Actions.StateDelta)
	diff(t, "live state", map[string]any{"k": "s", "user:k": "u", "app:k": "a", "other:k": "o", "temp:k": "t"}, sess.State.All())
	want := map[string]any{"k": "s", "user:k": "u", "app:k": "a", "other:k": "o"}
	diff(t, "stored state", want, getSession(t, s, alice, nil).State.All())
	diff(t, "stored delta", stored, getSession(t, s, alice, nil).Events()[0].Actions.StateDelta)

	same := session.Key{App: "app", User: "alice", ID: "t"}
	diff(t, "another session", map[string]any{"user:k": "u", "app:k": "a"}, createSession(t, s, same, nil).State.All())
	other := session.Key{App: "app", User: "bob", ID: "s"}
	diff(t, "another user", map[string]any{"app:k": "a"}, createSession(t, s, other, nil).State.All())
	foreign := session.Key{App: "other", User: "alice", ID: "s"}
	diff(t, "another app", map[string]any{}, createSession(t, s, foreign, nil).State.All())
}

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

// Two handles of one session: the first to append wins, the other must read
// again.
func (su *Suite) testAppendStale(t *testing.T) {
	s := su.open(t, nil)
	old := createSession(t, s, alice, nil)
	now := getSession(t, s, alice, nil)
	appendEvent(t, s, now, stateEvent(map[string]any{"k": "new"}))
	ev := stateEvent(map[string]any{"k": "old", "temp:t": 1})
	err := s.Sessions.Append(t.Context(), old, ev)
	wantErr(t, "append by the other", err, wantedError{session.ErrStale, "session s changed since it was read: it was at version 0, now it is at 1"})
	if old.Version != 0 || ev.Seq != 0 || len(old.State.All()) != 0 || ev.Actions.StateDelta["temp:t"] != 1 {
		t.Errorf("after ErrStale: version %d, seq %d, state %v, delta %v", old.Version, ev.Seq, old.State.All(), ev.Actions.StateDelta)
	}
	again := getSession(t, s, alice, nil)
	diff(t, "stored state", map[string]any{"k": "new"}, again.State.All())
	appendEvent(t, s, again, ev)
	diff(t, "history", 2, getSession(t, s, alice, nil).History.Len())
}

func (su *Suite) testAppendIdempotent(t *testing.T) {
	s := su.open(t, nil)
	sess := createSession(t, s, alice, nil)
	first := stateEvent(map[string]any{"k": 1})
	first.ID = "one"
	appendEvent(t, s, sess, first)
	appendEvent(t, s, sess, first)
	second := stateEvent(map[string]any{"k": 2})
	second.ID = "two"
	appendEvent(t, s, sess, second)

	repeat := stateEvent(map[string]any{"k": 3})
	repeat.ID = "one"
	appendEvent(t, s, sess, repeat)
	if repeat.Seq != 1 || sess.Version != 2 || sess.History.Len() != 2 {
		t.Errorf("after a repeat: seq %d, version %d, %d events", repeat.Seq, sess.Version, sess.History.Len())
	}
	diff(t, "live state", map[string]any{"k": int64(2)}, sess.State.All())
	diff(t, "Get", plainState(t, sess), plainState(t, getSession(t, s, alice, nil)))
}

// After a lost response, an append is retried with the same session handle.
func (su *Suite) testAppendRetryAfterLostResponse(t *testing.T) {
	s := su.open(t, nil)
	createSession(t, s, alice, nil)
	a, b := getSession(t, s, alice, nil), getSession(t, s, alice, nil)
	ev, repeat := stateEvent(map[string]any{"k": 1}), stateEvent(map[string]any{"k": 1})
	ev.ID, repeat.ID = "one", "one"
	appendEvent(t, s, a, ev)
	appendEvent(t, s, b, repeat)
	if b.Version != 1 || b.History.Len() != 1 || repeat.Seq != 1 {
		t.Errorf("second handle: version %d, %d events, seq %d", b.Version, b.History.Len(), repeat.Seq)
	}
	diff(t, "state of the second handle", map[string]any{"k": int64(1)}, b.State.All())
}

func (su *Suite) testAppendPartialEvent(t *testing.T) {
	s := su.open(t, nil)
	sess := createSession(t, s, alice, nil)
	ev := stateEvent(map[string]any{"k": 1})
	ev.Partial = true
	appendEvent(t, s, sess, ev)
	if ev.ID != "" || ev.Seq != 0 || sess.Version != 0 || sess.History.Len() != 0 || len(sess.State.All()) != 0 {
		t.Errorf("after a partial event: %+v, version %d", ev, sess.Version)
	}
}

func (su *Suite) testAppendMissingSession(t *testing.T) {
	s := su.open(t, nil)
	sess := createSession(t, s, alice, nil)
	if err := s.Sessions.Delete(t.Context(), alice); err != nil {
		t.Fatal(err)
	}
	wantErr(t, "Append to a deleted session", s.Sessions.Append(t.Context(), sess, textEvent("user", "hi")), wantedError{session.ErrNotFound, "session not found: s"})
}

// Changes to the caller's maps after an append do not affect stored data.
func (su *Suite) testAppendCopiesMaps(t *testing.T) {
	s := su.open(t, nil)
	sess := createSession(t, s, alice, nil)
	inner := []any{"a"}
	delta := map[string]any{"list": inner}
	ev := appendEvent(t, s, sess, stateEvent(delta))
	inner[0], delta["more"] = "changed", 1
	v, _ := sess.State.Get("list")
	v.([]any)[0] = "changed too"
	want := map[string]any{"list": []any{"a"}}
	diff(t, "stored state", want, getSession(t, s, alice, nil).State.All())
	diff(t, "event", want, ev.Actions.StateDelta)
}

// An event with every field that adk-go's suite names, and fields that this
// version does not know.
func (su *Suite) testEventRoundTrip(t *testing.T) {
	const text = `{"id":"e1","invocationId":"inv","author":"agent","branch":"a.b","timestamp":1700000000.123456,
		"content":{"role":"model","parts":[{"text":"hi"},{"inlineData":{"mimeType":"image/png","data":"dGVzdA=="}},
			{"functionCall":{"id":"c","name":"f","args":{"n":9007199254740993,"x":1.0}}}]},
		"actions":{"stateDelta":{"n":9007199254740993},"artifactDelta":{"file":0},"escalate":true},
		"longRunningToolIds":["c"],"finishReason":"MAX_TOKENS","modelVersion":"m-1","avgLogprobs":-0.5,
		"nodeInfo":{"path":"p","outputFor":["x"],"messageAsOutput":true},
		"requestedInput":{"a":1},"routes":["r"],"isolationScope":"i","customMetadata":{"k":[1,2.0]}}`
	db := su.Create(t)
	s := openStore(t, db, nil)
	sess := createSession(t, s, alice, nil)
	ev := &session.Event{}
	if err := json.Unmarshal([]byte(text), ev); err != nil {
		t.Fatal(err)
	}
	appendEvent(t, s, sess, ev)
	want := eventText(t, ev)
	diff(t, "cached", want, eventText(t, getSession(t, s, alice, nil).Events()[0]))
	if !su.Durable {
		return
	}
	closeStore(t, s)
	again := getSession(t, openStore(t, db, nil), alice, nil)
	diff(t, "stored", want, eventText(t, again.Events()[0]))
	diff(t, "state", map[string]any{"n": int64(9007199254740993)}, again.State.All())
}
