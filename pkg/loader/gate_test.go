package loader

import (
	"strings"
	"testing"
)

// gated is an app whose changes must pass its tests.
func gated(t *testing.T) *stage {
	t.Helper()
	s := newStage(t)
	s.put("x/app.yaml", "reload: {gate: [tests]}\n")
	s.put("x/root_agent.yaml", agent("one"))
	s.put("x/root_agent.test.yaml", said("x"))
	s.must(s.watch.Sync(t.Context()))
	s.looks(2)
	return s
}

// said is a test of what the instruction is.
func said(instruction string) string {
	return "- name: says it\n  user: hi\n  model: [{text: yes}]\n  expect: ['requests[0].instruction contains \"" + instruction + "\"']\n"
}

// TestGate has a change that breaks a test: the last good revision serves on,
// and the diagnostics say so, until the change or the test is mended.
func TestGate(t *testing.T) {
	s := gated(t)
	s.put("x/root_agent.yaml", strings.Replace(agent("two"), "x", "y", 1))
	s.looks(3)
	status, _ := s.watch.Status("x")
	if status.OK || status.Revision != s.host.apps["x"].Revision {
		t.Errorf("status = %+v, want the revision that serves, and not OK", status)
	}
	got := strings.Join(status.Diagnostics.Strings(), "\n")
	want := `x/root_agent.test.yaml:4:13: test "says it" failed: requests[0].instruction contains "x" is false [test-failed]`
	if !strings.HasSuffix(got, want) {
		t.Errorf("diagnostics = %s, want %s", got, want)
	}
	if hint := status.Diagnostics[0].Hint; !strings.Contains(hint, `requests[0].instruction = "y`) {
		t.Errorf("hint = %s, want the instruction", hint)
	}
	s.put("x/root_agent.test.yaml", said("y"))
	s.looks(2, "x two")
	if status, _ := s.watch.Status("x"); !status.OK || len(status.Diagnostics) > 0 {
		t.Errorf("status = %+v, want OK", status)
	}
}

// TestGateIsAskedFor has tests that fail in an app that does not ask for them,
// and files of tests that cannot be read in one that does.
func TestGateIsAskedFor(t *testing.T) {
	s := gated(t)
	s.put("x/app.yaml", "description: free\n")
	s.put("x/root_agent.test.yaml", said("nothing"))
	s.looks(2, "x free")
	s.put("x/app.yaml", "description: bound\nreload: {gate: [tests]}\n")
	s.put("x/root_agent.test.yaml", "- name: broken\n")
	s.looks(3)
	status, _ := s.watch.Status("x")
	got := strings.Join(status.Diagnostics.Strings(), "\n")
	if want := "a turn requires user, confirm or respond [test]"; !strings.HasSuffix(got, want) {
		t.Errorf("diagnostics = %s, want %s", got, want)
	}
}
