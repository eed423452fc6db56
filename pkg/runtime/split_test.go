package runtime_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agenthost/internal/testenv"
	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
	"agenthost/pkg/tool"
)

// A splitter records what it is called with, and answers with its choice by the session's id.
type splitter struct {
	choices map[string]runtime.Split
	calls   []string
	// failures are those to load a choice.
	failures []string
}

func (s *splitter) reportFailure(app, revision string, err error) {
	s.failures = append(s.failures, fmt.Sprintf("%s %s: %s", app, revision, err))
}

func (s *splitter) split(_ context.Context, serving *runtime.App, sess *session.Session, last string) runtime.Split {
	s.calls = append(s.calls, fmt.Sprintf("%s on %s after %q", sess.ID, serving.Revision(), last))
	if c, ok := s.choices[sess.ID]; ok {
		return c
	}
	return runtime.Split{Revision: last}
}

func newSplitHost(t *testing.T, policy runtime.SessionPolicy, log *strings.Builder) (*splitter, *revisionLoader, *testenv.Env) {
	split, s := &splitter{choices: map[string]runtime.Split{}}, &revisionLoader{T: t, policy: policy, keep: 1}
	e := testenv.New(t, nil)
	e.Host = runtime.NewHost(e.Store, &runtime.Options{LoadRevision: s.load, Split: split.split, SplitFailed: split.reportFailure, Logger: slog.New(slog.NewTextHandler(log, nil))})
	t.Cleanup(e.Host.Close)
	return split, s, e
}

func wantSelected(t *testing.T, e *testenv.Env, key session.Key, want string) {
	t.Helper()
	o := readOutcome(t, e, key)
	if got := fmt.Sprint(o.Revision, " ", o.Turns, " ", o.Selected); got != want {
		t.Errorf("outcome of session %s: revision, turns, selected %s, want %s", key.ID, got, want)
	}
}

// Split assigns a revision to a new session, keeps an earlier one on its revision, and can move it. The
// outcome has whether an expression selected it, from the first turn to the last.
func TestSplit(t *testing.T) {
	var log strings.Builder
	split, s, e := newSplitHost(t, runtime.FollowNewSessions, &log)
	old := e.Session(t, "app", "old", nil)
	s.swapTo(e, "one")
	s.wantRevision(e, old, "one")
	s.swapTo(e, "two")
	split.calls = nil
	beta, drawn, rest := e.Session(t, "app", "beta", nil), e.Session(t, "app", "drawn", nil), e.Session(t, "app", "rest", nil)
	split.choices["beta"], split.choices["drawn"] = runtime.Split{Revision: "new", Selected: true}, runtime.Split{Revision: "new"}
	for _, key := range []session.Key{beta, drawn} {
		s.wantRevision(e, key, "new")
	}
	s.wantRevision(e, rest, "two")
	s.wantRevision(e, old, "one")
	wantSelected(t, e, beta, "new 1 true")
	wantSelected(t, e, drawn, "new 1 false")
	wantSelected(t, e, rest, "two 1 false")

	// A later value of the expression changes nothing while the session keeps its revision.
	split.choices["beta"], split.choices["drawn"] = runtime.Split{Revision: "new"}, runtime.Split{Revision: "new", Selected: true}
	for _, key := range []session.Key{beta, drawn} {
		s.wantRevision(e, key, "new")
	}
	wantSelected(t, e, beta, "new 2 true")
	wantSelected(t, e, drawn, "new 2 false")

	// Moved to the serving revision, the session still is in no random sample.
	split.choices["beta"] = runtime.Split{}
	s.wantRevision(e, beta, "two")
	wantSelected(t, e, beta, "two 1 true")
	want := []string{
		`beta on two after ""`, `drawn on two after ""`, `rest on two after ""`, `old on two after "one"`,
		`beta on two after "new"`, `drawn on two after "new"`, `beta on two after "new"`,
	}
	if d := cmp.Diff(want, split.calls); d != "" {
		t.Errorf("calls (-want +got):\n%s", d)
	}
	if strings.Contains(log.String(), "not available") {
		t.Errorf("log: %s", log.String())
	}
}

// Apps with another policy are not split, and no invocation that waits changes its revision.
func TestSplitNotConsulted(t *testing.T) {
	var log strings.Builder
	split, s, e := newSplitHost(t, runtime.FollowNextTurn, &log)
	key := e.Session(t, "app", "s", nil)
	split.choices["s"] = runtime.Split{Revision: "new"}
	s.swapTo(e, "one")
	s.wantRevision(e, key, "one")

	f := &testTool{name: "f", capabilities: tool.Capabilities{Confirm: alwaysConfirm()}, run: func(context.Context, *tool.Call) (*tool.Result, error) {
		return &tool.Result{Response: map[string]any{"ok": true}}, nil
	}}
	deployApp(t, e, runtime.NewLLM("a", &runtime.LLMOptions{Model: toolCallModel("f"), Tools: []tool.Tool{f}}), &runtime.AppOptions{
		Revision: "two", Reload: &runtime.ReloadOptions{Sessions: runtime.FollowNewSessions},
	})
	key = e.Session(t, "app", "waits", nil)
	formatRun(e.Host.Run(t.Context(), userMessage(key, "go")))
	split.calls = nil
	split.choices["waits"] = runtime.Split{Revision: "new", Selected: true}
	formatRun(e.Host.Run(t.Context(), decisionRequest(key, map[string]any{"confirmed": true}, confirmationIDs(t, e, key)...)))
	wantSelected(t, e, key, "two 2 false")
	if len(split.calls) > 0 {
		t.Errorf("calls for an answer: %v", split.calls)
	}
}

// If the assigned revision cannot be loaded, the serving one takes the session, and the log has the
// reason.
func TestSplitNotAvailable(t *testing.T) {
	for missing, why := range map[string]string{"gone": "revision gone: not found", "broken": "a variable is missing"} {
		var log strings.Builder
		split, s, e := newSplitHost(t, runtime.FollowNewSessions, &log)
		s.swapTo(e, "two")
		key := e.Session(t, "app", "s", nil)
		split.choices["s"] = runtime.Split{Revision: missing, Selected: true}
		s.wantRevision(e, key, "two")
		if len(split.failures) != 1 || !strings.HasPrefix(split.failures[0], "app "+missing+": "+why) {
			t.Errorf("reported failures %q, want one of %s", split.failures, missing)
		}
		wantSelected(t, e, key, "two 1 true")
		if want := `level=WARN msg="revision not available; starting the session on the current revision" app=app session=s revision=` + missing + ` serving=two error="` + why; !strings.Contains(log.String(), want) {
			t.Errorf("log: %s, want %s", log.String(), want)
		}
	}
}

// Sessions of earlier revisions do not evict the one that new sessions get, also if only one is kept.
func TestSplitRevisionStaysLoaded(t *testing.T) {
	var log strings.Builder
	split, s, e := newSplitHost(t, runtime.FollowNewSessions, &log)
	var old []session.Key
	for i, revision := range []string{"r0", "r1", "r2"} {
		old = append(old, e.Session(t, "app", fmt.Sprint("old", i), nil))
		s.swapTo(e, revision)
		s.wantRevision(e, old[i], revision)
	}
	assign := func(revision, id string) session.Key {
		split.choices[id] = runtime.Split{Revision: revision}
		key := e.Session(t, "app", id, nil)
		s.wantRevision(e, key, revision)
		return key
	}
	before := s.built.Load()
	canary := assign("new", "first")
	for i := range 3 {
		s.wantRevision(e, old[0], "r0")
		s.wantRevision(e, old[1], "r1")
		assign("new", fmt.Sprint("later", i))
		s.wantRevision(e, canary, "new")
	}
	if n := s.built.Load() - before; n != 1+3*2 {
		t.Errorf("%d apps were built, want new once and the two others each time", n)
	}
	if open := s.built.Load() - s.closed.Load(); open != 3 {
		t.Errorf("%d apps are open, want the serving one, new, and one more", open)
	}
	s.swapTo(e, "new") // it is promoted
	s.wantRevision(e, old[0], "r0")
	if open := s.built.Load() - s.closed.Load(); open != 2 {
		t.Errorf("%d apps are open after new serves, want it and one more", open)
	}
	e.Host.Remove("app")
	if built, closed := s.built.Load(), s.closed.Load(); built != closed {
		t.Errorf("%d apps were built and %d closed", built, closed)
	}
}
