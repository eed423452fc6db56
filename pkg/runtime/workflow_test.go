package runtime_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"agenthost/internal/testenv"
	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
)

// textNode returns an agent that yields one event with its name.
func textNode(name string, edit func(*session.Event)) *testAgent {
	return &testAgent{runtime.Base{AgentName: name}, func(_ context.Context, inv *runtime.Invocation) runtime.Events {
		return func(yield func(*session.Event, error) bool) {
			ev := inv.NewEvent()
			ev.Content = model.ModelText(name)
			if edit != nil {
				edit(ev)
			}
			yield(ev, nil)
		}
	}}
}

// TestWorkflowRoutes: an event's route takes precedence over the node's output; a list matches
// several routes.
func TestWorkflowRoutes(t *testing.T) {
	for _, tt := range []struct {
		name  string
		route any
		want  string
	}{
		{"no route, so the output", nil, "first reply"},
		{"text", " b ", "first b"},
		{"number", 3.0, "first three"},
		{"number as text", "3", "first other"},
		{"true", true, "first yes"},
		{"true as text", "true", "first other"},
		{"list", []any{"b", true}, "first b yes"},
		{"another", "x", "first other"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			first := textNode("first", func(ev *session.Event) { ev.Actions.Route = tt.route })
			end := runtime.NewFunctionNode("end", func(context.Context, *runtime.CallbackContext, any) (any, error) { return nil, nil }, nil)
			route := func(to int, value any) runtime.Edge {
				return runtime.Edge{From: 0, To: to, Kind: runtime.EdgeRoute, Route: value}
			}
			w, err := runtime.NewWorkflow("flow", &runtime.WorkflowOptions{
				Nodes: []runtime.Agent{first, textNode("b", nil), textNode("three", nil), textNode("yes", nil), textNode("reply", nil), textNode("other", nil), end},
				Edges: []runtime.Edge{
					{From: runtime.Start, To: 0},
					route(1, "b"), route(2, int64(3)), route(3, true), route(4, "first"),
					{From: 0, To: 5, Kind: runtime.EdgeDefault},
					{From: 1, To: 6},
					{From: 3, To: 6},
				},
				MaxConcurrency: 1,
			})
			if err != nil {
				t.Fatal(err)
			}
			e := testenv.New(t, nil)
			deployApp(t, e, w, nil)
			var authors []string
			for ev, err := range e.Host.Run(t.Context(), userMessage(e.Session(t, "app", "s", nil), "go")) {
				if err != nil {
					t.Fatal(err)
				}
				authors = append(authors, ev.Author)
			}
			if got := strings.Join(authors, " "); got != tt.want {
				t.Errorf("ran %s, want %s", got, tt.want)
			}
		})
	}
}

// TestWorkflowInvalid has the graphs that cannot be built.
func TestWorkflowInvalid(t *testing.T) {
	_, err := runtime.NewWorkflow("flow", &runtime.WorkflowOptions{Nodes: []runtime.Agent{textNode("a", nil)}, Edges: []runtime.Edge{{From: 0, To: 1}}})
	if want := "workflow flow: edge from 0 to 1 is out of range: there are 1 nodes"; err == nil || err.Error() != want {
		t.Errorf("NewWorkflow = %v, want %s", err, want)
	}
	_, err = runtime.NewWorkflow("flow", &runtime.WorkflowOptions{Nodes: []runtime.Agent{textNode("a", nil)}, Edges: []runtime.Edge{{From: runtime.Start, To: 0, Route: 1.5}}})
	if want := "workflow flow: the route of an edge must be a string, an int64 or a bool, got float64"; err == nil || err.Error() != want {
		t.Errorf("NewWorkflow = %v, want %s", err, want)
	}
	_, err = runtime.NewApp("app", runtime.NewJoin("j", ""), nil)
	if want := "app app: JoinNode j must be a node of a Workflow"; err == nil || err.Error() != want {
		t.Errorf("NewApp = %v, want %s", err, want)
	}
}

// TestWorkflowStopped: a workflow ends with its context, even while nodes wait.
func TestWorkflowStopped(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	waiting := &testAgent{runtime.Base{AgentName: "waiting"}, func(ctx context.Context, _ *runtime.Invocation) runtime.Events {
		return func(func(*session.Event, error) bool) {
			cancel()
			<-ctx.Done()
		}
	}}
	w, err := runtime.NewWorkflow("flow", &runtime.WorkflowOptions{
		Nodes: []runtime.Agent{waiting, textNode("other", nil)}, Edges: []runtime.Edge{{From: runtime.Start, To: 0}, {From: 0, To: 1}},
	})
	if err != nil {
		t.Fatal(err)
	}
	e := testenv.New(t, nil)
	deployApp(t, e, w, nil)
	key := e.Session(t, "app", "s", nil)
	if got, want := formatRun(e.Host.Run(ctx, userMessage(key, "go"))), "error CANCELED: the run was stopped\n"; got != want {
		t.Errorf("the run was %q, want %q", got, want)
	}
}

// TestFunctionNode tests the results that a program's function can return.
func TestFunctionNode(t *testing.T) {
	for _, tt := range []struct {
		name string
		fn   runtime.NodeFunc
		want string
	}{
		{
			"gives its input back",
			func(_ context.Context, _ *runtime.CallbackContext, input any) (any, error) {
				return map[string]any{"was": input}, nil
			},
			"first: {\"was\":\"go\"}\nother: other\n",
		},
		{
			"returns a content and sets the route",
			func(_ context.Context, m *runtime.CallbackContext, _ any) (any, error) {
				m.Actions.Route = "b"
				return model.ModelText("hello"), nil
			},
			"flow: hello\nb: b\n",
		},
		{
			"gives nothing and writes state",
			func(_ context.Context, m *runtime.CallbackContext, _ any) (any, error) {
				m.State.Set("seen", true)
				return nil, nil
			},
			"first: \nother: other\n",
		},
		{
			"fails",
			func(context.Context, *runtime.CallbackContext, any) (any, error) { return nil, errors.New("no luck") },
			"error AGENT_FAILED: node first failed: no luck\n",
		},
		{
			"fails in its own words",
			func(context.Context, *runtime.CallbackContext, any) (any, error) {
				return nil, &runtime.RunError{Code: "LATE", Message: "too late"}
			},
			"error LATE: too late\n",
		},
		{
			"panics",
			func(context.Context, *runtime.CallbackContext, any) (any, error) { panic("oh") },
			"error AGENT_FAILED: agent first panicked\n",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w, err := runtime.NewWorkflow("flow", &runtime.WorkflowOptions{
				Nodes: []runtime.Agent{runtime.NewFunctionNode("first", tt.fn, nil), textNode("b", nil), textNode("other", nil)},
				Edges: []runtime.Edge{
					{From: runtime.Start, To: 0},
					{From: 0, To: 1, Kind: runtime.EdgeRoute, Route: "b"},
					{From: 0, To: 2, Kind: runtime.EdgeDefault},
				},
			})
			if err != nil {
				t.Fatal(err)
			}
			e := testenv.New(t, nil)
			deployApp(t, e, w, nil)
			if got := formatRun(e.Host.Run(t.Context(), userMessage(e.Session(t, "app", "s", nil), "go"))); got != tt.want {
				t.Errorf("the run was %q, want %q", got, tt.want)
			}
		})
	}
}
