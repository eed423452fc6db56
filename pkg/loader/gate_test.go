package loader

import (
	"strings"
	"testing"
)

// newGatedEnv returns an app whose changes must pass its tests.
func newGatedEnv(t *testing.T) *watchEnv {
	t.Helper()
	s := newWatchEnv(t)
	s.writeFile("x/app.yaml", "reload: {gate: [tests]}\n")
	s.writeFile("x/root_agent.yaml", agentYAML("one"))
	s.writeFile("x/root_agent.test.yaml", instructionTest("x"))
	s.must(s.watch.Sync(t.Context()))
	s.pollAndExpect(2)
	return s
}

// instructionTest returns a test for the instruction.
func instructionTest(instruction string) string {
	return "- name: has it\n  user: hi\n  model: [{text: yes}]\n  expect: ['requests[0].instruction contains \"" + instruction + "\"']\n"
}

// TestGateRejectsFailingTest expects a change that breaks a test to be rejected with diagnostics,
// until the change or the test is fixed.
func TestGateRejectsFailingTest(t *testing.T) {
	s := newGatedEnv(t)
	s.writeFile("x/root_agent.yaml", strings.Replace(agentYAML("two"), "x", "y", 1))
	s.pollAndExpect(3)
	status, _ := s.watch.Status("x")
	if status.OK || status.Revision != s.host.apps["x"].Revision() {
		t.Errorf("status = %+v, want the revision that serves, and not OK", status)
	}
	got := strings.Join(status.Diagnostics.Strings(), "\n")
	want := `x/root_agent.test.yaml:4:13: test "has it" failed: requests[0].instruction contains "x" is false [test-failed]`
	if !strings.HasSuffix(got, want) {
		t.Errorf("diagnostics = %s, want %s", got, want)
	}
	if hint := status.Diagnostics[0].Hint; !strings.Contains(hint, `requests[0].instruction = "y`) {
		t.Errorf("hint = %s, want the instruction", hint)
	}
	s.writeFile("x/root_agent.test.yaml", instructionTest("y"))
	s.pollAndExpect(2, "x two")
	if status, _ := s.watch.Status("x"); !status.OK || len(status.Diagnostics) > 0 {
		t.Errorf("status = %+v, want OK", status)
	}
}

// TestGateRunsOnlyIfConfigured covers failing tests in an app without a gate, and
// unreadable test files in an app with one.
func TestGateRunsOnlyIfConfigured(t *testing.T) {
	s := newGatedEnv(t)
	s.writeFile("x/app.yaml", "description: free\n")
	s.writeFile("x/root_agent.test.yaml", instructionTest("nothing"))
	s.pollAndExpect(2, "x free")
	s.writeFile("x/app.yaml", "description: bound\nreload: {gate: [tests]}\n")
	s.writeFile("x/root_agent.test.yaml", "- name: broken\n")
	s.pollAndExpect(3)
	status, _ := s.watch.Status("x")
	got := strings.Join(status.Diagnostics.Strings(), "\n")
	if want := "a turn requires user, confirm or respond [test]"; !strings.HasSuffix(got, want) {
		t.Errorf("diagnostics = %s, want %s", got, want)
	}
}
