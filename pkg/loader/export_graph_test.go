package loader_test

import (
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agenthost/internal/testenv"
	"agenthost/pkg/loader"
)

// TestRouteKeys expects the routes of a mapping to have the types of ADK's YAML, unless they
// have quotes.
func TestRouteKeys(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "app")
	write(t, filepath.Join(dir, "root_agent.yaml"), `agent_class: Workflow
name: flow
edges:
  - [START, a, {1: b, true: c, "2": d, "false": e, yes: f}]
agents:
  a: {instruction: A., include_contents: none}
  b: {instruction: B.}
  c: {instruction: C.}
  d: {instruction: D.}
  e: {instruction: E.}
  f: {instruction: F.}
`)
	var got []any
	for _, e := range mustLoad(t, dir, &loader.Options{Env: lookUpEnv}).AgentInfo().Edges[1:] {
		got = append(got, e.Route)
	}
	if diff := cmp.Diff([]any{int64(1), true, "2", "false", "yes"}, got); diff != "" {
		t.Errorf("routes (-want +got):\n%s", diff)
	}
}

// TestExportDurations writes durations of nodes as ADK's numbers of seconds, and reports
// what ADK reads otherwise.
func TestExportDurations(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "app")
	const head = "agent_class: Workflow\nname: flow\nedges:\n  - - START\n    - {agent_class: FunctionNode, name: f, expr: input, message: false, timeout: 90s, retry_config: {initial_delay: 500ms, max_delay: 2, exceptions: [TOOL_FAILED]}}\n"
	write(t, filepath.Join(dir, "root_agent.yaml"), head)
	var got []string
	for _, d := range loader.CheckPortability(t.Context(), loader.New(testenv.Kinds(), &loader.Options{Env: lookUpEnv}), dir) {
		got = append(got, d.Message)
	}
	want := []string{
		"ADK's FunctionNode has no field expr",
		"ADK's FunctionNode has no field message",
		"ADK requires a number of seconds here",
		"ADK requires a number of seconds here",
		"ADK requires names of Python exceptions here, not error codes",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("CheckPortable (-want +got):\n%s", diff)
	}
}
