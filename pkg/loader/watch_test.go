package loader

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"agenthost/pkg/runtime"
	"agenthost/pkg/spec"
)

// recorder is a host that records what is published: the description for a swap, "-"
// and the name for a removal.
type recorder struct {
	mu           sync.Mutex
	apps         map[string]*runtime.App
	events       []string
	eventChannel chan string
}

func newRecorder() *recorder { return &recorder{apps: map[string]*runtime.App{}} }

// describeApp returns an app's description, "" without the app.
func (r *recorder) describeApp(name string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if app := r.apps[name]; app != nil {
		return app.Description()
	}
	return ""
}

func (r *recorder) Swap(app *runtime.App) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if old := r.apps[app.Name()]; old != nil {
		old.Close()
	}
	r.apps[app.Name()] = app
	r.addEvent(app.Name() + " " + app.Description())
}

func (r *recorder) Remove(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if old := r.apps[name]; old != nil {
		old.Close()
	}
	delete(r.apps, name)
	r.addEvent("-" + name)
}

func (r *recorder) addEvent(news string) {
	if r.eventChannel != nil {
		r.eventChannel <- news
		return
	}
	r.events = append(r.events, news)
}

// watchEnv is a watch over a folder with apps.
type watchEnv struct {
	*testing.T
	top   string
	host  *recorder
	watch *Watch
	mu    sync.Mutex // guards now
	now   time.Time
}

func newWatchEnv(t *testing.T, more ...string) *watchEnv {
	t.Helper()
	s := &watchEnv{T: t, top: filepath.Join(t.TempDir(), "apps"), host: newRecorder()}
	s.mkdir(s.top)
	s.watch = NewWatch(New(listKinds(), nil), s.host, append([]string{s.top}, more...), &WatchOptions{Clock: s.clock})
	return s
}

// clock advances by more than the absence limit with each call.
func (s *watchEnv) clock() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = s.now.Add(3 * time.Second)
	return s.now
}

func (s *watchEnv) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s *watchEnv) mkdir(dir string) {
	s.Helper()
	s.must(os.MkdirAll(dir, 0o755))
}

func (s *watchEnv) removeAll(dir string) {
	s.Helper()
	s.must(os.RemoveAll(s.path(dir)))
}

func (s *watchEnv) path(file string) string {
	if filepath.IsAbs(file) {
		return file
	}
	return filepath.Join(s.top, file)
}

// writeFile writes a file in the folder with apps.
func (s *watchEnv) writeFile(file, content string) {
	s.Helper()
	s.mkdir(filepath.Dir(s.path(file)))
	s.must(os.WriteFile(s.path(file), []byte(content), 0o644))
}

// agentYAML returns a root agent with a description.
func agentYAML(description string) string {
	return "name: a\ninstruction: x\ndescription: " + description + "\n"
}

// pollAndExpect polls n times and compares the host's events, in any order.
func (s *watchEnv) pollAndExpect(n int, want ...string) {
	s.Helper()
	s.host.events = nil
	for range n {
		_, err := s.watch.pollAll(s.Context(), pollMode{})
		s.must(err)
	}
	slices.Sort(s.host.events) // apps load in parallel
	if diff := cmp.Diff(want, s.host.events); diff != "" {
		s.Errorf("after %d polls (-want +got):\n%s", n, diff)
	}
}

// newServingEnv returns an environment whose app x serves "one".
func newServingEnv(t *testing.T) *watchEnv {
	t.Helper()
	s := newWatchEnv(t)
	s.writeFile("x/root_agent.yaml", agentYAML("one"))
	s.must(s.watch.Sync(t.Context()))
	s.pollAndExpect(2)
	return s
}

// TestWatchConfigMap swaps the link ..data, as Kubernetes does for a mounted volume,
// for files and for a folder.
func TestWatchConfigMap(t *testing.T) {
	s := newWatchEnv(t)
	s.writeFile("x/..v1/root_agent.yaml", agentYAML("one")+"sub_agents: [{config_path: parts/b.yaml}]")
	s.writeFile("x/..v1/parts/b.yaml", "{name: b, instruction: x}")
	s.writeFile("x/..v2/root_agent.yaml", agentYAML("two"))
	s.writeFile("x/..v3/root_agent.yaml", agentYAML("one")+"sub_agents: [{config_path: parts/b.yaml}]")
	s.writeFile("x/..v3/parts/b.yaml", "{name: c, instruction: x}")
	for _, v := range []string{"..v1", "..v2", "..v3"} {
		s.must(os.Symlink(v, s.path("x/..new")))
		s.must(os.Rename(s.path("x/..new"), s.path("x/..data")))
		if v == "..v1" {
			s.must(os.Symlink("..data/root_agent.yaml", s.path("x/root_agent.yaml")))
			s.must(os.Symlink("..data/parts", s.path("x/parts")))
		}
		want := map[string]string{"..v1": "x one", "..v2": "x two", "..v3": "x one"}[v]
		s.pollAndExpect(2, want)
		s.pollAndExpect(1)
	}
	s.writeFile("x/..v3/parts/b.yaml", "{name: d, instruction: x}")
	s.pollAndExpect(2, "x one")
	if got := s.host.apps["x"].AgentNames(); !slices.Equal(got, []string{"a", "d"}) {
		t.Errorf("AgentNames() = %q, want a and d", got)
	}
}

// TestWatchParentLink swaps a link above the apps, as deployments do.
func TestWatchParentLink(t *testing.T) {
	base := t.TempDir()
	current := filepath.Join(base, "current")
	s := newWatchEnv(t)
	s.watch = NewWatch(New(listKinds(), nil), s.host, []string{current}, &WatchOptions{Clock: s.clock})
	s.writeFile(filepath.Join(base, "v1/x/root_agent.yaml"), agentYAML("one"))
	s.writeFile(filepath.Join(base, "v2/x/root_agent.yaml"), agentYAML("two"))
	for _, v := range []string{"v1", "v2"} {
		want := map[string]string{"v1": "x one", "v2": "x two"}[v]
		s.must(os.Symlink(v, current+"~"))
		s.must(os.Rename(current+"~", current))
		s.pollAndExpect(2, want)
	}
}

// TestWatchSkills reloads an app when a skill's file changes, also in a mounted volume.
func TestWatchSkills(t *testing.T) {
	s := newWatchEnv(t)
	s.writeFile("x/root_agent.yaml", agentYAML("one")+"tools: [{skills: {from: [skills]}}]")
	for _, v := range []string{"..v1", "..v2"} {
		s.writeFile("x/"+v+"/skills/pdf/SKILL.md", "---\nname: pdf\ndescription: "+v+"\n---\n")
	}
	s.writeFile("x/..v1/skills/pdf/references/a.md", "a")
	s.must(os.Symlink("..v1", s.path("x/..data")))
	s.must(os.Symlink("..data/skills", s.path("x/skills")))
	s.pollAndExpect(2, "x one")
	s.writeFile("x/..v1/skills/pdf/references/a.md", "b")
	s.pollAndExpect(2, "x one")
	s.pollAndExpect(1)
	s.must(os.Symlink("..v2", s.path("x/..new")))
	s.must(os.Rename(s.path("x/..new"), s.path("x/..data")))
	s.pollAndExpect(2, "x one")
	s.writeFile("x/..v2/skills/pdf/SKILL.md", "no skill")
	s.pollAndExpect(2)
}

func TestWatchLinkLoop(t *testing.T) {
	s := newWatchEnv(t)
	s.writeFile("x/root_agent.yaml", agentYAML("one"))
	s.must(os.Symlink(".", s.path("x/loop")))
	s.must(os.Symlink("/", s.path("x/out")))
	s.must(os.Symlink("none", s.path("x/dangling")))
	s.pollAndExpect(2, "x one")
}

// TestWatchHalfWritten expects content to be loaded only if two polls see it.
func TestWatchHalfWritten(t *testing.T) {
	s := newServingEnv(t)
	s.writeFile("x/root_agent.yaml", "name: a\ninstr")
	s.pollAndExpect(1)
	s.writeFile("x/root_agent.yaml", agentYAML("two"))
	s.pollAndExpect(1)
	if st, _ := s.watch.Status("x"); !st.OK {
		t.Errorf("the half-written file was loaded: %s", st.Diagnostics.Error())
	}
	s.pollAndExpect(1, "x two")
}

// TestWatchBroken expects the last good revision to keep serving until the folder is
// fixed.
func TestWatchBroken(t *testing.T) {
	s := newServingEnv(t)
	before, _ := s.watch.Status("x")
	s.writeFile("x/root_agent.yaml", "name: a\n")
	s.pollAndExpect(3)
	st, _ := s.watch.Status("x")
	if st.OK || st.Revision != before.Revision || !strings.Contains(s.watch.Diagnostics("x").Error(), `missing field "instruction"`) {
		t.Errorf("Status = OK %v, revision %s, %s; want the revision %s and the problem", st.OK, st.Revision, st.Diagnostics.Error(), before.Revision)
	}
	s.writeFile("x/root_agent.yaml", agentYAML("one"))
	s.pollAndExpect(2)
	if st, _ = s.watch.Status("x"); !st.OK || len(st.Diagnostics) > 0 || st.Revision != before.Revision {
		t.Errorf("after the old content came back: Status = %+v", st)
	}
	s.writeFile("x/root_agent.yaml", agentYAML("two"))
	s.pollAndExpect(2, "x two")
}

// TestWatchBrokenFirst covers an app whose first load fails, and which serves once it
// is fixed.
func TestWatchBrokenFirst(t *testing.T) {
	s := newWatchEnv(t)
	s.writeFile("x/root_agent.yaml", "name: a\n")
	s.must(s.watch.Sync(t.Context()))
	if st, ok := s.watch.Status("x"); !ok || st.OK || st.Revision != "" || len(st.Diagnostics) != 1 {
		t.Errorf("Status = %+v, %v, want one problem and no revision", st, ok)
	}
	s.writeFile("x/root_agent.yaml", agentYAML("one"))
	s.pollAndExpect(2, "x one")
}

func TestWatchTouch(t *testing.T) {
	s := newServingEnv(t)
	info, err := os.Stat(s.path("x/root_agent.yaml"))
	s.must(err)
	s.must(os.Chtimes(s.path("x/root_agent.yaml"), info.ModTime().Add(time.Minute), info.ModTime().Add(time.Minute)))
	s.writeFile("x/.git/HEAD", "hidden folders are not part of an app")
	s.pollAndExpect(3)
}

// TestWatchUnreadFile expects no swap for a file that the app does not read.
func TestWatchUnreadFile(t *testing.T) {
	s := newServingEnv(t)
	s.writeFile("x/README.md", "read me")
	s.pollAndExpect(3)
}

func TestWatchNewAndRemoved(t *testing.T) {
	s := newServingEnv(t)
	s.writeFile("y/root_agent.yaml", agentYAML("new"))
	s.pollAndExpect(1)
	s.pollAndExpect(1, "y new")
	s.must(os.RemoveAll(s.path("y")))
	s.pollAndExpect(1)
	s.pollAndExpect(1, "-y")
	s.pollAndExpect(1)
	if all := s.watch.Statuses(); len(all) != 1 || all[0].App != "x" {
		t.Errorf("Statuses = %+v, want that of x", all)
	}
}

// TestWatchFolderMissingOnce expects an app to survive a folder that is missing at one
// poll.
func TestWatchFolderMissingOnce(t *testing.T) {
	s := newServingEnv(t)
	s.must(os.Rename(s.path("x"), s.path("../x")))
	s.pollAndExpect(1)
	s.must(os.Rename(s.path("../x"), s.path("x")))
	s.pollAndExpect(3)
}

// TestWatchSameName expects the first folder with a duplicate name to be served.
func TestWatchSameName(t *testing.T) {
	other := t.TempDir()
	s := newWatchEnv(t, other)
	s.writeFile(filepath.Join(other, "x/root_agent.yaml"), agentYAML("second"))
	s.writeFile("x/root_agent.yaml", agentYAML("first"))
	s.pollAndExpect(3, "x first")
	s.must(os.RemoveAll(s.path("x")))
	s.pollAndExpect(2, "x second")
}

// withDeadline returns the test's context with its deadline, before the timeout for all tests.
func withDeadline(t *testing.T) (context.Context, context.CancelFunc) {
	if at, ok := t.Deadline(); ok {
		return context.WithDeadline(t.Context(), at.Add(-time.Second))
	}
	return context.WithCancel(t.Context())
}

// TestWatchRun expects a saved file to be published through file notifications: the
// poll interval is longer than any test.
func TestWatchRun(t *testing.T) {
	s := newWatchEnv(t)
	s.writeFile("x/root_agent.yaml", agentYAML("one"))
	s.host.eventChannel = make(chan string)
	s.watch = NewWatch(New(listKinds(), nil), s.host, []string{s.top}, &WatchOptions{Settle: time.Millisecond, Poll: time.Hour, Absence: time.Millisecond})
	ctx, stop := withDeadline(t)
	ended := make(chan error)
	go func() { ended <- s.watch.Run(ctx) }()
	steps := []struct {
		change func()
		want   string
	}{
		{func() {}, "x one"},
		{func() { s.writeFile("x/root_agent.yaml", agentYAML("two")) }, "x two"},
		{func() { s.writeFile("y/root_agent.yaml", agentYAML("new")) }, "y new"},
		{func() { s.must(os.RemoveAll(s.path("x"))) }, "-x"},
	}
	for _, step := range steps {
		step.change()
		select {
		case got := <-s.host.eventChannel:
			if got != step.want {
				t.Errorf("host event = %q, want %q", got, step.want)
			}
		case <-ctx.Done():
			t.Fatalf("no host event, want %q", step.want)
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("Run = %v", err)
	}
	if got := slices.Collect(maps.Keys(s.host.apps)); !slices.Equal(got, []string{"y"}) {
		t.Errorf("apps = %q, want y", got)
	}
}

// The problems for remote clients have no host folder, in places, messages and hints.
func TestStatusProblems(t *testing.T) {
	above := filepath.ToSlash(t.TempDir())
	for _, tt := range []struct{ dir, message, want string }{
		{above + "/x", "file " + above + "/x/a.md not found", "x/f.yaml: file x/a.md not found [file]"},
		{above + "/x", "file " + above + "/shared.yaml not found", "x/f.yaml: file shared.yaml not found [file]"},
		{"../apps/x", "file ../apps/x/a.md not found", "x/f.yaml: file x/a.md not found [file]"},
		{"x", "file x/a.md of 1.5 MiB", "x/f.yaml: file x/a.md of 1.5 MiB [file]"},
		{".", "file a.md of 1.5 MiB", "f.yaml: file a.md of 1.5 MiB [file]"},
	} {
		s := Status{Dir: tt.dir, Diagnostics: spec.Diagnostics{{Pos: spec.Pos{File: filepath.ToSlash(filepath.Join(tt.dir, "f.yaml"))}, Rule: "file", Message: tt.message}}}
		if got := strings.Join(s.Problems().Strings(), ""); got != tt.want {
			t.Errorf("in %s: %q, want %q", tt.dir, got, tt.want)
		}
	}
}
