package vertexstore

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"agenthost/internal/fake/fakevertex"
	"agenthost/pkg/model"
	"agenthost/pkg/session"
	"agenthost/pkg/store"
	"agenthost/pkg/store/memstore"
)

var alice = session.Key{App: "app", User: `al"ice\`, ID: "s-1"}

func openStore(t testing.TB, s *fakevertex.Server) *store.Sessions {
	t.Helper()
	b := memstore.NewBackends()
	b.Sessions, b.Unshared = openFake(t, s), true
	st := store.New(b, nil)
	t.Cleanup(func() {
		if err := st.Close(); err != nil {
			t.Errorf("Close() = %v", err)
		}
	})
	return st.Sessions
}

func create(t testing.TB, all *store.Sessions, key session.Key, state map[string]any) *session.Session {
	t.Helper()
	sess, err := all.Create(t.Context(), key, state)
	if err != nil {
		t.Fatal(err)
	}
	return sess
}

func textEvent(id string) *session.Event {
	return &session.Event{ID: id, InvocationID: "e-1", Author: "agent", Response: model.Response{Content: model.ModelText(id)}}
}

func eventIDs(t testing.TB, all *store.Sessions, key session.Key) (ids []string) {
	t.Helper()
	sess, err := all.Get(t.Context(), key, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, ev := range sess.Events() {
		ids = append(ids, ev.ID)
	}
	return ids
}

func isAppend(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, ":appendEvent") }

func TestOpenErrors(t *testing.T) {
	const name = "//projects/p-1/locations/us-central1/reasoningEngines/77"
	tests := []struct {
		rest string
		env  map[string]string
		want string
	}{
		{"", nil, "a reasoning engine is required: write agentengine://ENGINE or agentengine://projects/PROJECT/locations/LOCATION/reasoningEngines/ENGINE"},
		{"//", nil, "a reasoning engine is required"},
		{"//77", nil, "GOOGLE_CLOUD_PROJECT or GOOGLE_CLOUD_LOCATION is not set: set both, or write the full name of the reasoning engine"},
		{"//projects/p-1/reasoningEngines/77", nil, `resource name "projects/p-1/reasoningEngines/77" is malformed`},
		{"//projects/p-1/locations/us-central1/reasoningEngines/x", nil, `"x" must be the number of a reasoning engine`},
		{"//projects/p-1/locations/a.evil.example/reasoningEngines/7", nil, `location "a.evil.example" is invalid`},
		{name + "?x=1", nil, "agentengine: session URLs have the parameter ttl, such as ttl=720h"},
		{name + "?ttl=30", nil, "agentengine: session URLs have the parameter ttl, such as ttl=720h"},
		{name + "?ttl=1h", nil, "ttl must be at least 24h0m0s, got 1h0m0s"},
		{name + "#x", nil, "agentengine: URLs have no parameters and no user"},
		{"//77", map[string]string{"GOOGLE_GENAI_USE_ENTERPRISE": "1", "GOOGLE_API_KEY": "k", "GOOGLE_CLOUD_PROJECT": "p"}, "GOOGLE_API_KEY selects express mode, but GOOGLE_CLOUD_PROJECT or GOOGLE_CLOUD_LOCATION is set as well"},
		{name, map[string]string{"GOOGLE_VERTEX_BASE_URL": "http://example.com"}, "GOOGLE_VERTEX_BASE_URL must be an https:// address, or an http:// address of this machine"},
		{"//projects/absent/locations/us-central1/reasoningEngines/77", nil, "sessions of projects/absent/locations/us-central1/reasoningEngines/77: 403 PERMISSION_DENIED: Permission denied on resource project absent.; hint: check that the project exists, and grant the host's account the role roles/aiplatform.user on it, for projects/absent"},
		{"//projects/p-1/locations/us-central1/reasoningEngines/78", nil, "reasoningEngines/78 does not exist.; hint: check that projects/p-1/locations/us-central1/reasoningEngines/78 exists in project p-1, and that its location is us-central1"},
		{"//projects/p-1/locations/europe-west4/reasoningEngines/77", nil, "404 NOT_FOUND: The ReasoningEngine does not exist in location europe-west4.; hint: check that"},
	}
	for _, tt := range tests {
		o := fakeOptions(newFake())
		o.Lookup = func(name string) (string, bool) { v, ok := tt.env[name]; return v, ok }
		_, err := Open(t.Context(), "agentengine:"+tt.rest, o)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("Open(%q) = %v, want %q", tt.rest, err, tt.want)
		}
	}
}

func TestBaseAddress(t *testing.T) {
	for location, want := range map[string]string{
		"us-central1": "https://us-central1-aiplatform.googleapis.com", "global": "https://aiplatform.googleapis.com",
		"eu": "https://aiplatform.eu.rep.googleapis.com",
	} {
		r, err := parseResource(engineKind, "agentengine://projects/p/locations/"+location+"/reasoningEngines/1", func(string) string { return "" })
		if err != nil || r.base != want {
			t.Errorf("base of %s = %v, %v, want %s", location, r, err, want)
		}
	}
}

func TestExpressMode(t *testing.T) {
	s := newFake()
	s.Token, s.Key = "", "k-1"
	env := map[string]string{"GOOGLE_GENAI_USE_ENTERPRISE": "TRUE", "GOOGLE_API_KEY": " k-1 "}
	o := &Options{HTTP: &http.Client{Transport: s}, Lookup: func(name string) (string, bool) { v, ok := env[name]; return v, ok }}
	b, err := Open(t.Context(), "agentengine://77", o)
	if err != nil || b.Engine() != "reasoningEngines/77" {
		t.Fatalf("Open = %v", err)
	}
	env["GOOGLE_API_KEY"] = "wrong"
	if _, err = Open(t.Context(), "agentengine://77", o); err == nil || !strings.Contains(err.Error(), "hint: GOOGLE_API_KEY is not a valid key for reasoningEngines/77") {
		t.Errorf("Open with a wrong key = %v", err)
	}
}

func TestSessionIDs(t *testing.T) {
	for id, want := range map[string]string{
		"s": "s", "a-b1": "a-b1", "1": "x-1", "x-1": "z-f0mj2", "1234567890123456789": "1234567890123456789",
		"0b7ac1de-1111-4222-8333-123456789abc": "x-0b7ac1de-1111-4222-8333-123456789abc", "A": "z-84",
	} {
		got, err := encodeID(id)
		if err != nil || !strings.HasPrefix(got, want[:1]) || decodeID(got) != id {
			t.Errorf("encodeID(%q) = %q, %v, back %q", id, got, err, decodeID(got))
		}
		if want[0] != 'z' && got != want {
			t.Errorf("encodeID(%q) = %q, want %q", id, got, want)
		}
	}
	if _, err := encodeID(strings.Repeat("Ä", 30)); !errors.Is(err, session.ErrInvalid) {
		t.Errorf("long id: %v", err)
	}
}

func FuzzSessionIDs(f *testing.F) {
	f.Add("x-1")
	f.Fuzz(func(t *testing.T, id string) {
		if got, err := encodeID(id); err == nil && decodeID(got) != id {
			t.Errorf("decodeID(%q) = %q, want %q", got, decodeID(got), id)
		}
	})
}

// Late operations and sessions that are not visible yet delay a creation only.
func TestCreateLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFake()
		s.PollsUntilDone, s.HiddenReads = 3, 2
		all := openStore(t, s)
		sess := create(t, all, alice, map[string]any{"k": "v", "user:u": true, "temp:t": 1})
		if d := cmp.Diff(map[string]any{"k": "v", "user:u": true}, sess.State.All()); d != "" {
			t.Error(d)
		}
		if err := all.Delete(t.Context(), alice); err != nil {
			t.Error(err)
		}
	})
}

func TestOperationNeverDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFake()
		s.PollsUntilDone = 1 << 30
		began := time.Now()
		_, err := openStore(t, s).Create(t.Context(), alice, nil)
		if !errors.Is(err, session.ErrUnavailable) || !strings.Contains(err.Error(), "is not done after 1m0s") || time.Since(began) > 2*time.Minute {
			t.Errorf("Create = %v after %s", err, time.Since(began))
		}
	})
}

// A lost response, before or after the service has stored the event, neither loses nor
// doubles it.
func TestAppendFaults(t *testing.T) {
	faults := map[string]fakevertex.Fault{
		"lost request":   {},
		"lost response":  {Late: true},
		"unavailable":    {Code: 503, Status: "UNAVAILABLE"},
		"late 503":       {Code: 503, Status: "UNAVAILABLE", Late: true},
		"quota":          {Code: 429, Status: "RESOURCE_EXHAUSTED"},
		"error in a 200": {Code: 200, Status: "INTERNAL", Message: "index"},
		"late error 200": {Code: 200, Status: "INTERNAL", Late: true},
	}
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newFake()
				var n atomic.Int64
				s.Fault = func(r *http.Request) *fakevertex.Fault {
					if isAppend(r) && n.Add(1)%2 == 1 {
						return &fault
					}
					return nil
				}
				all := openStore(t, s)
				sess := create(t, all, alice, nil)
				for _, id := range []string{"one", "two", "three"} {
					if err := all.Append(t.Context(), sess, textEvent(id)); err != nil {
						t.Fatal(err)
					}
				}
				if d := cmp.Diff([]string{"one", "two", "three"}, eventIDs(t, openStore(t, s), alice)); d != "" {
					t.Error(d)
				}
			})
		})
	}
}

// Credentials that expire during a turn fail the append, and leave the events before it.
func TestCredentialsExpire(t *testing.T) {
	s := newFake()
	var expired atomic.Bool
	s.Fault = func(*http.Request) *fakevertex.Fault {
		if expired.Load() {
			return &fakevertex.Fault{Code: 401, Status: "UNAUTHENTICATED", Message: "expired"}
		}
		return nil
	}
	b := openFake(t, s)
	backends := memstore.NewBackends()
	backends.Sessions, backends.Unshared = b, true
	all := store.New(backends, nil).Sessions
	sess := create(t, all, alice, nil)
	if err := all.Append(t.Context(), sess, textEvent("one")); err != nil {
		t.Fatal(err)
	}
	expired.Store(true)
	ev := textEvent("two")
	err := all.Append(t.Context(), sess, ev)
	if !errors.Is(err, session.ErrUnavailable) || !strings.Contains(err.Error(), "401 UNAUTHENTICATED: expired; hint: renew the host's credentials") {
		t.Errorf("Append = %v", err)
	}
	if err := b.Ping(t.Context()); !errors.Is(err, session.ErrUnavailable) {
		t.Errorf("Ping = %v", err)
	}
	expired.Store(false)
	if err := all.Append(t.Context(), sess, ev); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"one", "two"}, eventIDs(t, all, alice)); d != "" {
		t.Error(d)
	}
}

func TestForeignSession(t *testing.T) {
	all := openStore(t, newFake())
	create(t, all, alice, nil)
	for _, key := range []session.Key{{App: "app", User: "bob", ID: "s-1"}, {App: "other", User: alice.User, ID: "s-1"}} {
		if _, err := all.Get(t.Context(), key, nil); !errors.Is(err, session.ErrNotFound) {
			t.Errorf("Get(%v) = %v", key, err)
		}
		if err := all.Delete(t.Context(), key); err != nil {
			t.Errorf("Delete(%v) = %v", key, err)
		}
		if _, err := all.Create(t.Context(), key, nil); !errors.Is(err, session.ErrExists) {
			t.Errorf("Create(%v) = %v", key, err)
		}
	}
	if ids := eventIDs(t, all, alice); len(ids) != 0 {
		t.Errorf("events = %v", ids)
	}
}

func TestStateInexact(t *testing.T) {
	all := openStore(t, newFake())
	sess := create(t, all, alice, nil)
	ev := textEvent("one")
	ev.Actions.SetState("n", int64(1)<<53+1)
	const want = `state key "n": Vertex AI stores numbers as doubles, which cannot represent 9007199254740993: store it as a string`
	if err := all.Append(t.Context(), sess, ev); !errors.Is(err, session.ErrInvalid) || !strings.Contains(err.Error(), want) {
		t.Errorf("Append = %v", err)
	}
}

// An event keeps integers above 2^53, numbers beyond the range of doubles, and its provenance,
// which rawEvent does not have.
func TestEventExact(t *testing.T) {
	s := newFake()
	all := openStore(t, s)
	sess := create(t, all, alice, nil)
	ev := &session.Event{}
	const text = `{"id":"e1","invocationId":"i","author":"agent","timestamp":1700000000.123456,"content":{"role":"model","parts":[{"functionCall":{"id":"c","name":"f","args":{"n":9007199254740993,"x":1.0,"huge":[1e400]}}}]}}`
	if err := json.Unmarshal([]byte(text), ev); err != nil {
		t.Fatal(err)
	}
	ev.Provenance = session.Provenance{Revision: "r-1"}
	if err := all.Append(t.Context(), sess, ev); err != nil {
		t.Fatal(err)
	}
	got, err := openStore(t, s).Get(t.Context(), alice, nil)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(ev, got.Events()[0]); d != "" {
		t.Error(d)
	}
}

// An event that adk-python has appended, with and without rawEvent.
func TestEventsOfADK(t *testing.T) {
	s := newFake()
	b := openFake(t, s)
	path := b.Engine() + "/sessions"
	send := func(path string, body string) {
		t.Helper()
		if err := b.client.sendCall(t.Context(), &call{method: http.MethodPost, path: path, body: json.RawMessage(body)}, nil); err != nil {
			t.Fatal(err)
		}
	}
	send(path, `{"userId":"u","sessionState":{"k":1,"later":2}}`)
	backends := memstore.NewBackends()
	backends.Sessions, backends.Unshared = b, true
	all := store.New(backends, nil).Sessions
	list, err := all.List(t.Context(), "any", "u")
	if err != nil || len(list) != 1 {
		t.Fatalf("List = %v, %v", list, err)
	}
	key := list[0].Key
	send(path+"/"+key.ID+":appendEvent", `{"author":"clerk","invocationId":"e-7","timestamp":"2026-11-22T07:00:01.250000+00:00",
		"content":{"role":"model","parts":[{"function_call":{"id":"c","name":"f","args":{}}}]},"actions":{"state_delta":{"later":3},"transfer_agent":"b"},
		"eventMetadata":{"branch":"a.b","custom_metadata":{"_usage_metadata":{"total_token_count":12},"x":1}}}`)
	send(path+"/"+key.ID+":appendEvent", `{"author":"clerk","invocationId":"e-8","timestamp":"2026-11-22T07:00:02Z","rawEvent":{"id":"raw","author":"clerk","timestamp":"2026-11-22T07:00:02Z","turnComplete":true}}`)
	sess, err := all.Get(t.Context(), key, nil)
	if err != nil {
		t.Fatal(err)
	}
	one, two := sess.Events()[0], sess.Events()[1]
	if len(one.Calls()) != 1 || one.Branch != "a.b" || one.Actions.TransferToAgent != "b" || one.UsageMetadata.TotalTokenCount != 12 || len(one.CustomMetadata) != 1 || one.ID == "" {
		t.Errorf("event without rawEvent = %+v", one)
	}
	if two.ID != "raw" || two.InvocationID != "e-8" || !two.TurnComplete {
		t.Errorf("event with rawEvent = %+v", two)
	}
	initial, err := all.Initial(t.Context(), key)
	if d := cmp.Diff(map[string]any{"k": int64(1)}, initial); d != "" || err != nil {
		t.Error(d, err)
	}
}

// The service may list one event twice after a repeated append.
func TestRepeatedEvent(t *testing.T) {
	s := newFake()
	all := openStore(t, s)
	sess := create(t, all, alice, nil)
	if err := all.Append(t.Context(), sess, textEvent("one")); err != nil {
		t.Fatal(err)
	}
	b := openFake(t, s)
	body, err := encodeEvent(sess.Events()[0], mustEncode(t, sess.Events()[0]), time.Now().Add(time.Second))
	if err == nil {
		err = b.client.sendCall(t.Context(), &call{method: http.MethodPost, path: b.Engine() + "/sessions/s-1:appendEvent", body: body}, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"one"}, eventIDs(t, openStore(t, s), alice)); d != "" {
		t.Error(d)
	}
}

func mustEncode(t *testing.T, ev *session.Event) []byte {
	t.Helper()
	text, err := session.AppendEvent(nil, ev)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// A cancelled context ends the retries.
func TestCancelledContextEndsRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFake()
		all := openStore(t, s)
		s.Fault = func(*http.Request) *fakevertex.Fault { return &fakevertex.Fault{Code: 503, Status: "UNAVAILABLE"} }
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if _, err := all.Get(ctx, alice, nil); err == nil {
			t.Error("Get succeeded")
		}
	})
}

// A creation whose response is lost is not mistaken for another client's session.
func TestCreateFaults(t *testing.T) {
	for _, code := range []int{0, 503, 429} {
		synctest.Test(t, func(t *testing.T) {
			s := newFake()
			var n atomic.Int64
			s.Fault = func(r *http.Request) *fakevertex.Fault {
				if r.Method == http.MethodPost && n.Add(1) == 1 {
					return &fakevertex.Fault{Code: code, Status: "UNAVAILABLE", Late: true}
				}
				return nil
			}
			all := openStore(t, s)
			create(t, all, alice, map[string]any{"k": "v"})
			if _, err := all.Create(t.Context(), alice, nil); !errors.Is(err, session.ErrExists) {
				t.Errorf("second Create = %v", err)
			}
		})
	}
}

// A quota that stays exhausted ends in an error after 5 attempts.
func TestQuotaExhausted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFake()
		all := openStore(t, s)
		sess := create(t, all, alice, nil)
		var n atomic.Int64
		s.Fault = func(r *http.Request) *fakevertex.Fault {
			if !isAppend(r) {
				return nil
			}
			n.Add(1)
			return &fakevertex.Fault{Code: 429, Status: "RESOURCE_EXHAUSTED", Message: "Quota exceeded"}
		}
		err := all.Append(t.Context(), sess, textEvent("one"))
		const want = "appending to session s-1: 429 RESOURCE_EXHAUSTED: Quota exceeded; hint: the project's quota in this location is exhausted"
		if !errors.Is(err, session.ErrUnavailable) || !strings.Contains(err.Error(), want) || n.Load() != maxAttempts {
			t.Errorf("Append = %v after %d attempts", err, n.Load())
		}
	})
}

// A host reads the events that another one has appended, and rejects an append to the version
// before them if it has not read the session within the last seconds. An append within that time
// follows the other events, and no event is lost.
func TestTwoHosts(t *testing.T) {
	for name, tt := range map[string]struct {
		pause time.Duration
		err   error
		want  []string
	}{
		"later":    {listFreshFor, session.ErrStale, []string{"a", "b"}},
		"at once":  {0, nil, []string{"a", "b", "c"}},
		"just now": {listFreshFor - 1, nil, []string{"a", "b", "c"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { testTwoHosts(t, tt.pause, tt.err, tt.want) })
		})
	}
}

func testTwoHosts(t *testing.T, pause time.Duration, wantErr error, want []string) {
	s := newFake()
	one, two := openStore(t, s), openStore(t, s)
	old := create(t, one, alice, nil)
	if err := one.Append(t.Context(), old, textEvent("a")); err != nil {
		t.Fatal(err)
	}
	sess, err := two.Get(t.Context(), alice, nil)
	if err == nil {
		err = two.Append(t.Context(), sess, textEvent("b"))
	}
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(pause)
	if err := one.Append(t.Context(), old, textEvent("c")); !errors.Is(err, wantErr) {
		t.Errorf("Append to the old version = %v", err)
	}
	for _, host := range []*store.Sessions{one, two} {
		if d := cmp.Diff(want, eventIDs(t, host, alice)); d != "" {
			t.Error(d)
		}
	}
}

// A session that another host has deleted and created again has other events.
func TestRecreatedElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFake()
		one, two := openStore(t, s), openStore(t, s)
		old := create(t, one, alice, nil)
		if err := one.Append(t.Context(), old, textEvent("a")); err != nil {
			t.Fatal(err)
		}
		if err := two.Delete(t.Context(), alice); err != nil {
			t.Fatal(err)
		}
		create(t, two, alice, nil)
		time.Sleep(listFreshFor)
		if err := one.Append(t.Context(), old, textEvent("b")); err == nil {
			t.Error("appended to another session")
		}
		if ids := eventIDs(t, one, alice); len(ids) != 0 {
			t.Errorf("events = %v", ids)
		}
	})
}

// The fake rejects what the service rejects.
func TestFakeStrict(t *testing.T) {
	s := newFake()
	path := openFake(t, s).Engine() + "/sessions"
	for _, tt := range []struct{ path, body, want string }{
		{path, `{"userId":"u","user":"x"}`, `Unknown name "user"`},
		{path, `{}`, "user_id is required"},
		{path, `{"userId":"u","ttl":"60s"}`, "at least 24 hours"},
		{path, `{"userId":"u","labels":{"A":"x"}}`, `Invalid label "A"`},
		{path + "?sessionId=1a", `{"userId":"u"}`, `Invalid session id "1a"`},
		{path + "/none:appendEvent", `{}`, "not found"},
	} {
		b := openFake(t, s)
		err := b.client.sendCall(t.Context(), &call{method: http.MethodPost, path: tt.path, body: json.RawMessage(tt.body)}, nil)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s = %v, want %q", tt.body, err, tt.want)
		}
	}
	s.Token = "other"
	if _, err := Open(t.Context(), testURL, fakeOptions(s)); err == nil || !strings.Contains(err.Error(), "401 UNAUTHENTICATED") {
		t.Errorf("Open with a wrong token = %v", err)
	}
}

// A read after a session's log was dropped returns only the later events.
func TestReadWithoutLog(t *testing.T) {
	s := newFake()
	all, b := openStore(t, s), openFake(t, s)
	sess := create(t, all, alice, nil)
	for _, id := range []string{"a", "b"} {
		if err := all.Append(t.Context(), sess, textEvent(id)); err != nil {
			t.Fatal(err)
		}
	}
	first, err := b.ReadSession(t.Context(), alice, store.EventWindow{Last: -1})
	if err != nil {
		t.Fatal(err)
	}
	b.setLog(alice, nil)
	snap, err := b.ReadSession(t.Context(), alice, store.EventWindow{Last: -1, ID: first.ID, Since: 1, SinceID: "a"})
	if err != nil || snap.Whole || len(snap.Events) != 1 || snap.Events[0].Event.ID != "b" || snap.Version != 2 {
		t.Errorf("ReadSession = %+v, %v", snap, err)
	}
}

// Sessions exist for the URL's ttl, or until the time that their creation set.
func TestTTLSetsExpiry(t *testing.T) {
	s := newFake()
	b, err := Open(t.Context(), testURL+"?ttl=720h", fakeOptions(s))
	if err != nil {
		t.Fatal(err)
	}
	if err := b.CreateSession(t.Context(), alice, nil, time.Time{}, nil); err != nil {
		t.Fatal(err)
	}
	soon := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	err = b.CreateExpiring(t.Context(), bob, nil, soon, nil)
	if want := "sessions in Vertex AI exist for at least 24 hours, this one would expire at 2026-01-02T03:04:05Z: invalid"; err == nil || err.Error() != want {
		t.Errorf("CreateExpiring() = %v, want %s", err, want)
	}
	if err := b.CreateExpiring(t.Context(), bob, nil, time.Now().Add(48*time.Hour), nil); err == nil {
		t.Error("a second session has the id of the first")
	}
	other := session.Key{App: "app", User: "bob", ID: "s-2"}
	if err := b.CreateExpiring(t.Context(), other, nil, time.Now().Add(48*time.Hour), nil); err != nil {
		t.Error(err)
	}
	path, err := b.sessionPath(alice)
	if err != nil {
		t.Fatal(err)
	}
	var stored struct{ CreateTime, ExpireTime time.Time }
	if err := b.client.sendCall(t.Context(), &call{method: http.MethodGet, path: path}, &stored); err != nil {
		t.Fatal(err)
	}
	if got := stored.ExpireTime.Sub(stored.CreateTime); got != 720*time.Hour {
		t.Errorf("the session expires after %s, want 720h", got)
	}
}
