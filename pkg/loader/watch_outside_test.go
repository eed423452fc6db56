package loader

import (
	"os"
	"testing"
)

// TestWatchShared covers a file that two apps include: a change reloads both, and an
// invalid file keeps both serving.
func TestWatchShared(t *testing.T) {
	s := newWatchEnv(t)
	for _, app := range []string{"x", "y"} {
		s.writeFile(app+"/app.yaml", "include: [../shared.yaml]\nroot_agent: {name: a, instruction: x, sub_agents: [use: helper]}")
	}
	s.pollAndExpect(3) // the include is missing, so that no app can load
	s.writeFile("shared.yaml", "agents: {helper: {instruction: Help.}}")
	s.pollAndExpect(2, "x ", "y ")
	s.pollAndExpect(2)
	first := s.host.apps["x"].Revision()
	s.writeFile("shared.yaml", "agents: {helper: {instruction: Help more.}}")
	s.pollAndExpect(2, "x ", "y ")
	if s.host.apps["x"].Revision() == first {
		t.Error("the revision did not change")
	}
	s.writeFile("shared.yaml", "agents: {helper: {instructon: Help.}}")
	s.pollAndExpect(3)
	for _, d := range s.watch.Diagnostics("y") {
		if d.Pos.File != s.path("shared.yaml") {
			t.Errorf("%s: want a problem of shared.yaml", d)
		}
	}
	s.writeFile("x/../y/unread.txt", "x")
	s.pollAndExpect(2)
}

// TestWatchSecret changes a secret by a link, as Kubernetes does.
func TestWatchSecret(t *testing.T) {
	s := newWatchEnv(t)
	s.writeFile("../secrets/..v1/KEY", "one")
	s.writeFile("../secrets/..v2/KEY", "two")
	s.must(os.Symlink("..v1", s.path("../secrets/..data")))
	s.must(os.Symlink("..data/KEY", s.path("../secrets/KEY")))
	s.watch = NewWatch(New(listKinds(), &Options{Secrets: s.path("../secrets")}), s.host, []string{s.top}, &WatchOptions{Clock: s.clock})
	s.writeFile("x/root_agent.yaml", "{name: a, instruction: x, model: m}")
	s.writeFile("x/app.yaml", "models: {m: {provider: gemini, model: gemini-x, api_key: '${secret:KEY}'}}")
	s.pollAndExpect(2, "x ")
	s.pollAndExpect(2)
	s.must(os.Symlink("..v2", s.path("../secrets/..new")))
	s.must(os.Rename(s.path("../secrets/..new"), s.path("../secrets/..data")))
	s.pollAndExpect(2, "x ")
	s.pollAndExpect(2)
}
