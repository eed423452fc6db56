package runtime_test

import (
	"fmt"
	"maps"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genai"
	"pgregory.net/rapid"

	"agenthost/internal/fake/fakebucket"
	"agenthost/internal/testenv"
	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
)

// snapshot is a session's state after an event.
type snapshot struct {
	state map[string]any
	note  string
}

// TestRewindRestores: a rewind restores the session's own state and artifact, also
// across earlier rewinds. It does not change user state.
func TestRewindRestores(t *testing.T) {
	google := httptest.NewServer(&fakebucket.GCS{})
	defer google.Close()
	emulator := func(name string) (string, bool) { return google.URL, name == "STORAGE_EMULATOR_HOST" }
	for _, opts := range []*testenv.Options{
		{URL: "memory:"}, {URL: "sqlite:///" + t.TempDir() + "/r.db"}, {Artifacts: "gs://box", Env: emulator},
	} {
		e := testenv.New(t, opts)
		n := 0
		rapid.Check(t, func(rt *rapid.T) {
			n++
			key := session.Key{App: "app", User: "u", ID: fmt.Sprint("s", n)}
			initial := drawDelta(rt, "initial", false)
			sess, err := e.Store.Sessions.Create(t.Context(), key, maps.Clone(initial))
			if err != nil {
				rt.Fatal(err)
			}
			snapshots := []snapshot{takeSnapshot(t, e, key)}
			for i := range rapid.IntRange(1, 8).Draw(rt, "events") {
				if i > 1 && rapid.IntRange(0, 3).Draw(rt, "rewind") == 0 {
					snapshots = append(snapshots, rewindToRandomEvent(t, rt, e, key, snapshots))
				} else {
					ev := &session.Event{InvocationID: fmt.Sprint("i", i/2), Author: "a"}
					ev.Actions.StateDelta = drawDelta(rt, "delta", true)
					ev.Actions.StateDelta["user:last"] = int64(i)
					if rapid.Bool().Draw(rt, "saves") {
						saveNote(t, e, key, ev, fmt.Sprint("note", i))
					}
					if err := e.Store.Sessions.Append(t.Context(), sess, ev); err != nil {
						rt.Fatal(err)
					}
					snapshots = append(snapshots, takeSnapshot(t, e, key))
				}
				if sess, err = e.Store.Sessions.Get(t.Context(), key, nil); err != nil {
					rt.Fatal(err)
				}
			}
			rewindToRandomEvent(t, rt, e, key, snapshots)
		})
	}
}

// rewindToRandomEvent draws an event, rewinds to it, and compares the session with
// the snapshot taken there.
func rewindToRandomEvent(t *testing.T, rt *rapid.T, e *testenv.Env, key session.Key, snapshots []snapshot) snapshot {
	sess, err := e.Store.Sessions.Get(t.Context(), key, nil)
	if err != nil {
		rt.Fatal(err)
	}
	events := sess.Events()
	req := &runtime.RewindRequest{App: key.App, UserID: key.User, SessionID: key.ID}
	// After the last event there is nothing to undo.
	at := rapid.IntRange(0, len(events)-1).Draw(rt, "at")
	want := snapshots[at]
	if at > 0 && rapid.Bool().Draw(rt, "to an event") {
		req.AfterEventID = events[at-1].ID
	} else {
		req.BeforeInvocationID = events[at].InvocationID
		for i, ev := range events {
			if ev.InvocationID == req.BeforeInvocationID {
				want = snapshots[i]
				break
			}
		}
	}
	last := sess.State.All()["user:last"]
	for _, err := range e.Host.Rewind(t.Context(), req) {
		rt.Fatal(err)
	}
	got := takeSnapshot(t, e, key)
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(snapshot{})); diff != "" {
		rt.Fatalf("rewind %+v (-then +now):\n%s", *req, diff)
	}
	after, err := e.Store.Sessions.Get(t.Context(), key, nil)
	if err != nil {
		rt.Fatal(err)
	}
	if now := after.State.All()["user:last"]; now != last {
		rt.Fatalf("user:last was %v, now %v", last, now)
	}
	if got, want := after.Version, sess.Version+1; got != want {
		rt.Fatalf("a rewind is one event: version %d, want %d", got, want)
	}
	return got
}

func drawDelta(rt *rapid.T, label string, removes bool) map[string]any {
	delta := map[string]any{}
	values := []any{int64(1), int64(2), "x", true, 1.5, []any{int64(1), "a"}, map[string]any{"k": int64(3)}}
	if removes {
		values = append(values, nil, nil)
	}
	for _, k := range []string{"a", "b", "c"} {
		if rapid.Bool().Draw(rt, label+" "+k) {
			delta[k] = rapid.SampledFrom(values).Draw(rt, label)
		}
	}
	return delta
}

func saveNote(t *testing.T, e *testenv.Env, key session.Key, ev *session.Event, text string) {
	version, err := e.Store.Artifacts.Save(t.Context(), key, "note.txt", &genai.Part{Text: text})
	if err != nil {
		t.Fatal(err)
	}
	ev.Actions.SetArtifact("note.txt", version)
}

func takeSnapshot(t *testing.T, e *testenv.Env, key session.Key) snapshot {
	sess, err := e.Store.Sessions.Get(t.Context(), key, nil)
	if err != nil {
		t.Fatal(err)
	}
	m := snapshot{state: map[string]any{}}
	for k, v := range sess.State.All() {
		if scope, _ := session.ScopeOf(k); scope == session.ScopeSession {
			m.state[k] = v
		}
	}
	if part, err := e.Store.Artifacts.Load(t.Context(), key, "note.txt", -1); err == nil {
		m.note = part.Text
	}
	return m
}
