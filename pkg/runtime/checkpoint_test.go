package runtime_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agenthost/internal/testenv"
	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
	"agenthost/pkg/tool"
)

// checkpointAgents returns agents named x that store checkpoints.
func checkpointAgents(t *testing.T) map[string]runtime.Agent {
	t.Helper()
	f := &testTool{name: "f", run: func(context.Context, *tool.Call) (*tool.Result, error) { return nil, nil }}
	one := func() runtime.Agent { return runtime.NewLLM("one", &runtime.LLMOptions{Model: textModel("hello")}) }
	flow, err := runtime.NewWorkflow("x", &runtime.WorkflowOptions{
		Nodes: []runtime.Agent{one(), runtime.NewLLM("two", &runtime.LLMOptions{Model: textModel("hello")}), runtime.NewJoin("both", "")},
		Edges: []runtime.Edge{{From: runtime.Start, To: 0}, {From: runtime.Start, To: 1}, {From: 0, To: 2}, {From: 1, To: 2}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return map[string]runtime.Agent{
		"llm":        runtime.NewLLM("x", &runtime.LLMOptions{Model: textModel("hello")}),
		"tool node":  runtime.NewToolNode("x", f, nil),
		"sequential": runtime.NewSequential("x", "", one()),
		"loop":       runtime.NewLoop("x", &runtime.LoopOptions{SubAgents: []runtime.Agent{one()}, MaxIterations: new(2)}),
		"router":     runtime.NewRouter("x", "", runtime.Route{Agent: one()}),
		"workflow":   flow,
	}
}

// resumeFrom resumes an invocation with one stored checkpoint by the agent x, which runs below the
// parallel agent fan on its own goroutine.
func resumeFrom(t *testing.T, keeper runtime.Agent, path, state string) string {
	t.Helper()
	e := testenv.New(t, nil)
	key := e.Session(t, "app", "s", nil)
	deployApp(t, e, runtime.NewParallel("fan", "", keeper), &runtime.AppOptions{Resumable: true})
	checkpoint := &session.Event{ID: "2", Author: "x", InvocationID: "e-1", NodePath: path}
	var err error
	if checkpoint.Actions.AgentState, err = session.DecodeMap([]byte(state)); err != nil {
		t.Fatal(err)
	}
	sess, err := e.Store.Sessions.Get(t.Context(), key, nil)
	if err != nil {
		t.Fatal(err)
	}
	userEvent := &session.Event{ID: "1", Author: session.UserAuthor, InvocationID: "e-1"}
	userEvent.Content = model.UserText("go")
	for _, ev := range []*session.Event{userEvent, checkpoint} {
		if err := e.Store.Sessions.Append(t.Context(), sess, ev); err != nil {
			t.Fatal(err)
		}
	}
	defer wantSessionFree(t, e, key)
	return formatRun(e.Host.Run(t.Context(), &runtime.RunRequest{App: key.App, UserID: key.User, SessionID: key.ID, InvocationID: "e-1"}))
}

// TestCheckpointInvalid: resuming from a forged checkpoint, such as one in an
// imported event, fails with an error on any goroutine.
func TestCheckpointInvalid(t *testing.T) {
	const lanes = `"lanes":[{"branch":"","up":-1}]`
	for _, tt := range []struct{ keeper, state, want string }{
		{"llm", `{"waiting_for":[1]}`, "waiting_for[0] must be a string, got 1"},
		{"llm", `{"waiting_for":"c1"}`, `waiting_for must be a list, got "c1"`},
		{"llm", `{"waiting_for":[null]}`, "waiting_for[0] must be a string, got null"},
		{"tool node", `{"waiting_for":[{}]}`, "waiting_for[0] must be a string, got {}"},
		{"sequential", `{"current_sub_agent":1}`, "current_sub_agent must be a string, got 1"},
		{"loop", `{"current_sub_agent":["one"]}`, `current_sub_agent must be a string, got ["one"]`},
		{"loop", `{"current_sub_agent":"one","times_looped":-5}`, "times_looped must be a number from 0 to 2147483647, got -5"},
		{"loop", `{"current_sub_agent":"one","times_looped":"1"}`, `times_looped must be a number from 0 to 2147483647, got "1"`},
		{"loop", `{"current_sub_agent":"one","times_looped":0.5}`, "times_looped must be a number from 0 to 2147483647, got 0.5"},
		{"router", `{"current_sub_agent":{}}`, "current_sub_agent must be a string, got {}"},
		{"workflow", `{"lanes":{}}`, "lanes must be a list, got {}"},
		{"workflow", `{"lanes":[1]}`, "lanes[0] must be a mapping, got 1"},
		{"workflow", `{"lanes":[{"branch":1,"up":-1}]}`, "lanes[0].branch must be a string, got 1"},
		{"workflow", `{"lanes":[{"branch":"","up":0}]}`, "lanes[0].up must be -1, got 0"},
		{"workflow", `{"lanes":[{"branch":"","up":-1},{"branch":"","up":-1}]}`, "lanes[1].up must be 0, got -1"},
		{"workflow", `{"nodes":{"one":{"runs":-1000}}}`, "nodes.one.runs must be a number from 0 to 1000, got -1000"},
		{"workflow", `{"nodes":{"one":1}}`, "nodes.one must be a mapping, got 1"},
		{"workflow", `{` + lanes + `,"nodes":{"one":{"runs":1}},"tasks":[{"node":"START","run":1,"lane":0}]}`, `tasks[0].node must be a node of the workflow, got "START"`},
		{"workflow", `{` + lanes + `,"nodes":{"one":{"runs":1}},"tasks":[{"node":"one","run":1,"lane":7}]}`, "tasks[0].lane must be 0, got 7"},
		{"workflow", `{` + lanes + `,"nodes":{"one":{"runs":1}},"tasks":[{"node":"one","run":2,"lane":0}]}`, "tasks[0].run must be 1, got 2"},
		{"workflow", `{` + lanes + `,"nodes":{"one":{"runs":1}},"tasks":[{"node":"one","run":1,"lane":0},{"node":"one","run":1,"lane":0}]}`, "tasks[1] repeats run 1 of node one"},
		{"workflow", `{"nodes":{"one":{"runs":1}},"tasks":[{"node":"one","run":1,"lane":0}]}`, "tasks[0].lane must be a lane of lanes, got 0"},
		{"workflow", `{` + lanes + `,"joins":{"one":{}}}`, `joins.one must be a JoinNode`},
		{"workflow", `{` + lanes + `,"joins":{"START":{}}}`, `joins.START must be a node of the workflow, got "START"`},
		{"workflow", `{` + lanes + `,"joins":{"both":{"both":{"lane":0}}}}`, `joins.both.both has no edge to both`},
		{"workflow", `{` + lanes + `,"joins":{"both":{"one":{"lane":null}}}}`, "joins.both.one.lane must be 0, got null"},
		{"workflow", `{` + lanes + `,"joins":{"both":{"one":7}}}`, "joins.both.one must be a mapping, got 7"},
	} {
		t.Run(tt.keeper+" "+tt.state, func(t *testing.T) {
			want := "error INVALID_REQUEST: the invocation cannot be resumed: stored state of agent x: " + tt.want + "\n"
			if diff := cmp.Diff(want, withoutCheckpoints(resumeFrom(t, checkpointAgents(t)[tt.keeper], "fan@1/x@1", tt.state))); diff != "" {
				t.Errorf("Run() (-want +got):\n%s", diff)
			}
		})
	}
}

// TestCheckpointValid is the control: what the agents write themselves, and an
// empty checkpoint, resumes.
func TestCheckpointValid(t *testing.T) {
	for _, tt := range []struct{ keeper, state string }{
		{"llm", `{"waiting_for":["c1"]}`},
		{"llm", `{}`},
		{"sequential", `{"current_sub_agent":"one"}`},
		{"loop", `{"current_sub_agent":"one","times_looped":1}`},
		{"router", `{"current_sub_agent":"one"}`},
		{"workflow", `{"lanes":[{"branch":"","up":-1},{"branch":"x.one","up":0},{"branch":"x.two","up":0}],` +
			`"nodes":{"one":{"runs":1},"two":{"runs":1},"both":{"runs":0}},"tasks":[{"node":"one","run":1,"lane":1}],` +
			`"joins":{"both":{"two":{"lane":2,"output":"hi"}}}}`},
	} {
		t.Run(tt.keeper+" "+tt.state, func(t *testing.T) {
			if got := resumeFrom(t, checkpointAgents(t)[tt.keeper], "fan@1/x@1", tt.state); strings.Contains(got, "error") || !strings.Contains(got, "hello") {
				t.Errorf("Run() =\n%s\nwant the agents to continue", got)
			}
		})
	}
}

// TestNodePathInvalid: an event path that no agent in this program wrote is an error as well.
func TestNodePathInvalid(t *testing.T) {
	for _, path := range []string{"x", "@1", "@", "fan@2/x@1", "fan/x@1", "other@1"} {
		t.Run(path, func(t *testing.T) {
			got := resumeFrom(t, checkpointAgents(t)["llm"], path, `{}`)
			if !strings.HasPrefix(got, "error INVALID_REQUEST: the invocation cannot be resumed: ") {
				t.Errorf("Run() =\n%s\nwant an error that it cannot be resumed", got)
			}
		})
	}
}

// withoutCheckpoints drops events without content.
func withoutCheckpoints(outline string) string {
	return strings.ReplaceAll(strings.ReplaceAll(outline, "fan: \n", ""), "x: \n", "")
}
