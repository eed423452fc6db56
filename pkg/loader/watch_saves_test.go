package loader

import (
	"os"
	"slices"
	"testing"
	"time"
)

// A saveMethod is a way in which programs save a file. The test polls after each step
// but the last, and nothing may be loaded. The first poll after the last step sees the
// change, the second one loads it.
type saveMethod struct {
	name  string
	steps []func(*watchEnv)
}

const rootFile = "x/root_agent.yaml"

// saveMethods returns the methods. Each begins with an app described as "one" and ends
// with "two".
func saveMethods() []saveMethod {
	return []saveMethod{
		{"written in place", stepList(write("two"))},
		{"emptied, and written after a pause", stepList(writeRoot(""), write("two"))},
		{"written in chunks of valid YAML", stepList(writeRoot("name: a\n"), writeRoot("name: a\ninstruction: x\n"), write("two"))},
		{"written to a temporary file and renamed", stepList(func(s *watchEnv) { s.writeFile("x/.tmp123", agentYAML("two")); s.rename("x/.tmp123", rootFile) })},
		{"renamed to a backup and rewritten, as vim does", stepList(
			func(s *watchEnv) { s.rename(rootFile, rootFile+"~") }, write("two"), removeFile(rootFile+"~"),
		)},
		{"written with a lock file and a draft, as emacs does", stepList(
			func(s *watchEnv) {
				s.must(os.Symlink("ana@host.42", s.path("x/.#root_agent.yaml")))
				s.writeFile("x/#root_agent.yaml#", agentYAML("draft"))
			},
			func(s *watchEnv) {
				write("two")(s)
				removeFile("x/#root_agent.yaml#")(s)
				removeFile("x/.#root_agent.yaml")(s)
			},
		)},
		{"received by rsync, with the time of the sender", stepList(
			func(s *watchEnv) { s.writeFile("x/.root_agent.yaml.Xy12", agentYAML("two")) },
			func(s *watchEnv) {
				s.must(os.Chtimes(s.path("x/.root_agent.yaml.Xy12"), time.Unix(1e9, 0), time.Unix(1e9, 0)))
				s.rename("x/.root_agent.yaml.Xy12", rootFile)
			},
		)},
		{"deleted and recreated", stepList(removeFile(rootFile), write("two"))},
		{"in a folder that replaces the old one", stepList(
			func(s *watchEnv) { s.rename("x", "../old") }, write("two"),
		)},
		{"a link that is switched", stepList(
			func(s *watchEnv) { s.writeFile("x/a.yaml", agentYAML("one")); s.replaceLink("a.yaml", rootFile) },
			func(s *watchEnv) { s.writeFile("x/b.yaml", agentYAML("two")); s.replaceLink("b.yaml", rootFile) },
		)},
		{"a file under ..data, as Kubernetes mounts a ConfigMap", stepList(
			func(s *watchEnv) {
				s.writeFile("x/..v1/root_agent.yaml", agentYAML("one"))
				s.replaceLink("..v1", "x/..data")
				s.replaceLink("..data/root_agent.yaml", rootFile)
			},
			func(s *watchEnv) {
				s.writeFile("x/..v2/root_agent.yaml", agentYAML("two"))
				s.replaceLink("..v2", "x/..data")
				s.must(os.RemoveAll(s.path("x/..v1")))
			},
		)},
		{"one of many files of a git checkout, which are inconsistent for a while", stepList(
			writeRoot(agentYAML("two")+"sub_agents: [{config_path: parts/b.yaml}]"),
			func(s *watchEnv) { s.writeFile("x/parts/b.yaml", "{name: b, instruction: y}") },
		)},
		{"with the same size and time, as cp -p does", stepList(func(s *watchEnv) {
			info, err := os.Stat(s.path(rootFile))
			s.must(err)
			write("two")(s)
			s.must(os.Chtimes(s.path(rootFile), info.ModTime(), info.ModTime()))
		})},
		{"with a temporary change of its mode", stepList(
			func(s *watchEnv) { write("two")(s); s.must(os.Chmod(s.path(rootFile), 0o600)) },
		)},
	}
}

func stepList(all ...func(*watchEnv)) []func(*watchEnv) { return all }

func writeRoot(content string) func(*watchEnv) {
	return func(s *watchEnv) { s.writeFile(rootFile, content) }
}

func write(description string) func(*watchEnv) { return writeRoot(agentYAML(description)) }

func removeFile(file string) func(*watchEnv) {
	return func(s *watchEnv) { s.must(os.Remove(s.path(file))) }
}

func (s *watchEnv) rename(from, to string) {
	s.Helper()
	s.must(os.Rename(s.path(from), s.path(to)))
}

// replaceLink replaces a file by a link atomically.
func (s *watchEnv) replaceLink(target, at string) {
	s.Helper()
	s.must(os.Symlink(target, s.path(at)+".new"))
	s.rename(at+".new", at)
}

func TestWatchSaveMethods(t *testing.T) {
	if n := len(saveMethods()); n < 12 {
		t.Fatalf("%d save methods, want at least 12", n)
	}
	for _, save := range saveMethods() {
		t.Run(save.name, func(t *testing.T) {
			s := newServingEnv(t)
			last := len(save.steps) - 1
			for _, step := range save.steps[:last] {
				step(s)
				s.pollAndExpect(1)
			}
			save.steps[last](s)
			s.pollAndExpect(1)
			s.pollAndExpect(1, "x two")
			s.pollAndExpect(2)
		})
	}
}

// TestWatchIrrelevantChanges covers file operations that change nothing.
func TestWatchIrrelevantChanges(t *testing.T) {
	for name, touch := range map[string]func(*watchEnv){
		"a new time": func(s *watchEnv) {
			at := time.Now().Add(time.Minute)
			s.must(os.Chtimes(s.path(rootFile), at, at))
		},
		"another mode":                    func(s *watchEnv) { s.must(os.Chmod(s.path(rootFile), 0o600)) },
		"the same content, written again": write("one"),
		"the same content, renamed into place": func(s *watchEnv) {
			s.writeFile("x/.tmp", agentYAML("one"))
			s.rename("x/.tmp", rootFile)
		},
		"a file in a folder that begins with a dot": func(s *watchEnv) { s.writeFile("x/.git/HEAD", "ref") },
		"a file that the app does not read":         func(s *watchEnv) { s.writeFile("x/README.md", "read me") },
		"a folder of the same name and content": func(s *watchEnv) {
			s.rename("x", "../old")
			write("one")(s)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServingEnv(t)
			touch(s)
			s.pollAndExpect(4)
		})
	}
}

// TestWatchChangedWhileLoading covers a change after the second poll, during the load.
// The load is discarded, and the change must settle again.
func TestWatchChangedWhileLoading(t *testing.T) {
	s := newWatchEnv(t)
	write("one")(s)
	reading := func() {}
	s.watch = NewWatch(New(listKinds(), &Options{Env: func(string) (string, bool) { reading(); return "", false }}), s.host, []string{s.top}, &WatchOptions{Clock: s.clock})
	s.must(s.watch.Sync(t.Context()))
	const asks = "# ${env:X:-}\n"
	writeRoot(agentYAML("${env:X:-two}") + asks)(s)
	s.pollAndExpect(1)
	reading = func() { write("three")(s); reading = func() {} }
	s.pollAndExpect(1)
	s.pollAndExpect(1, "x three")
}

// TestWatchFolderRestored expects an app to survive a folder that is missing briefly,
// but not one that stays missing.
func TestWatchFolderRestored(t *testing.T) {
	s := newServingEnv(t)
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	s.watch.opts.Clock = func() time.Time { return now }
	s.rename("x", "../x")
	s.pollAndExpect(5)
	now = now.Add(1900 * time.Millisecond)
	s.pollAndExpect(1)
	s.rename("../x", "x")
	s.pollAndExpect(3)
	s.rename("x", "../x")
	s.pollAndExpect(1)
	now = now.Add(2 * time.Second)
	s.pollAndExpect(1, "-x")
}

// TestWatchReload expects Reload to poll until all apps settle, and to publish pending
// changes.
func TestWatchReload(t *testing.T) {
	s := newServingEnv(t)
	s.host.events = nil
	for _, step := range []struct {
		change func(*watchEnv)
		want   []string
	}{
		{func(*watchEnv) {}, nil},
		{write("two"), []string{"x two"}},
		{writeRoot("name: a\n"), nil},
		{func(s *watchEnv) { s.writeFile("y/root_agent.yaml", agentYAML("new")); write("three")(s) }, []string{"x three", "y new"}},
	} {
		step.change(s)
		s.host.events = nil
		s.must(s.watch.Reload(t.Context()))
		slices.Sort(s.host.events) // apps load in parallel
		if !slices.Equal(s.host.events, step.want) {
			t.Errorf("host events after Reload = %q, want %q", s.host.events, step.want)
		}
	}
}

// TestWatchManual covers an app with manual reload.
func TestWatchManual(t *testing.T) {
	s := newServingEnv(t)
	s.writeFile("x/app.yaml", "reload: {sessions: manual}")
	s.pollAndExpect(2, "x one")
	write("two")(s)
	s.pollAndExpect(4)
	st, _ := s.watch.Status("x")
	if st.OK || st.PendingRevision == "" || st.PendingRevision == st.Revision {
		t.Errorf("Status = %+v, want a pending revision", st)
	}
	waiting := st.PendingRevision
	write("one")(s)
	s.pollAndExpect(4)
	if st, _ = s.watch.Status("x"); !st.OK || st.PendingRevision != "" {
		t.Errorf("after the old content came back: Status = %+v, want no pending revision", st)
	}
	write("two")(s)
	s.pollAndExpect(2)
	s.must(s.watch.Reload(t.Context()))
	if st, _ = s.watch.Status("x"); !st.OK || st.Revision != waiting || s.host.apps["x"].Description() != "two" {
		t.Errorf("after Reload: Status = %+v, want the revision %s", st, waiting)
	}
}
