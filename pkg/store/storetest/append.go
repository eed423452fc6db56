package storetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genai"

	"agenthost/internal/limit"
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

// The scopes from adk-python sessions/state.py; a null removes, as in adk-java.
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

// Two handles for one session: the first to append wins, the other must read again.
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

// A run that reads only part of the history appends like any other.
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

// An event that is too long is rejected, and the session stays usable.
func (su *Suite) testEventLimit(t *testing.T) {
	s := su.openLimited(t)
	sess := createSession(t, s, alice, nil)
	const want = "event exceeds the limit of 4 KiB"
	wantLimit(t, s.Sessions.Append(t.Context(), sess, textEvent("user", strings.Repeat("x", 5000))), want)
	// Escapes count: their JSON is six times as long.
	wantLimit(t, s.Sessions.Append(t.Context(), sess, textEvent("user", strings.Repeat("\x01", 800))), want)
	appendEvent(t, s, sess, textEvent("user", "hi"))
	for range 3 {
		appendEvent(t, s, sess, updateEvent("user:list", session.UpdateAppend, strings.Repeat("x", 200)))
	}
	ev := updateEvent("user:list", session.UpdateAppend, "x")
	ev.Content = textEvent("user", strings.Repeat("x", 3500)).Content
	wantLimit(t, s.Sessions.Append(t.Context(), sess, ev), want)
	diff(t, "events", 4, len(getSession(t, s, alice, nil).Events()))
}

// An event with more values than the limit is rejected, also if it has few bytes; the
// session stays usable.
func (su *Suite) testEventValues(t *testing.T) {
	s := su.open(t, nil)
	sess := createSession(t, s, alice, nil)
	most := limit.StoredEvent.Values
	call := func(values int) *session.Event {
		ev := textEvent("agent", "")
		ev.Content = &genai.Content{Role: genai.RoleModel, Parts: []*genai.Part{{FunctionCall: &genai.FunctionCall{
			Name: "f", Args: map[string]any{"list": make([]any, values)},
		}}}}
		return ev
	}
	wantLimit(t, s.Sessions.Append(t.Context(), sess, call(most)), fmt.Sprintf("event exceeds the limit of %d values", most))
	appendEvent(t, s, sess, call(most/2))
	diff(t, "events", 1, len(getSession(t, s, alice, nil).Events()))
}

// A session that has reached the limit rejects further events from every store and
// handle; other sessions are unaffected.
func (su *Suite) testSessionLimit(t *testing.T) {
	s := su.openLimited(t)
	const want = "session exceeds the limit of 16 KiB: start a new session"
	sess := createSession(t, s, alice, nil)
	for range 5 {
		appendEvent(t, s, sess, textEvent("user", strings.Repeat("x", 2800)))
	}
	large := func() *session.Event { return textEvent("user", strings.Repeat("x", 2800)) }
	wantLimit(t, s.Sessions.Append(t.Context(), sess, large()), want)
	few := 2
	wantLimit(t, s.Sessions.Append(t.Context(), getSession(t, s, alice, &store.GetOptions{NumRecentEvents: &few}), large()), want)
	s.dropCache()
	wantLimit(t, s.Sessions.Append(t.Context(), getSession(t, s, alice, &store.GetOptions{NumRecentEvents: &few}), large()), want)
	s.dropCache()
	wantLimit(t, s.Sessions.Append(t.Context(), sess, large()), want)
	diff(t, "events", 5, len(getSession(t, s, alice, nil).Events()))
	appendEvent(t, s, getSession(t, s, alice, nil), textEvent("user", "short"))
	appendEvent(t, s, createSession(t, s, session.Key{App: "app", User: "alice", ID: "next"}, nil), large())
}

func (su *Suite) testConcurrentSessions(t *testing.T) {
	const sessions, events = 64, 10
	s := su.open(t, nil)
	key := func(i int) session.Key { return session.Key{App: "app", User: fmt.Sprint("u", i%8), ID: fmt.Sprint(i)} }
	runConcurrently(t, sessions, func(i int) error {
		_, err := s.Sessions.Create(t.Context(), key(i), nil)
		for n := 0; n < events && err == nil; n++ {
			var sess *session.Session
			if sess, err = s.Sessions.Get(t.Context(), key(i), nil); err == nil {
				err = s.Sessions.Append(t.Context(), sess, stateEvent(map[string]any{fmt.Sprint("k", n): i}))
			}
		}
		return err
	})
	s.dropCache()
	for i := range sessions {
		sess := getSession(t, s, key(i), nil)
		if sess.History.Len() != events || len(sess.State.All()) != events {
			t.Errorf("session %d has %d events, %d keys", i, sess.History.Len(), len(sess.State.All()))
		}
		for n, e := range sess.Events() {
			if e.Seq != int64(n+1) {
				t.Errorf("session %d: event %d has seq %d", i, n, e.Seq)
			}
		}
	}
}

func (su *Suite) testConcurrentSessionWrites(t *testing.T) {
	const writers, rounds = 8, 20
	s := su.open(t, nil)
	createSession(t, s, alice, nil)
	var stored atomic.Int64
	runConcurrently(t, writers, func(i int) error {
		for range rounds {
			sess, err := s.Sessions.Get(t.Context(), alice, nil)
			if err != nil {
				return err
			}
			switch err = s.Sessions.Append(t.Context(), sess, textEvent("user", fmt.Sprint(i))); {
			case err == nil:
				stored.Add(1)
			case !errors.Is(err, session.ErrStale):
				return err
			}
		}
		return nil
	})
	cached := getSession(t, s, alice, nil)
	s.dropCache()
	sess := getSession(t, s, alice, nil)
	diff(t, "cached and stored", plainState(t, sess), plainState(t, cached))
	if sess.Version != stored.Load() || int64(sess.History.Len()) != stored.Load() {
		t.Errorf("version %d, %d events, want %d", sess.Version, sess.History.Len(), stored.Load())
	}
}

// Many events that are appended together are stored like those that are appended one after
// the other: in order, with their state, and over several transactions.
func (su *Suite) testAppendAll(t *testing.T) {
	const n = 600
	s := su.open(t, nil)
	events := func() []*session.Event {
		all := make([]*session.Event, n)
		for i := range all {
			all[i] = textEvent("user", fmt.Sprint("message ", i))
			all[i].ID, all[i].Timestamp = fmt.Sprint("e-", i), time.UnixMicro(int64(i))
			all[i].Actions.StateDelta = map[string]any{"n": float64(i), "user:u": fmt.Sprint(i), "temp:t": true, fmt.Sprint("k", i%7): nil}
		}
		all[0].Actions.StateDelta["k3"] = "deleted later"
		all[n-1].Actions.StateDelta["app:a"] = []any{"x"}
		return all
	}
	one, other := alice, session.Key{App: "app", User: "alice", ID: "other"}
	sess := createSession(t, s, one, nil)
	if err := s.Sessions.AppendAll(t.Context(), sess, events()); err != nil {
		t.Fatal(err)
	}
	if v, _ := sess.State.Get("temp:t"); v != true || sess.Version != n || sess.History.Len() != n {
		t.Errorf("version %d, %d events, temp:t = %v", sess.Version, sess.History.Len(), v)
	}
	single := createSession(t, s, other, nil)
	for _, ev := range events() {
		appendEvent(t, s, single, ev)
	}
	s.dropCache()
	got, want := plainState(t, getSession(t, s, one, nil)), plainState(t, getSession(t, s, other, nil))
	got["key"] = want["key"]
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("appended together (-one by one +together):\n%s", d)
	}
}

// If events that are appended together cannot be stored, because the session has changed or
// one exceeds a limit, they are not changed. An event whose id the session has is not added
// again.
func (su *Suite) testAppendAllRejected(t *testing.T) {
	s := su.open(t, &store.Options{MaxEventBytes: 10_000})
	sess := createSession(t, s, alice, nil)
	stale := getSession(t, s, alice, nil)
	first := textEvent("user", "first")
	first.ID = "e-1"
	appendEvent(t, s, sess, first)
	for _, tt := range []struct {
		name string
		sess *session.Session
		ids  []string
		text string
		want error
	}{
		{"stale", stale, []string{"a", "b"}, "", session.ErrStale},
		{"too large", sess, []string{"d", "e"}, strings.Repeat("x", 10_000), session.ErrTooLarge},
	} {
		var all []*session.Event
		for _, id := range tt.ids {
			ev := textEvent("user", tt.text)
			ev.ID, ev.Actions.StateDelta = id, map[string]any{"k": id}
			all = append(all, ev)
		}
		if err := s.Sessions.AppendAll(t.Context(), tt.sess, all); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, err, tt.want)
		}
		for _, ev := range all {
			if ev.Seq != 0 || ev.Actions.StateDelta["k"] != ev.ID {
				t.Errorf("%s: event %s has number %d, delta %v", tt.name, ev.ID, ev.Seq, ev.Actions.StateDelta)
			}
		}
	}
	again := []*session.Event{textEvent("user", "2"), textEvent("user", "first again"), textEvent("user", "3")}
	again[0].ID, again[1].ID, again[2].ID = "e-2", "e-1", "e-3"
	if err := s.Sessions.AppendAll(t.Context(), sess, again); err != nil || sess.Version != 3 {
		t.Errorf("with a repeated event: %v, version %d", err, sess.Version)
	}
}
