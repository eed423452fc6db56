package runtime_test

import (
	"context"
	"fmt"
	goruntime "runtime"
	"slices"
	"strings"
	"testing"

	"google.golang.org/genai"

	"agenthost/internal/testenv"
	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
	"agenthost/pkg/tool"
)

// oneWorker executes an answer's calls one after the other.
func oneWorker() *runtime.RunConfig {
	return &runtime.RunConfig{ToolThreadPoolConfig: &runtime.ToolPool{MaxWorkers: 1}}
}

// countCall counts in the state as Go code does: it reads, and then writes.
func countCall(_ context.Context, call *tool.Call) (*tool.Result, error) {
	n, _ := call.State.Get("n")
	before, _ := n.(int64)
	call.State.Set("n", before+1)
	return &tool.Result{Response: map[string]any{"before": before}}, nil
}

// runCalls runs a turn, and returns the stored state.
func runCalls(t *testing.T, llm *runtime.LLMOptions, config *runtime.RunConfig) map[string]any {
	t.Helper()
	e := testenv.New(t, nil)
	deployApp(t, e, runtime.NewLLM("a", llm), &runtime.AppOptions{Config: config})
	key := e.Session(t, "app", "s", nil)
	for _, err := range e.Host.Run(t.Context(), userMessage(key, "go")) {
		if err != nil {
			t.Fatal(err)
		}
	}
	sess, err := e.Store.Sessions.Get(t.Context(), key, nil)
	if err != nil {
		t.Fatal(err)
	}
	return sess.State.All()
}

// TestCallsShareState: with one worker, an answer's calls see the writes by earlier calls, whatever
// tool kind writes them. A call without a result writes nothing.
func TestCallsShareState(t *testing.T) {
	inner := runtime.NewLLM("inner", &runtime.LLMOptions{
		Model: toolCallModel("count"), Tools: []tool.Tool{&testTool{name: "count", run: countCall}},
	})
	tools := []tool.Tool{
		&testTool{name: "count", run: countCall},
		runtime.NewAgentTool(inner, nil),
		&testTool{name: "fails", run: func(ctx context.Context, call *tool.Call) (*tool.Result, error) {
			_, _ = countCall(ctx, call)
			return nil, fmt.Errorf("failed after the write")
		}},
		&testTool{name: "panics", run: func(ctx context.Context, call *tool.Call) (*tool.Result, error) {
			_, _ = countCall(ctx, call)
			panic("after the write")
		}},
		&testTool{name: "later", capabilities: tool.Capabilities{LongRunning: true}, run: func(ctx context.Context, call *tool.Call) (*tool.Result, error) {
			_, _ = countCall(ctx, call)
			return nil, nil
		}},
		&testTool{name: "asks", run: func(ctx context.Context, call *tool.Call) (*tool.Result, error) {
			_, _ = countCall(ctx, call)
			call.RequestConfirmation("sure?", nil)
			return nil, nil
		}},
	}
	for _, tt := range []struct {
		calls []string
		want  int64
	}{
		{[]string{"count", "count", "count"}, 3},
		{[]string{"count", "inner", "count"}, 3},
		{[]string{"fails", "count"}, 2},
		{[]string{"panics", "count", "panics"}, 3},
		{[]string{"later", "count"}, 1},
		{[]string{"asks", "count"}, 2},
	} {
		t.Run(fmt.Sprint(tt.calls), func(t *testing.T) {
			m := func(ctx context.Context, req *model.Request) (*genai.Content, error) {
				c, err := toolCallModel(tt.calls...)(ctx, req)
				for _, call := range model.CallsOf(c) {
					call.Args = map[string]any{"request": "count"}
				}
				return c, err
			}
			state := runCalls(t, &runtime.LLMOptions{Model: modelFunc(m), Tools: tools}, oneWorker())
			if state["n"] != tt.want {
				t.Errorf("n = %v, want %d", state["n"], tt.want)
			}
		})
	}
}

// TestCallsOverlap: calls on several workers overlap. A call sees an earlier call's writes as soon
// as that has ended, and never a later call's. The later call wins.
func TestCallsOverlap(t *testing.T) {
	ended, go3 := make(chan struct{}), make(chan struct{})
	var seen []any
	read := func(call *tool.Call) { n, _ := call.State.Get("n"); seen = append(seen, n) }
	tools := []tool.Tool{
		&testTool{name: "first", run: func(_ context.Context, call *tool.Call) (*tool.Result, error) {
			<-ended // the second call has written
			read(call)
			call.State.Set("n", "first")
			close(go3)
			return nil, nil
		}},
		&testTool{name: "second", run: func(_ context.Context, call *tool.Call) (*tool.Result, error) {
			defer close(ended)
			call.State.Set("n", "second")
			return nil, nil
		}},
		&testTool{name: "third", run: func(_ context.Context, call *tool.Call) (*tool.Result, error) {
			<-go3
			for {
				if n, _ := call.State.Get("n"); n == "second" {
					break
				}
			}
			read(call)
			return nil, nil
		}},
	}
	state := runCalls(t, &runtime.LLMOptions{Model: toolCallModel("first", "second", "third"), Tools: tools}, nil)
	if got := fmt.Sprintf("%v %v", seen, state["n"]); got != "[<nil> second] second" {
		t.Errorf("seen and stored: %s, want [<nil> second] second", got)
	}
}

// TestCallsInOrder: a tool that declares that it writes state, and callbacks before and after a
// tool, count right with any worker count. Other calls still overlap.
func TestCallsInOrder(t *testing.T) {
	count := func(key string) func(s tool.State) {
		return func(s tool.State) {
			n, _ := s.Get(key)
			before, _ := n.(int64)
			s.Set(key, before+1)
		}
	}
	before, after := count("before"), count("after")
	callbacks := runtime.Callbacks{
		BeforeTool: []runtime.BeforeToolFunc{func(_ context.Context, _ tool.Tool, call *tool.Call) (*tool.Result, error) {
			before(call.State)
			return nil, nil
		}},
		AfterTool: []runtime.AfterToolFunc{func(_ context.Context, _ tool.Tool, call *tool.Call, _ *tool.Result) (*tool.Result, error) {
			after(call.State)
			return nil, nil
		}},
		OnToolError: []runtime.ToolErrorFunc{func(_ context.Context, _ tool.Tool, call *tool.Call, _ error) (*tool.Result, error) {
			count("errors")(call.State)
			return nil, nil
		}},
	}
	meet := make(chan struct{})
	tools := []tool.Tool{
		&testTool{name: "count", capabilities: tool.Capabilities{WritesState: true}, run: countCall},
		&testTool{name: "gives", run: func(context.Context, *tool.Call) (*tool.Result, error) { meet <- struct{}{}; return nil, nil }},
		&testTool{name: "takes", run: func(context.Context, *tool.Call) (*tool.Result, error) { <-meet; return nil, nil }},
		&testTool{name: "fails", run: func(context.Context, *tool.Call) (*tool.Result, error) { return nil, fmt.Errorf("no") }},
	}
	calls := []string{"gives", "count", "takes", "fails", "count", "fails", "count", "none", "takes", "gives", "count"}
	state := runCalls(t, &runtime.LLMOptions{Model: toolCallModel(calls...), Tools: tools, Callbacks: callbacks}, nil)
	if got := fmt.Sprint(state["n"], state["before"], state["after"], state["errors"]); got != "4 10 8 3" {
		t.Errorf("n, before, after, errors = %s, want 4 10 8 3", got)
	}
}

// TestCallsInOrderCanceled: a call that waits for earlier calls ends with the run.
func TestCallsInOrderCanceled(t *testing.T) {
	e := testenv.New(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	tools := []tool.Tool{
		&testTool{name: "stuck", capabilities: tool.Capabilities{WritesState: true}, run: func(ctx context.Context, _ *tool.Call) (*tool.Result, error) {
			cancel()
			<-ctx.Done()
			return nil, ctx.Err()
		}},
		&testTool{name: "count", run: countCall},
	}
	deployApp(t, e, runtime.NewLLM("a", &runtime.LLMOptions{Model: toolCallModel("stuck", "count", "count"), Tools: tools}), nil)
	key := e.Session(t, "app", "s", nil)
	var last error
	for _, err := range e.Host.Run(ctx, userMessage(key, "go")) {
		last = err
	}
	if last == nil || runtime.AsRunError(last).Code != runtime.CodeCanceled {
		t.Errorf("Run = %v, want %s", last, runtime.CodeCanceled)
	}
}

// TestCallsCost: what an answer's calls cost grows with their number, not with its square, whether
// they share one key or write one each, set or updated.
func TestCallsCost(t *testing.T) {
	tools := []tool.Tool{
		&testTool{name: "one", run: countCall},
		&testTool{name: "each", run: func(ctx context.Context, call *tool.Call) (*tool.Result, error) {
			call.State.Set(call.ID, strings.Repeat("x", 1000))
			return countCall(ctx, call)
		}},
		&testTool{name: "update", run: func(_ context.Context, call *tool.Call) (*tool.Result, error) {
			err := call.State.Update(session.StateUpdate{Key: "n", Verb: session.UpdateAdd, Value: int64(1)})
			return nil, err
		}},
	}
	for _, name := range []string{"one", "each", "update"} {
		t.Run(name, func(t *testing.T) {
			const few, many = 100, 400
			cost := func(calls int) uint64 {
				config := oneWorker()
				config.MaxFunctionCalls = calls
				names := slices.Repeat([]string{name}, calls)
				var before, after goruntime.MemStats
				goruntime.ReadMemStats(&before)
				state := runCalls(t, &runtime.LLMOptions{Model: toolCallModel(names...), Tools: tools}, config)
				goruntime.ReadMemStats(&after)
				if state["n"] != int64(calls) {
					t.Errorf("n = %v, want %d", state["n"], calls)
				}
				return after.TotalAlloc - before.TotalAlloc
			}
			fewCost, manyCost := cost(few), cost(many)
			if manyCost > 2*many/few*fewCost {
				t.Errorf("%d calls allocate %d bytes, and %d calls %d", few, fewCost, many, manyCost)
			}
		})
	}
}
