package loader

import (
	"os"
	"slices"
	"testing"
	"time"
)

// A saving is a way in which programs save a file. After each step but the last
// somebody looks, and nothing may be loaded; what is there after the last step
// is seen at the first look, and taken at the second.
type saving struct {
	way   string
	steps []func(*stage)
}

const rootFile = "x/root_agent.yaml"

// savings are the ways. Each begins with an app that says "one", and ends with
// one that says "two".
func savings() []saving {
	return []saving{
		{"written in place", steps(write("two"))},
		{"emptied, and written after a pause", steps(put(""), write("two"))},
		{"written in pieces, each of them good YAML", steps(put("name: a\n"), put("name: a\ninstruction: x\n"), write("two"))},
		{"written beside it and renamed", steps(func(s *stage) { s.put("x/.tmp123", agent("two")); s.rename("x/.tmp123", rootFile) })},
		{"renamed to a backup, as vim does, and written anew", steps(
			func(s *stage) { s.rename(rootFile, rootFile+"~") }, write("two"), remove(rootFile+"~"),
		)},
		{"under a lock and beside a draft, as emacs does", steps(
			func(s *stage) {
				s.must(os.Symlink("ana@host.42", s.path("x/.#root_agent.yaml")))
				s.put("x/#root_agent.yaml#", agent("draft"))
			},
			func(s *stage) { write("two")(s); remove("x/#root_agent.yaml#")(s); remove("x/.#root_agent.yaml")(s) },
		)},
		{"received by rsync, with the time of the sender", steps(
			func(s *stage) { s.put("x/.root_agent.yaml.Xy12", agent("two")) },
			func(s *stage) {
				s.must(os.Chtimes(s.path("x/.root_agent.yaml.Xy12"), time.Unix(1e9, 0), time.Unix(1e9, 0)))
				s.rename("x/.root_agent.yaml.Xy12", rootFile)
			},
		)},
		{"deleted and made anew", steps(remove(rootFile), write("two"))},
		{"in another folder that takes the place of the old one", steps(
			func(s *stage) { s.rename("x", "../old") }, write("two"),
		)},
		{"behind a link that is turned", steps(
			func(s *stage) { s.put("x/a.yaml", agent("one")); s.link("a.yaml", rootFile) },
			func(s *stage) { s.put("x/b.yaml", agent("two")); s.link("b.yaml", rootFile) },
		)},
		{"behind ..data, as Kubernetes mounts a ConfigMap", steps(
			func(s *stage) {
				s.put("x/..v1/root_agent.yaml", agent("one"))
				s.link("..v1", "x/..data")
				s.link("..data/root_agent.yaml", rootFile)
			},
			func(s *stage) {
				s.put("x/..v2/root_agent.yaml", agent("two"))
				s.link("..v2", "x/..data")
				s.must(os.RemoveAll(s.path("x/..v1")))
			},
		)},
		{"one of many files that git checks out, which do without each other for a while", steps(
			put(agent("two")+"sub_agents: [{config_path: parts/b.yaml}]"),
			func(s *stage) { s.put("x/parts/b.yaml", "{name: b, instruction: y}") },
		)},
		{"in the same size and with the old time, as cp -p does", steps(func(s *stage) {
			info, err := os.Stat(s.path(rootFile))
			s.must(err)
			write("two")(s)
			s.must(os.Chtimes(s.path(rootFile), info.ModTime(), info.ModTime()))
		})},
		{"and its mode taken and given back", steps(
			func(s *stage) { write("two")(s); s.must(os.Chmod(s.path(rootFile), 0o600)) },
		)},
	}
}

func steps(all ...func(*stage)) []func(*stage) { return all }

func put(content string) func(*stage) { return func(s *stage) { s.put(rootFile, content) } }

func write(description string) func(*stage) { return put(agent(description)) }

func remove(file string) func(*stage) { return func(s *stage) { s.must(os.Remove(s.path(file))) } }

func (s *stage) rename(from, to string) {
	s.Helper()
	s.must(os.Rename(s.path(from), s.path(to)))
}

// link puts a link in the place of what is there, in one step.
func (s *stage) link(target, at string) {
	s.Helper()
	s.must(os.Symlink(target, s.path(at)+".new"))
	s.rename(at+".new", at)
}

func TestWatchSaves(t *testing.T) {
	if n := len(savings()); n < 12 {
		t.Fatalf("%d ways of saving, want at least 12", n)
	}
	for _, save := range savings() {
		t.Run(save.way, func(t *testing.T) {
			s := served(t)
			last := len(save.steps) - 1
			for _, step := range save.steps[:last] {
				step(s)
				s.looks(1)
			}
			save.steps[last](s)
			s.looks(1)
			s.looks(1, "x two")
			s.looks(2)
		})
	}
}

// TestWatchNoSaves has what is done to files and changes nothing.
func TestWatchNoSaves(t *testing.T) {
	for name, touch := range map[string]func(*stage){
		"a new time": func(s *stage) {
			at := time.Now().Add(time.Minute)
			s.must(os.Chtimes(s.path(rootFile), at, at))
		},
		"another mode":                    func(s *stage) { s.must(os.Chmod(s.path(rootFile), 0o600)) },
		"the same content, written again": write("one"),
		"the same content, renamed into place": func(s *stage) {
			s.put("x/.tmp", agent("one"))
			s.rename("x/.tmp", rootFile)
		},
		"a file in a folder that begins with a dot": func(s *stage) { s.put("x/.git/HEAD", "ref") },
		"a file that the app does not read":         func(s *stage) { s.put("x/README.md", "read me") },
		"a folder of the same name and content": func(s *stage) {
			s.rename("x", "../old")
			write("one")(s)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := served(t)
			touch(s)
			s.looks(4)
		})
	}
}

// TestWatchChangedWhileLoading: what is read after the second look may be the
// beginning of a change that nobody has seen. Then nothing is loaded, and the
// looks begin anew.
func TestWatchChangedWhileLoading(t *testing.T) {
	s := newStage(t)
	write("one")(s)
	reading := func() {}
	s.watch = NewWatch(New(&Options{Env: func(string) (string, bool) { reading(); return "", false }}), s.host, []string{s.top}, &WatchOptions{Clock: s.clock})
	s.must(s.watch.Sync(t.Context()))
	const asks = "# ${env:X:-}\n"
	put(agent("${env:X:-two}") + asks)(s)
	s.looks(1)
	reading = func() { write("three")(s); reading = func() {} }
	s.looks(1)
	s.looks(1, "x three")
}

// TestWatchFolderBack: a folder that is away for a moment takes no app down, one
// that stays away does.
func TestWatchFolderBack(t *testing.T) {
	s := served(t)
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	s.watch.opts.Clock = func() time.Time { return now }
	s.rename("x", "../x")
	s.looks(5)
	now = now.Add(1900 * time.Millisecond)
	s.looks(1)
	s.rename("../x", "x")
	s.looks(3)
	s.rename("x", "../x")
	s.looks(1)
	now = now.Add(2 * time.Second)
	s.looks(1, "-x")
}

// TestWatchReload looks until all is settled, tells what came of it, and lets
// in what waited for somebody's word.
func TestWatchReload(t *testing.T) {
	s := served(t)
	s.host.news = nil
	for _, step := range []struct {
		change func(*stage)
		want   []string
	}{
		{func(*stage) {}, nil},
		{write("two"), []string{"x two"}},
		{put("name: a\n"), nil},
		{func(s *stage) { s.put("y/root_agent.yaml", agent("new")); write("three")(s) }, []string{"x three", "y new"}},
	} {
		step.change(s)
		s.host.news = nil
		s.must(s.watch.Reload(t.Context()))
		slices.Sort(s.host.news) // apps are loaded side by side
		if !slices.Equal(s.host.news, step.want) {
			t.Errorf("after Reload the host heard %q, want %q", s.host.news, step.want)
		}
	}
}

// TestWatchManual: an app may want a word before a change serves.
func TestWatchManual(t *testing.T) {
	s := served(t)
	s.put("x/app.yaml", "reload: {sessions: manual}")
	s.looks(2, "x one")
	write("two")(s)
	s.looks(4)
	st, _ := s.watch.Status("x")
	if st.OK || st.Waiting == "" || st.Waiting == st.Revision {
		t.Errorf("Status = %+v, want another revision that waits", st)
	}
	waiting := st.Waiting
	write("one")(s)
	s.looks(4)
	if st, _ = s.watch.Status("x"); !st.OK || st.Waiting != "" {
		t.Errorf("after the old content came back: Status = %+v, want that nothing waits", st)
	}
	write("two")(s)
	s.looks(2)
	s.must(s.watch.Reload(t.Context()))
	if st, _ = s.watch.Status("x"); !st.OK || st.Revision != waiting || s.host.apps["x"].Description != "two" {
		t.Errorf("after Reload: Status = %+v, want the revision %s", st, waiting)
	}
}
