package loader

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"agenthost/pkg/runtime"
	"agenthost/pkg/spec"
)

// listProblems returns the problems in an app's status, without the test folder.
func (s *watchEnv) listProblems(app string) string {
	all := strings.Join(s.watch.Diagnostics(app).Strings(), "\n")
	return strings.ReplaceAll(all, filepath.ToSlash(s.top)+"/", "")
}

// TestWatchFolderBeyondLimits covers a folder that is too deep or too large. The
// problem affects only its app: the last good revision keeps serving, and other apps
// reload. The app recovers with the folder.
func TestWatchFolderBeyondLimits(t *testing.T) {
	for _, tt := range []struct {
		name string
		fill func(s *watchEnv)
		want string
	}{
		{"32 levels", func(s *watchEnv) { s.mkdir(s.path("x" + strings.Repeat("/d", 32))) }, ""},
		{"33 levels", func(s *watchEnv) { s.mkdir(s.path("x/deep" + strings.Repeat("/d", 32))) }, "x: the app's folder exceeds the limit of 32 folder levels [limit]"},
		{"more than 10000 files", func(s *watchEnv) {
			s.mkdir(s.path("x/full"))
			for i := range 10_000 {
				s.must(os.Symlink("nothing", s.path(fmt.Sprintf("x/full/%d", i))))
			}
		}, "x: the app's folder exceeds the limit of 10000 files and folders [limit]"},
		{"levels of a hidden folder", func(s *watchEnv) { s.mkdir(s.path("x/.git" + strings.Repeat("/d", 40))) }, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newServingEnv(t)
			before, _ := s.watch.Status("x")
			tt.fill(s)
			s.writeFile("y/root_agent.yaml", agentYAML("other"))
			s.pollAndExpect(2, "y other")
			st, _ := s.watch.Status("x")
			if got := s.listProblems("x"); got != tt.want || st.Revision != before.Revision || st.OK != (tt.want == "") {
				t.Errorf("Status = OK %v, revision %s, %q; want %q and revision %s", st.OK, st.Revision, got, tt.want, before.Revision)
			}
			s.writeFile("x/root_agent.yaml", agentYAML("two"))
			if tt.want != "" {
				s.pollAndExpect(3)
				for _, dir := range []string{"x/deep", "x/full"} {
					s.removeAll(dir)
				}
			}
			s.pollAndExpect(2, "x two")
		})
	}
}

// TestCheckFolderBeyondLimits expects check to report the same limit as the watch.
func TestCheckFolderBeyondLimits(t *testing.T) {
	s := newWatchEnv(t)
	s.writeFile("x/root_agent.yaml", agentYAML("one"))
	s.mkdir(s.path("x" + strings.Repeat("/d", 900)))
	ds := New(listKinds(), nil).Check(t.Context(), s.path("x"))
	want := "x: the app's folder exceeds the limit of 32 folder levels [limit] (move files that do not belong to the app elsewhere, or into a folder whose name begins with a dot)"
	if got := strings.ReplaceAll(ds.Error(), filepath.ToSlash(s.top)+"/", ""); got != want {
		t.Errorf("Check = %q, want %q", got, want)
	}
}

// TestLoadBeyondLimits covers a load's total limits, which are reported once for the app.
func TestLoadBeyondLimits(t *testing.T) {
	lines := func(n int, format string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, format, i)
		}
		return b.String()
	}
	for _, tt := range []struct {
		name string
		put  func(s *watchEnv)
		want string
	}{
		{"34 MB of a text file that is included 17 times", func(s *watchEnv) {
			s.writeFile("x/long.txt", strings.Repeat("long ", 400_000))
			s.writeFile("x/root_agent.yaml", "name: a\ninstruction: \""+strings.Repeat("${file:long.txt}", 17)+"\"\n")
		}, "x: the files and values of the app exceed the limit of 32 MiB [limit]"},
		{"32 MB of a text file that is included 16 times", func(s *watchEnv) {
			s.writeFile("x/long.txt", strings.Repeat("long ", 400_000))
			s.writeFile("x/root_agent.yaml", "name: a\ninstruction: Answer.\ndescription: \""+strings.Repeat("${file:long.txt}", 16)+"\"\n")
		}, ""},
		{"many large documents", func(s *watchEnv) {
			s.writeFile("x/root_agent.yaml", "name: a\ninstruction: x\nsub_agents:\n"+lines(12, "  - config_path: p%d.yaml\n"))
			for i := range 12 {
				s.writeFile(fmt.Sprintf("x/p%d.yaml", i), fmt.Sprintf("name: p%d\ninstruction: x\ndescription: x\nmodel: gemini-x\nmetadata: [%s]\n", i, strings.Repeat("a,", 49_000)))
			}
		}, "x: the app's documents exceed the limit of 500000 lines, keys and items [limit]"},
		{"many secrets", func(s *watchEnv) {
			s.writeFile("x/app.yaml", "include:\n"+lines(1200, "  - ../shared%d.yaml\n"))
			s.writeFile("x/root_agent.yaml", agentYAML("one"))
		}, "x: the app exceeds the limit of 1000 files outside its folder [limit]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newWatchEnv(t)
			tt.put(s)
			app, ds := New(listKinds(), nil).Load(t.Context(), s.path("x"))
			if app != nil {
				app.Close()
			}
			var got []string
			for _, d := range ds {
				if d.Rule == "limit" {
					got = append(got, strings.ReplaceAll(d.String(), filepath.ToSlash(s.top)+"/", ""))
				}
			}
			if strings.Join(got, "\n") != tt.want || (app == nil) != (tt.want != "") {
				t.Errorf("Load = %v, %q; want %q", app, got, tt.want)
			}
		})
	}
}

// TestLoadTooLong expects a load to end at its deadline.
func TestLoadTooLong(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(loadTooLong)
	b := newLoadBudget(ctx)
	if err := b.consume(1, 1); err == nil || err.Error() != "loading the app was cancelled: loading the app exceeds the limit of 10s" {
		t.Errorf("consume of a stopped load = %v", err)
	}
	b = newLoadBudget(t.Context())
	b.deadline = time.Now().Add(-time.Nanosecond)
	if err := b.consume(0, 0); !errors.Is(err, loadTooLong) {
		t.Errorf("consume after the deadline = %v, want %v", err, loadTooLong)
	}
}

// newBlockedEnv returns a watch over x whose gate blocks until it is released.
func newBlockedEnv(t *testing.T) (s *watchEnv, began chan string, free chan struct{}) {
	s = newServingEnv(t)
	began, free = make(chan string, 10), make(chan struct{})
	s.watch.opts.MaxWait = 10 * time.Millisecond
	s.watch.opts.Gate = func(ctx context.Context, _ string, app *runtime.App) spec.Diagnostics {
		if app.Description() != "slow" {
			return nil
		}
		began <- app.Name()
		select {
		case <-free:
		case <-ctx.Done():
		}
		return nil
	}
	return s, began, free
}

// reloadUntil reloads until an app serves a version. A busy machine may load it for longer
// than one reload waits.
func (s *watchEnv) reloadUntil(t *testing.T, app, version string) {
	t.Helper()
	ctx, cancel := withDeadline(t)
	defer cancel()
	for s.host.describeApp(app) != version {
		if ctx.Err() != nil {
			t.Fatalf("%s is %q, want %s", app, s.host.describeApp(app), version)
		}
		s.must(s.watch.Reload(ctx))
	}
}

// TestWatchSlowGate expects a slow gate to delay neither other apps nor Reload's response. The
// status reports the load; the app serves after the gate.
func TestWatchSlowGate(t *testing.T) {
	s, began, free := newBlockedEnv(t)
	s.writeFile("x/root_agent.yaml", agentYAML("slow"))
	s.writeFile("y/root_agent.yaml", agentYAML("new"))
	s.host.events = nil
	s.reloadUntil(t, "y", "new")
	if got := <-began; got != "x" {
		t.Errorf("the gate was called for %s, want x", got)
	}
	before, _ := s.watch.Status("x")
	if !before.Loading || !before.OK || s.host.apps["x"].Description() != "one" || s.host.apps["y"] == nil {
		t.Errorf("while the gate runs: Status = %+v, apps %v; want x loading with revision one, and y", before, s.host.apps)
	}
	s.writeFile("y/root_agent.yaml", agentYAML("newer"))
	s.reloadUntil(t, "y", "newer")
	close(free)
	s.watch.polls.Wait()
	s.watch.opts.MaxWait = time.Minute
	s.must(s.watch.Sync(t.Context()))
	after, _ := s.watch.Status("x")
	if after.Loading || after.Revision == before.Revision || s.host.apps["x"].Description() != "slow" {
		t.Errorf("after the gate: Status = %+v, want a new serving revision", after)
	}
}

// TestWatchStoppedDuringGate expects gates and loads to be canceled when Run ends, and
// nothing to be published afterwards.
func TestWatchStoppedDuringGate(t *testing.T) {
	s, began, _ := newBlockedEnv(t)
	s.watch.opts.Settle, s.watch.opts.Clock = time.Millisecond, time.Now
	s.writeFile("x/root_agent.yaml", agentYAML("slow"))
	ctx, stop := withDeadline(t)
	ended := make(chan error)
	go func() { ended <- s.watch.Run(ctx) }()
	<-began
	stop()
	if err := <-ended; err != nil {
		t.Errorf("Run = %v", err)
	}
	if st, _ := s.watch.Status("x"); s.host.apps["x"].Description() != "one" || st.LoadCount != 1 {
		t.Errorf("after Run: %s serves, Status = %+v; want one, and a single load", s.host.apps["x"].Description(), st)
	}
}
