package rollout_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"agenthost"
	"agenthost/internal/testenv"
	"agenthost/pkg/loader"
	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
	"agenthost/pkg/store"
	"agenthost/pkg/store/memstore"
	"agenthost/wing/rollout"
)

// A clock is moved by the test.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) read() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// A desk is a host with one app, whose files and sessions the test changes.
type desk struct {
	t        *testing.T
	dir      string
	clock    *clock
	store    *store.Store
	host     *agenthost.Host
	staged   *rollout.Controller
	sessions int
}

const appYAML = `models: {m: {provider: scripted, script: s.yaml}}
reload: {sessions: new_sessions}
rollout:
  always: state["user:beta"] == true
  wait: 1m
  steps: [{share: 0.5, for: 1h, min: 5}, {share: 1}]
  abort: ["above(failed, 0.3)"]
`

const (
	good = "- text: good"
	fine = "- text: fine"
	bad  = "- error: {code: 500, message: broken}"
)

func newDesk(t *testing.T) *desk {
	t.Helper()
	d := &desk{t: t, dir: filepath.Join(t.TempDir(), "desk"), clock: &clock{now: time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)}}
	if err := os.MkdirAll(d.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	d.store = memstore.New(&store.Options{Clock: d.clock.read})
	d.write("app.yaml", appYAML)
	d.write("root_agent.yaml", "name: desk\nmodel: m\ninstruction: x\n")
	d.write("s.yaml", good)
	d.start()
	t.Cleanup(func() { d.stop() })
	return d
}

func (d *desk) write(name, text string) {
	d.t.Helper()
	if err := os.WriteFile(filepath.Join(d.dir, name), []byte(text), 0o644); err != nil {
		d.t.Fatal(err)
	}
}

// start opens a host on the store.
func (d *desk) start() {
	d.t.Helper()
	d.staged = rollout.NewController(&rollout.Options{Rollouts: d.store.Rollouts, Outcomes: d.store.Outcomes, Owner: "here", Clock: d.clock.read, Logger: slog.New(slog.DiscardHandler)})
	var err error
	d.host, err = agenthost.Open(d.t.Context(), &agenthost.Options{
		Folders: []string{d.dir}, Kinds: testenv.Kinds(), Store: d.store,
		Run:   &runtime.Options{Split: d.staged.Split, SplitFailed: d.staged.RecordFailure},
		Watch: &loader.WatchOptions{Admit: d.staged.Admit, PollOnly: true, Poll: time.Hour},
	})
	if err != nil {
		d.t.Fatal(err)
	}
	d.staged.Attach(&rollout.Host{Serving: d.host.App, Reconsider: d.host.Watch().Reconsider, Report: d.host.Watch().AppendReport})
}

func (d *desk) stop() {
	if err := d.host.Close(); err != nil {
		d.t.Error(err)
	}
}

// save writes the script, and waits until the watch has read it.
func (d *desk) save(script string) {
	d.t.Helper()
	d.write("s.yaml", script)
	d.reload()
}

func (d *desk) reload() {
	d.t.Helper()
	if err := d.host.Watch().Reload(d.t.Context()); err != nil {
		d.t.Fatal(err)
	}
}

// talk runs a turn, and returns the answer.
func (d *desk) talk(user, id string) string {
	text := ""
	for ev, err := range d.host.Run(d.t.Context(), &runtime.RunRequest{App: "desk", UserID: user, SessionID: id, CreateSession: true, Message: agenthost.UserText("hi")}) {
		if err != nil {
			return "error"
		}
		if ev.ErrorCode != "" {
			return "error"
		}
		text += ev.Text()
	}
	return text
}

// serve runs new sessions, and returns how many got each answer.
func (d *desk) serve(sessions int) map[string]int {
	got := map[string]int{}
	for range sessions {
		d.sessions++
		got[d.talk("ana", fmt.Sprint(d.sessions))]++
	}
	return got
}

// check lets time pass, and the controller decide; then the watch follows.
func (d *desk) check(after time.Duration) {
	d.t.Helper()
	d.clock.advance(after)
	d.staged.Check(d.t.Context())
	d.reload()
}

// view is the stored rollout.
func (d *desk) view() (v struct {
	Status, Reason string
	Counted        struct{ Stable, Draft int }
},
) {
	d.t.Helper()
	row, err := d.store.Rollouts.Get(d.t.Context(), "desk")
	if err == nil {
		err = json.Unmarshal(row.Data, &v)
	}
	if err != nil {
		d.t.Fatal(err)
	}
	return v
}

func (d *desk) status() loader.Status {
	for _, s := range d.host.Watch().Statuses() {
		return s
	}
	d.t.Fatal("no status")
	return loader.Status{}
}

// A change with a fault reaches half of the new sessions, is found by its failures, and is taken back
// by itself. Its files begin no rollout again, and the next change does.
func TestRolledBack(t *testing.T) {
	d := newDesk(t)
	stable := d.status().Revision
	d.talk("ana", "old")
	d.save(bad)
	if s := d.status(); s.Revision != stable || s.PendingRevision == "" || s.PendingRevision == stable {
		t.Fatalf("status after the save: %+v, want revision %s to serve and the other one pending", s, stable)
	}
	got := d.serve(40)
	if got["good"] < 4 || got["error"] < 4 || got["good"]+got["error"] != 40 {
		t.Fatalf("answers at a share of 50 %%: %v", got)
	}
	if answer := d.talk("ana", "old"); answer != "good" {
		t.Errorf("a session of the stable revision answers %s", answer)
	}
	d.check(30 * time.Second)
	if got := d.serve(20); got["error"] == 0 {
		t.Errorf("sessions were counted before their wait: %v", got)
	}
	d.check(2 * time.Minute)
	if got := d.serve(20); got["good"] != 20 {
		t.Errorf("answers after the abort: %v", got)
	}
	if s := d.status(); s.Revision != stable || !strings.Contains(fmt.Sprint(s), "above(failed, 0.3)") {
		t.Errorf("status after the abort: %+v", s)
	}
	d.reload()
	if got := d.serve(10); got["good"] != 10 {
		t.Errorf("answers after another reload of the same files: %v", got)
	}
	d.save(fine)
	got = d.serve(40)
	if got["fine"] < 4 || got["good"] < 4 {
		t.Errorf("answers with the next change: %v", got)
	}
	t.Logf("shown: a faulty change was taken back by itself; control, the next change without the fault serves %d of 40 sessions", got["fine"])
}

// A change without a fault serves all new sessions after its steps; sessions of the stable revision
// stay on it.
func TestPromoted(t *testing.T) {
	d := newDesk(t)
	d.talk("ana", "old")
	d.save(fine)
	changed := d.status().PendingRevision
	d.serve(40)
	d.check(30 * time.Minute)
	if got := d.serve(40); got["good"] == 0 || got["fine"] == 0 {
		t.Errorf("answers in the first step: %v", got)
	}
	d.check(31 * time.Minute)
	if s := d.status(); s.Revision != changed || s.PendingRevision != "" || !s.OK {
		t.Errorf("status after the steps: %+v, want revision %s", s, changed)
	}
	if got := d.serve(10); got["fine"] != 10 {
		t.Errorf("answers after the steps: %v", got)
	}
	if answer := d.talk("ana", "old"); answer != "good" {
		t.Errorf("a session of the old revision answers %s", answer)
	}
}

// A host that restarts in the middle of a rollout, or with new files, serves the stable revision.
func TestRestart(t *testing.T) {
	d := newDesk(t)
	stable := d.status().Revision
	d.stop()
	d.write("s.yaml", fine)
	for name, want := range map[string]int{"with new files": 40, "in the middle": 40} {
		d.start()
		if s := d.status(); s.Revision != stable || s.PendingRevision == "" {
			t.Errorf("%s: %+v, want revision %s to serve", name, s, stable)
		}
		if got := d.serve(40); got["good"] < 4 || got["fine"] < 4 || got["good"]+got["fine"] != want {
			t.Errorf("%s: %v", name, got)
		}
		d.stop()
	}
	d.start()
}

// Without rollout in app.yaml changes serve at once, and the next rollout begins from what serves, also
// after a restart in between.
func TestWithoutRollout(t *testing.T) {
	d := newDesk(t)
	d.save(fine)
	app, _, _ := strings.Cut(appYAML, "rollout:")
	d.stop()
	d.write("app.yaml", app)
	d.write("s.yaml", "- text: plain")
	d.start()
	if got := d.serve(20); got["plain"] != 20 || d.status().PendingRevision != "" {
		t.Errorf("answers without a rollout: %v, %+v", got, d.status())
	}
	d.stop()
	d.write("app.yaml", appYAML)
	d.write("s.yaml", good+" again")
	d.start()
	if got := d.serve(40); got["plain"] < 4 || got["good again"] < 4 || got["plain"]+got["good again"] != 40 {
		t.Errorf("answers with a rollout again: %v", got)
	}
}

// Explanations have a revision's place in the rollouts of its app.
func TestDescribeRevision(t *testing.T) {
	d := newDesk(t)
	stable := d.status().Revision
	var began time.Time
	expect := func(revision, want string) {
		t.Helper()
		got, err := rollout.DescribeRevision(t.Context(), d.store.Rollouts, "desk", revision, began)
		if err != nil || got != want {
			t.Errorf("got  %q, %v\nwant %q", got, err, want)
		}
	}
	expect(stable, "")
	d.save(bad)
	draft := d.status().PendingRevision
	expect(stable, "stable revision in a rollout, running at 50 % of the new sessions for revision "+draft)
	expect(draft, "new revision in a rollout, running at 50 % of the new sessions, step 1 of 2")
	expect("unknown", "")
	began = d.clock.read()
	const inStep = "; the session began on it in step 1, at 50 % of the new sessions"
	expect(draft, "new revision in a rollout, running at 50 % of the new sessions, step 1 of 2"+inStep)
	expect(stable, "stable revision in a rollout, running at 50 % of the new sessions for revision "+draft)
	began = began.Add(-time.Second)
	expect(draft, "new revision in a rollout, running at 50 % of the new sessions, step 1 of 2")
	began = began.Add(time.Second)
	d.serve(40)
	d.check(2 * time.Minute)
	got, err := rollout.DescribeRevision(t.Context(), d.store.Rollouts, "desk", draft, began)
	if err != nil || !strings.HasPrefix(got, "taken back by a rollout on 2026-11-27 12:02:00: above(failed, 0.3): ") || !strings.HasSuffix(got, inStep) {
		t.Errorf("after the abort: %q, %v", got, err)
	}
	expect(stable, "")
	began = began.Add(time.Hour)
	got, err = rollout.DescribeRevision(t.Context(), d.store.Rollouts, "desk", draft, began)
	if err != nil || strings.HasSuffix(got, inStep) {
		t.Errorf("a session after the end: %q, %v", got, err)
	}
	d.save(fine)
	expect(draft, "taken back by an earlier rollout")
}

// Files that go back end the rollout.
func TestFilesGoBack(t *testing.T) {
	d := newDesk(t)
	stable := d.status().Revision
	d.save(fine)
	d.save(good)
	if s := d.status(); s.Revision != stable || s.PendingRevision != "" || !s.OK {
		t.Errorf("status: %+v", s)
	}
	if got := d.serve(20); got["good"] != 20 {
		t.Errorf("answers: %v", got)
	}
}

// Sessions whose state the expression selects are on the new revision.
func TestSelected(t *testing.T) {
	d := newDesk(t)
	d.save(fine)
	for i := range 10 {
		id := fmt.Sprint("beta", i)
		if _, err := d.store.Sessions.Create(t.Context(), session.Key{App: "desk", User: "eve", ID: id}, map[string]any{"user:beta": true}); err != nil {
			t.Fatal(err)
		}
		if got := d.talk("eve", id); got != "fine" {
			t.Errorf("a selected session answers %s", got)
		}
	}
	d.check(2 * time.Minute)
}

// The reason for which a change is held has the share of the step.
func TestHeldReasonFollowsStep(t *testing.T) {
	d := newDesk(t)
	d.write("app.yaml", strings.Replace(appYAML, "[{share: 0.5, for: 1h, min: 5}", "[{share: 0.4, for: 1h, min: 1}, {share: 0.6, for: 1h, min: 1}", 1))
	d.save(fine)
	if got := d.status().Held; got != "rollout to 40 % of the new sessions" {
		t.Errorf("held in the first step: %s", got)
	}
	d.serve(40)
	d.check(61 * time.Minute)
	if got := d.status().Held; got != "rollout to 60 % of the new sessions" {
		t.Errorf("held in the second step: %s", got)
	}
}
