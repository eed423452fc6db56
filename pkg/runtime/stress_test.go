package runtime_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genai"

	"agenthost/internal/testenv"
	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
	"agenthost/pkg/tool"
)

// deepTree returns a tree with ten agents per level; the last one has the next level as its child.
func deepTree(depth int) runtime.Agent {
	var subs []runtime.Agent
	for i := range 9 {
		subs = append(subs, runtime.NewLLM(fmt.Sprintf("a%d_%d", depth, i), nil))
	}
	if depth > 1 {
		subs = append(subs, deepTree(depth-1))
	} else {
		subs = append(subs, runtime.NewLLM("last", nil))
	}
	name := fmt.Sprint("level", depth)
	if depth%2 == 0 {
		return runtime.NewSequential(name, "", subs...)
	}
	return runtime.NewLoop(name, &runtime.LoopOptions{SubAgents: subs, MaxIterations: new(1)})
}

// TestDeepTree: a hundred agents on ten levels run once each, in order.
func TestDeepTree(t *testing.T) {
	e := testenv.New(t, nil)
	key := e.Session(t, "app", "s", nil)
	deployApp(t, e, deepTree(10), &runtime.AppOptions{Model: textModel("ok")})
	var want strings.Builder
	for depth := 10; depth > 0; depth-- {
		for i := range 9 {
			fmt.Fprintf(&want, "a%d_%d: ok\n", depth, i)
		}
	}
	want.WriteString("last: ok\n")
	if diff := cmp.Diff(want.String(), formatRun(e.Host.Run(t.Context(), userMessage(key, "go")))); diff != "" {
		t.Errorf("Run() (-want +got):\n%s", diff)
	}
}

// TestManyBranchesWrite: concurrent writes on 64 branches are all stored, and each branch reads its
// own.
func TestManyBranchesWrite(t *testing.T) {
	const branches, writes = 64, 8
	e := testenv.New(t, nil)
	key := e.Session(t, "app", "s", nil)
	var subs []runtime.Agent
	for i := range branches {
		name := fmt.Sprint("b", i)
		write := &testTool{name: "write", run: func(_ context.Context, c *tool.Call) (*tool.Result, error) {
			for j := range writes {
				c.State.Set(fmt.Sprintf("%s_%d", name, j), j)
			}
			c.State.Set("shared", name)
			c.State.Set("user:"+name, true)
			v, _ := c.State.Get("shared")
			return &tool.Result{Response: map[string]any{"read": v}}, nil
		}}
		subs = append(subs, runtime.NewLLM(name, &runtime.LLMOptions{
			Model: toolCallModel("write"), Tools: []tool.Tool{write}, OutputKey: "output_" + name,
		}))
	}
	deployApp(t, e, runtime.NewParallel("all", "", subs...), nil)
	for ev, err := range e.Host.Run(t.Context(), userMessage(key, "go")) {
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range ev.Responses() {
			if r.Response["read"] != ev.Author {
				t.Errorf("%s read %v of its own write", ev.Author, r.Response["read"])
			}
		}
	}
	sess, err := e.Store.Sessions.Get(t.Context(), key, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := len(sess.Events()), 1+3*branches; got != want {
		t.Errorf("%d events are stored, want %d", got, want)
	}
	for i := range branches {
		name := fmt.Sprint("b", i)
		for j := range writes {
			wantState(t, sess, fmt.Sprintf("%s_%d", name, j), int64(j))
		}
		wantState(t, sess, "user:"+name, true)
		wantState(t, sess, "output_"+name, "done")
	}
}

func wantState(t *testing.T, sess *session.Session, key string, want any) {
	t.Helper()
	if got, _ := sess.State.Get(key); got != want {
		t.Errorf("state %s = %v, want %v", key, got, want)
	}
}

// TestFiftyCalls: the responses to a model answer's fifty calls are one event, in call order,
// whichever ended first.
func TestFiftyCalls(t *testing.T) {
	const calls = 50
	e := testenv.New(t, nil)
	key := e.Session(t, "app", "s", nil)
	// Each call waits for the next one, so that they end in reverse order.
	ended := make([]chan struct{}, calls+1)
	names, tools := make([]string, calls), make([]tool.Tool, calls)
	for i := range ended {
		ended[i] = make(chan struct{})
	}
	close(ended[calls])
	for i := range calls {
		names[i] = fmt.Sprint("f", i)
		tools[i] = &testTool{name: names[i], run: func(_ context.Context, c *tool.Call) (*tool.Result, error) {
			<-ended[i+1]
			defer close(ended[i])
			c.State.Set("last", i)
			return &tool.Result{Response: map[string]any{"n": i}}, nil
		}}
	}
	deployApp(t, e, runtime.NewLLM("a", &runtime.LLMOptions{Model: toolCallModel(names...), Tools: tools}),
		&runtime.AppOptions{Config: &runtime.RunConfig{ToolThreadPoolConfig: &runtime.ToolPool{MaxWorkers: calls}}})
	var want strings.Builder
	want.WriteString("a: call " + strings.Join(names, " call ") + "\na:")
	for i := range calls {
		fmt.Fprintf(&want, " f%d map[n:%d]", i, i)
	}
	want.WriteString("\na: done\n")
	if diff := cmp.Diff(want.String(), formatRun(e.Host.Run(t.Context(), userMessage(key, "go")))); diff != "" {
		t.Errorf("Run() (-want +got):\n%s", diff)
	}
	sess, err := e.Store.Sessions.Get(t.Context(), key, nil)
	if err != nil {
		t.Fatal(err)
	}
	wantState(t, sess, "last", int64(calls-1))
}

// transferModel always transfers to the named agent.
func transferModel(to string) modelFunc {
	return func(context.Context, *model.Request) (*genai.Content, error) {
		return &genai.Content{Role: genai.RoleModel, Parts: []*genai.Part{{
			FunctionCall: &genai.FunctionCall{Name: "transfer_to_agent", Args: map[string]any{"agent_name": to}},
		}}}, nil
	}
}

// endlessTrees returns trees whose runs do not terminate.
func endlessTrees(t *testing.T) map[string]runtime.Agent {
	t.Helper()
	answer := func(name string) runtime.Agent {
		return runtime.NewLLM(name, &runtime.LLMOptions{Model: textModel("on")})
	}
	circle, err := runtime.NewWorkflow("circle", &runtime.WorkflowOptions{
		Nodes: []runtime.Agent{answer("one"), answer("two")},
		Edges: []runtime.Edge{{From: runtime.Start, To: 0}, {From: 0, To: 1}, {From: 1, To: 0}},
	})
	if err != nil {
		t.Fatal(err)
	}
	again := &testTool{name: "f", run: func(context.Context, *tool.Call) (*tool.Result, error) { return nil, nil }}
	return map[string]runtime.Agent{
		"loop":   runtime.NewLoop("loop", &runtime.LoopOptions{SubAgents: []runtime.Agent{answer("a")}}),
		"circle": circle,
		"endless calls": runtime.NewLLM("a", &runtime.LLMOptions{Tools: []tool.Tool{again}, Model: modelFunc(
			func(context.Context, *model.Request) (*genai.Content, error) {
				return &genai.Content{Role: genai.RoleModel, Parts: []*genai.Part{{FunctionCall: &genai.FunctionCall{Name: "f"}}}}, nil
			},
		)}),
		"hands over to itself": runtime.NewLLM("a", &runtime.LLMOptions{Model: transferModel("a"), SubAgents: []runtime.Agent{answer("b")}}),
		"hand over in a circle": runtime.NewLLM("a", &runtime.LLMOptions{
			Model: transferModel("b"), SubAgents: []runtime.Agent{runtime.NewLLM("b", &runtime.LLMOptions{Model: transferModel("a")})},
		}),
	}
}

// TestEndlessRunBounded: the limit on model calls ends an endless run with an
// error, and the session is released immediately.
func TestEndlessRunBounded(t *testing.T) {
	for name, root := range endlessTrees(t) {
		t.Run(name, func(t *testing.T) {
			e := testenv.New(t, nil)
			key := e.Session(t, "app", "s", nil)
			config := runtime.DefaultRunConfig()
			config.MaxLLMCalls = 40
			deployApp(t, e, root, &runtime.AppOptions{Config: &config})
			wantRunEnd(t, e, key, "error LLM_CALLS_LIMIT: Max number of llm calls limit of `40` exceeded\n")
		})
	}
}

// TestEndlessRunCanceled: without a limit, the caller can cancel the run.
func TestEndlessRunCanceled(t *testing.T) {
	for name, root := range endlessTrees(t) {
		t.Run(name, func(t *testing.T) {
			e := testenv.New(t, nil)
			key := e.Session(t, "app", "s", nil)
			config := runtime.DefaultRunConfig()
			config.MaxLLMCalls = 0
			deployApp(t, e, root, &runtime.AppOptions{Config: &config})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			seen, end := 0, error(nil)
			for _, err := range e.Host.Run(ctx, userMessage(key, "go")) {
				if seen++; seen == 60 {
					cancel()
				}
				end = err
			}
			if end == nil || runtime.AsRunError(end).Code != runtime.CodeCanceled {
				t.Errorf("Run() ended with %v, want %s", end, runtime.CodeCanceled)
			}
			wantSessionFree(t, e, key)
		})
	}
}

// TestWorkflowCycleWithoutModel: the limit on node executions ends a cycle that
// calls no model.
func TestWorkflowCycleWithoutModel(t *testing.T) {
	silent := func(name string) runtime.Agent {
		return &testAgent{Base: runtime.Base{AgentName: name}, run: func(context.Context, *runtime.Invocation) runtime.Events {
			return func(func(*session.Event, error) bool) {}
		}}
	}
	circle, err := runtime.NewWorkflow("circle", &runtime.WorkflowOptions{
		Nodes: []runtime.Agent{silent("one"), silent("two")},
		Edges: []runtime.Edge{{From: runtime.Start, To: 0}, {From: 0, To: 1}, {From: 1, To: 0}},
	})
	if err != nil {
		t.Fatal(err)
	}
	e := testenv.New(t, nil)
	key := e.Session(t, "app", "s", nil)
	deployApp(t, e, circle, nil)
	wantRunEnd(t, e, key, "error NODE_RUNS_LIMIT: workflow circle exceeded 1000 node executions; possible infinite loop\n")
}

// wantRunEnd checks how a run ends, and that the session is released.
func wantRunEnd(t *testing.T, e *testenv.Env, key session.Key, want string) {
	t.Helper()
	got := formatRun(e.Host.Run(t.Context(), userMessage(key, "go")))
	if i := strings.LastIndex(got[:max(len(got)-1, 0)], "\n"); i >= 0 {
		got = got[i+1:]
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("end of Run() (-want +got):\n%s", diff)
	}
	wantSessionFree(t, e, key)
}

// wantSessionFree checks that no run holds the session.
func wantSessionFree(t *testing.T, e *testenv.Env, key session.Key) {
	t.Helper()
	_, free, err := e.Store.Sessions.Acquire(t.Context(), key, 1)
	if err != nil {
		t.Errorf("the session is not free after the run: %v", err)
		return
	}
	free()
}
