package runtime_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agenthost/internal/testenv"
)

// TestOutputFor has the nodes whose output an event has: its own node, and the workflows
// that end with it; * marks outputs that are messages. A sub-agent that is called as a tool
// has an output, too. Resumability changes nothing.
func TestOutputFor(t *testing.T) {
	for _, resumable := range []bool{false, true} {
		t.Run(fmt.Sprint("resumable=", resumable), func(t *testing.T) { checkOutputFor(t, resumable) })
	}
}

func checkOutputFor(t *testing.T, resumable bool) {
	e := testenv.New(t, nil)
	e.Load(t, testenv.Files(t, "app", map[string][]byte{
		"root_agent.yaml": []byte(`
name: wf
agent_class: Workflow
edges:
  - - START
    - {agent_class: FunctionNode, name: up, expr: upper(input)}
    - {name: inner, agent_class: Workflow, edges: [[START, {name: draft, model: demo, instruction: D.}, {name: bio, model: demo, instruction: B.}]]}
    - name: coord
      model: demo
      instruction: C.
      sub_agents: [{name: rec, description: R., mode: single_turn, instruction: R.}]
`),
		"app.yaml": fmt.Appendf(nil, "resumability_config: {is_resumable: %v}\nmodels: {demo: {provider: scripted, script: demo.script.yaml}}\n", resumable),
		"demo.script.yaml": []byte(`
- {when: agent == "coord" and responses.rec == nil, calls: [{name: rec, args: {request: a}}]}
- text: "{agent}"
`),
	}))
	key := e.Session(t, "app", "s", nil)
	var got []string
	for ev, err := range e.Host.Run(t.Context(), userMessage(key, "go")) {
		if err != nil {
			t.Fatal(err)
		}
		if len(ev.OutputFor) > 0 || ev.MessageAsOutput {
			got = append(got, fmt.Sprint(ev.NodePath, " for ", strings.Join(ev.OutputFor, ", "), map[bool]string{true: " *"}[ev.MessageAsOutput]))
		}
	}
	want := []string{
		"wf@1/up@1 for wf@1/up@1",
		"wf@1/inner@1/draft@1 for wf@1/inner@1/draft@1 *",
		"wf@1/inner@1/bio@1 for wf@1/inner@1/bio@1, wf@1/inner@1 *",
		"wf@1/coord@1/rec@1 for wf@1/coord@1/rec@1 *",
		"wf@1/coord@1 for wf@1/coord@1, wf@1 *",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("outputs (-want +got):\n%s", diff)
	}
}
