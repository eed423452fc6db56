package export_test

import (
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agenthost/internal/testenv"
	"agenthost/pkg/loader"
	"agenthost/wing/adk/export"
)

// TestExportDurations writes node durations as ADK's numbers of seconds, and reports what ADK
// reads otherwise.
func TestExportDurations(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "app")
	const head = "agent_class: Workflow\nname: flow\nedges:\n  - - START\n    - {agent_class: FunctionNode, name: f, expr: input, message: false, timeout: 90s, retry_config: {initial_delay: 500ms, max_delay: 2, exceptions: [TOOL_FAILED]}}\n"
	write(t, filepath.Join(dir, "root_agent.yaml"), head)
	var got []string
	for _, d := range export.CheckPortability(t.Context(), loader.New(testenv.Kinds(), &loader.Options{Env: lookUpEnv}), dir) {
		got = append(got, d.Message)
	}
	want := []string{
		"ADK's FunctionNode has no field expr",
		"ADK's FunctionNode has no field message",
		"ADK requires a number of seconds here",
		"ADK requires a number of seconds here",
		"ADK requires Python exception names here, not error codes",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("CheckPortable (-want +got):\n%s", diff)
	}
}
