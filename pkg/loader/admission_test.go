package loader

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agenthost/pkg/runtime"
	"agenthost/pkg/spec"
	"agenthost/pkg/store"
	"agenthost/pkg/store/memstore"
)

// An admitEnv is a watch whose Admit the test decides.
type admitEnv struct {
	*watchEnv
	store *store.Store
	log   strings.Builder
	// decide is Admit by the app's description; asked are the descriptions.
	decide func(app *runtime.App) (Admission, error)
	asked  []string
	gates  int
}

// newAdmitEnv returns an environment whose app x serves "one" and then holds every other content.
func newAdmitEnv(t *testing.T, settings string) *admitEnv {
	s := &admitEnv{watchEnv: newWatchEnv(t), store: memstore.New(nil)}
	t.Cleanup(func() { s.store.Close() })
	s.decide = func(*runtime.App) (Admission, error) { return Admission{}, nil }
	s.writeFile("x/app.yaml", "reload: {sessions: new_sessions"+settings+"}\n")
	s.writeFile("x/root_agent.yaml", agentYAML("one"))
	s.restart(nil)
	s.pollAndExpect(2)
	s.asked, s.gates = nil, 0
	return s
}

// restart starts another watch on the folder, with a host that serves nothing.
func (s *admitEnv) restart(revisions *store.Revisions) {
	s.Helper()
	if revisions == nil {
		revisions = s.store.Revisions
	}
	s.host.Remove("x")
	s.host = newRecorder()
	s.Cleanup(func() {
		if app := s.host.apps["x"]; app != nil {
			s.host.Remove("x")
		}
	})
	s.watch = NewWatch(New(listKinds(), nil), s.host, []string{s.top}, &WatchOptions{
		Clock: s.clock, Revisions: revisions, Logger: slog.New(slog.NewTextHandler(&s.log, nil)),
		Gate: func(context.Context, string, *runtime.App) spec.Diagnostics { s.gates++; return nil },
		Admit: func(_ context.Context, app *runtime.App) (Admission, error) {
			s.asked = append(s.asked, app.Description())
			return s.decide(app)
		},
	})
	s.must(s.watch.Sync(s.Context()))
}

func (s *admitEnv) holdFor(reason, serving string) {
	s.decide = func(*runtime.App) (Admission, error) {
		return Admission{Hold: true, Reason: reason, Serving: serving}, nil
	}
}

// status returns x's status.
func (s *admitEnv) status() Status {
	st, _ := s.watch.Status("x")
	return st
}

// wantHeld checks that what has a description serves, and another content is held for a reason.
func (s *admitEnv) wantHeld(serving, reason string) {
	s.Helper()
	st := s.status()
	if st.OK || st.PendingRevision == "" || st.PendingRevision == st.Revision || st.Held != reason || s.host.describeApp("x") != serving {
		s.Errorf("serving %q, status %+v; want %q, held: %s", s.host.describeApp("x"), st, serving, reason)
	}
	if st.Revision != s.host.apps["x"].Revision() {
		s.Errorf("status has revision %s, the host serves %s", st.Revision, s.host.apps["x"].Revision())
	}
}

// wantServing checks that the files' content serves.
func (s *admitEnv) wantServing(description string) {
	s.Helper()
	st := s.status()
	if !st.OK || st.PendingRevision != "" || st.Held != "" || s.host.describeApp("x") != description || st.Revision != s.host.apps["x"].Revision() {
		s.Errorf("serving %q, status %+v; want %q", s.host.describeApp("x"), st, description)
	}
}

func (s *admitEnv) wantAsked(want ...string) {
	s.Helper()
	if diff := cmp.Diff(want, s.asked); diff != "" {
		s.Errorf("Admit was called for (-want +got):\n%s", diff)
	}
	s.asked = nil
}

// A held change does not serve. Admit decides about it once, and again when it is reconsidered or
// requested; admitted, it serves without a second gate.
func TestAdmitHoldAndPromote(t *testing.T) {
	s := newAdmitEnv(t, "")
	stable := s.status().Revision
	s.holdFor("rollout at 5 %", stable)
	write("two")(s.watchEnv)
	s.pollAndExpect(5)
	s.wantHeld("one", "rollout at 5 %")
	s.wantAsked("two")
	if !strings.Contains(s.log.String(), `msg="app changed; held" app=x revision=`+stable+` held=`+s.status().PendingRevision+` reason="rollout at 5 %"`) {
		t.Errorf("log: %s", s.log.String())
	}
	held, err := s.watch.LoadRevision(t.Context(), "x", s.status().PendingRevision)
	if err != nil || held.Description() != "two" {
		t.Fatalf("LoadRevision of the held one = %v, %v", held, err)
	}
	held.Close()

	s.watch.Reconsider("x")
	s.pollAndExpect(3)
	s.wantHeld("one", "rollout at 5 %")
	s.wantAsked("two")
	s.must(s.watch.Reload(t.Context()))
	s.wantHeld("one", "rollout at 5 %")
	s.wantAsked("two")
	if s.gates != 2 {
		t.Errorf("the gate ran %d times, want once for the change and once for the request", s.gates)
	}

	s.decide = func(*runtime.App) (Admission, error) { return Admission{}, nil }
	s.pollAndExpect(3)
	s.wantHeld("one", "rollout at 5 %")
	s.watch.Reconsider("x")
	s.pollAndExpect(3, "x two")
	s.wantServing("two")
	s.wantAsked("two")
	if s.gates != 2 {
		t.Errorf("the gate ran %d times, want no more for a promotion", s.gates)
	}
	s.watch.Reconsider("x") // nothing is held
	s.watch.Reconsider("unknown")
	s.pollAndExpect(3)
	s.wantAsked()
	want := `2 x held; agent a description changed root_agent.yaml
3 x loaded; agent a description changed root_agent.yaml
`
	if diff := cmp.Diff(want, s.formatReports(1)); diff != "" {
		t.Errorf("reports (-want +got):\n%s", diff)
	}
}

// An aborted change stays held for another reason, until the files change; restored by hand, they
// match what serves.
func TestAdmitAbortAndRestore(t *testing.T) {
	s := newAdmitEnv(t, ", keep_revisions: 1")
	stable := s.status().Revision
	s.holdFor("rollout at 5 %", stable)
	write("two")(s.watchEnv)
	s.pollAndExpect(2)
	s.holdFor("rolled back: failed above 0.1", stable)
	s.watch.Reconsider("x")
	s.pollAndExpect(1)
	s.wantHeld("one", "rolled back: failed above 0.1")
	reports, _ := s.watch.Reports(2)
	if len(reports) != 1 || reports[0].Kind != ReportHeld || reports[0].Reason != "rolled back: failed above 0.1" || reports[0].From != stable || reports[0].To != s.status().PendingRevision {
		t.Errorf("reports = %+v", reports)
	}
	for i := range 3 { // changed again while it is held: what serves is never pruned
		aborted := s.status().PendingRevision
		s.holdFor(fmt.Sprint("rollout ", i), stable)
		write(fmt.Sprint("fix ", i))(s.watchEnv)
		s.pollAndExpect(2)
		s.wantHeld("one", fmt.Sprint("rollout ", i))
		if s.status().PendingRevision == aborted {
			t.Error("the pending revision is the aborted one")
		}
	}
	if _, err := s.store.Revisions.Get(t.Context(), "x", stable); err != nil {
		t.Errorf("the serving revision is pruned: %v", err)
	}
	s.asked = nil
	write("one")(s.watchEnv)
	s.pollAndExpect(2)
	s.wantServing("one")
	s.wantAsked("one")
	if reports, _ := s.watch.Reports(0); reports[len(reports)-1].Kind != ReportRecovered {
		t.Errorf("last report = %+v, want %s", reports[len(reports)-1], ReportRecovered)
	}
}

// After a restart in the middle, the revision that Admit names serves, from the store.
func TestAdmitRestart(t *testing.T) {
	s := newAdmitEnv(t, ", keep_revisions: 1")
	stable := s.status().Revision
	s.holdFor("rollout at 5 %", stable)
	write("two")(s.watchEnv)
	s.pollAndExpect(2)
	canary := s.status().PendingRevision
	for range 2 {
		s.restart(nil)
		s.wantHeld("one", "rollout at 5 %")
		if st := s.status(); st.Revision != stable || st.PendingRevision != canary {
			t.Errorf("after a restart: %+v, want %s held, %s serving", st, canary, stable)
		}
	}
	write("three")(s.watchEnv) // while the host is down
	s.restart(nil)
	s.wantHeld("one", "rollout at 5 %")
	if diff := cmp.Diff("1 x held; agent a description changed root_agent.yaml\n", s.formatReports(0)); diff != "" {
		t.Errorf("reports (-want +got):\n%s", diff)
	}
	s.decide = func(*runtime.App) (Admission, error) { return Admission{}, nil }
	s.watch.Reconsider("x")
	s.pollAndExpect(1, "x three")
	s.wantServing("three")
}

// A replica that serves another revision than the one that Admit names publishes that one.
func TestAdmitServesNamedRevision(t *testing.T) {
	s := newAdmitEnv(t, "")
	write("two")(s.watchEnv)
	s.pollAndExpect(2, "x two")
	two := s.status().Revision
	write("one")(s.watchEnv)
	s.pollAndExpect(2, "x one")
	s.holdFor("rollout at 5 %", two)
	write("three")(s.watchEnv)
	s.pollAndExpect(2, "x two")
	s.wantHeld("two", "rollout at 5 %")
}

// If the revision that should serve is not available, the last good state keeps serving, and without
// one the files' content serves. The reason is given.
func TestAdmitRevisionMissing(t *testing.T) {
	s := newAdmitEnv(t, "")
	one := s.status().Revision
	s.holdFor("rollout at 5 %", "pruned")
	write("two")(s.watchEnv)
	s.pollAndExpect(2)
	s.wantHeld("one", "rollout at 5 %; what should serve is not available, revision "+one+" keeps serving: revision pruned of app x is not stored: not found")
	for serving, lack := range map[string]string{"pruned": "revision pruned of app x is not stored: not found", "": "no revision serves"} {
		s.holdFor("rollout at 5 %", serving)
		s.log.Reset()
		s.restart(nil)
		s.wantServing("two")
		want := "the revision should be held (rollout at 5 %), and serves because nothing else does: " + lack
		if ds := s.status().Diagnostics; len(ds) != 1 || ds[0].Severity != spec.Warning || ds[0].Message != want {
			t.Errorf("diagnostics = %v, want %s", ds.Strings(), want)
		}
		if !strings.Contains(s.log.String(), `level=WARN msg="the app should be held, and serves because nothing else does" app=x`) {
			t.Errorf("log: %s", s.log.String())
		}
	}
	// A stored revision that does not load counts as missing.
	s.must(s.store.Revisions.Put(t.Context(), &store.Revision{App: "x", ID: "broken", Files: map[string][]byte{"root_agent.yaml": []byte("name: 1a\n")}}, 9))
	s.holdFor("rollout at 5 %", "broken")
	s.restart(nil)
	s.wantServing("two")
	if got := s.status().Diagnostics.Strings(); len(got) != 1 || !strings.Contains(got[0], "building revision broken of app x: ") {
		t.Errorf("diagnostics = %v", got)
	}
}

// An error of Admit keeps what serves, and polls call it again. At the start, nothing serves
// meanwhile, and the status has the error.
func TestAdmitFails(t *testing.T) {
	s := newAdmitEnv(t, "")
	stable := s.status().Revision
	fail := func(*runtime.App) (Admission, error) { return Admission{}, errors.New("the database is away") }
	s.decide = fail
	write("two")(s.watchEnv)
	s.pollAndExpect(4)
	st := s.status()
	if st.OK || st.PendingRevision != "" || st.Revision != stable || !strings.Contains(st.Diagnostics.Error(), "cannot decide whether the revision may serve: the database is away") {
		t.Errorf("status %+v", st)
	}
	s.restart(nil)
	st = s.status()
	if len(s.host.apps) > 0 || st.Revision != "" || !strings.Contains(st.Diagnostics.Error(), "cannot decide whether the revision may serve: the database is away") {
		t.Errorf("at the start: %v, status %+v", s.host.apps, st)
	}
	s.holdFor("rollout at 5 %", stable)
	s.pollAndExpect(2, "x one")
	s.wantHeld("one", "rollout at 5 %")
	s.decide = fail
	s.watch.Reconsider("x")
	s.pollAndExpect(2)
	if got := s.host.describeApp("x"); got != "one" || s.status().OK {
		t.Errorf("serving %q, status %+v", got, s.status())
	}
	s.decide = func(*runtime.App) (Admission, error) { return Admission{}, nil }
	s.pollAndExpect(2, "x two")
	s.wantServing("two")

	closed := memstore.New(nil)
	closed.Close()
	s.restart(closed.Revisions)
	if got := s.status().Diagnostics.Error(); !strings.Contains(got, "cannot store the revision, which is required before it serves: ") {
		t.Errorf("without the database: %s", got)
	}
}

// The gate comes first: a change that it rejects is not held. A manual reload waits before both.
func TestAdmitAfterGate(t *testing.T) {
	s := newAdmitEnv(t, "")
	stable := s.status().Revision
	s.holdFor("rollout at 5 %", stable)
	gate := s.watch.opts.Gate
	s.watch.opts.Gate = func(_ context.Context, dir string, _ *runtime.App) spec.Diagnostics {
		return spec.Diagnostics{{Pos: spec.Pos{File: dir}, Rule: "test-failed", Message: "it fails"}}
	}
	write("two")(s.watchEnv)
	s.pollAndExpect(3)
	s.wantAsked()
	if st := s.status(); st.OK || st.Held != "" || st.PendingRevision != "" {
		t.Errorf("status after the gate: %+v", st)
	}
	s.watch.opts.Gate = gate
	s.decide = func(*runtime.App) (Admission, error) { return Admission{}, nil }
	s.writeFile("x/app.yaml", "reload: {sessions: manual}\n")
	s.pollAndExpect(2, "x two")
	s.holdFor("rollout at 5 %", "")
	s.asked = nil
	write("three")(s.watchEnv)
	s.pollAndExpect(3)
	s.wantAsked()
	if st := s.status(); st.OK || st.Held != "" || st.PendingRevision == "" {
		t.Errorf("status before the manual reload: %+v", st)
	}
	s.must(s.watch.Reload(t.Context()))
	s.wantHeld("two", "rollout at 5 %")
	s.decide = func(*runtime.App) (Admission, error) { return Admission{}, nil }
	s.watch.Reconsider("x")
	s.pollAndExpect(1, "x three")
	s.wantServing("three")
}

// A folder that cannot be read and comes back is held as before, and a promotion meanwhile applies.
func TestAdmitUnreadable(t *testing.T) {
	s := newAdmitEnv(t, "")
	s.holdFor("rollout at 5 %", s.status().Revision)
	write("two")(s.watchEnv)
	s.pollAndExpect(2)
	a := s.watch.apps["x"]
	for _, promote := range []bool{false, true} {
		s.watch.markUnreadable(a, errors.New("broken"))
		if st := s.status(); st.Held != "" || st.PendingRevision != "" {
			t.Errorf("status while unreadable: %+v", st)
		}
		if !promote {
			s.pollAndExpect(2)
			s.wantHeld("one", "rollout at 5 %")
			continue
		}
		s.decide = func(*runtime.App) (Admission, error) { return Admission{}, nil }
		s.watch.Reconsider("x")
		s.pollAndExpect(2, "x two")
		s.wantServing("two")
	}
}
