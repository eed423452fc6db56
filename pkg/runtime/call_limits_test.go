package runtime_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/genai"

	"agenthost/internal/testenv"
	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
	"agenthost/pkg/tool"
)

// manyCallsModel returns n calls to f in one response.
func manyCallsModel(n int) modelFunc {
	names := make([]string, n)
	for i := range names {
		names[i] = "f"
	}
	return toolCallModel(names...)
}

// TestFunctionCallsLimit: a response with more calls than max_function_calls ends the
// run with an event that answers each call with an error; none is executed.
func TestFunctionCallsLimit(t *testing.T) {
	for _, tt := range []struct {
		calls  int
		config *runtime.RunConfig
		want   string
	}{
		{128, nil, ""},
		{129, nil, "error TOOL_CALLS_LIMIT: 129 function calls in one answer of agent a exceed the limit of 128 (run_config: max_function_calls)\n"},
		{3, &runtime.RunConfig{MaxFunctionCalls: 2}, "error TOOL_CALLS_LIMIT: 3 function calls in one answer of agent a exceed the limit of 2 (run_config: max_function_calls)\n"},
		{2, &runtime.RunConfig{MaxFunctionCalls: 2}, ""},
	} {
		t.Run(fmt.Sprint(tt.calls, " of ", tt.config), func(t *testing.T) {
			e := testenv.New(t, nil)
			key := e.Session(t, "app", "s", nil)
			var executed atomic.Int64
			f := &testTool{name: "f", run: func(context.Context, *tool.Call) (*tool.Result, error) {
				executed.Add(1)
				return nil, nil
			}}
			deployApp(t, e, runtime.NewLLM("a", &runtime.LLMOptions{Model: manyCallsModel(tt.calls), Tools: []tool.Tool{f}}), &runtime.AppOptions{Config: tt.config})
			got := formatRun(e.Host.Run(t.Context(), userMessage(key, "go")))
			if tt.want == "" {
				if n := executed.Load(); n != int64(tt.calls) || !strings.HasSuffix(got, "a: done\n") {
					t.Errorf("%d calls were executed, and the run ended with %s, want all and done", n, got[max(0, len(got)-200):])
				}
				return
			}
			if n := executed.Load(); n != 0 || !strings.HasSuffix(got, tt.want) {
				t.Errorf("%d calls were executed, and the run ended with %s, want none and %s", n, got[max(0, len(got)-300):], tt.want)
			}
			sess, err := e.Store.Sessions.Get(t.Context(), key, nil)
			if err != nil {
				t.Fatal(err)
			}
			events := sess.Events()
			last := events[len(events)-1]
			if last.ErrorCode != runtime.CodeToolCallsLimit || len(last.Responses()) != tt.calls {
				t.Errorf("the last event has the code %q and %d responses, want %s and %d", last.ErrorCode, len(last.Responses()), runtime.CodeToolCallsLimit, tt.calls)
			}
		})
	}
}

// TestFunctionCallsLimitInAnswer: an answer that its provider ended at max_function_calls
// ends the run with the same code. Its calls are not stored, so that the next request has
// neither calls without responses nor responses without calls.
func TestFunctionCallsLimitInAnswer(t *testing.T) {
	for _, streams := range []runtime.StreamingMode{runtime.StreamingNone, runtime.StreamingSSE} {
		e := testenv.New(t, nil)
		key := e.Session(t, "app", "s", nil)
		ended := false
		m := func(ctx context.Context, req *model.Request) (*genai.Content, error) {
			if !ended {
				ended = true
				return nil, &model.CallsLimitError{Limit: req.MaxCalls}
			}
			return echoRequest(ctx, req)
		}
		f := &testTool{name: "f", run: func(context.Context, *tool.Call) (*tool.Result, error) { return nil, nil }}
		config := &runtime.RunConfig{MaxFunctionCalls: 2, StreamingMode: streams}
		deployApp(t, e, runtime.NewLLM("a", &runtime.LLMOptions{Model: modelFunc(m), Tools: []tool.Tool{f}}), &runtime.AppOptions{Config: config})
		got := formatRun(e.Host.Run(t.Context(), userMessage(key, "go")))
		if want := "TOOL_CALLS_LIMIT: the function calls in one answer of model answering exceed the limit of 2 (run_config: max_function_calls)"; !strings.Contains(got, want) {
			t.Errorf("Run() = %s, want %s", got, want)
		}
		sess, err := e.Store.Sessions.Get(t.Context(), key, nil)
		if err != nil {
			t.Fatal(err)
		}
		events := sess.Events()
		if last := events[len(events)-1]; len(events) != 2 || last.ErrorCode != runtime.CodeToolCallsLimit || last.Content != nil {
			t.Errorf("%d events are stored, the last one with %q and %v, want 2, %s and no content", len(events), last.ErrorCode, last.Content, runtime.CodeToolCallsLimit)
		}
		got = formatRun(e.Host.Run(t.Context(), userMessage(key, "again")))
		if want := "a: <user: go><user: again>\n"; !strings.HasSuffix(got, want) {
			t.Errorf("the next turn = %s, want %s", got, want)
		}
	}
}

// TestToolWorkers: at most 8 calls in a response, or tool_thread_pool_config, run at the same time;
// on the whole host, at most one per turn plus Options.ToolWorkers.
func TestToolWorkers(t *testing.T) {
	for _, tt := range []struct {
		name       string
		config     *runtime.RunConfig
		host, want int64
	}{
		{"default", nil, 0, 8},
		{"configured", &runtime.RunConfig{ToolThreadPoolConfig: &runtime.ToolPool{MaxWorkers: 20}}, 0, 20},
		{"one", &runtime.RunConfig{ToolThreadPoolConfig: &runtime.ToolPool{MaxWorkers: 1}}, 0, 1},
		{"host", &runtime.RunConfig{ToolThreadPoolConfig: &runtime.ToolPool{MaxWorkers: 20}}, 3, 4},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := testenv.New(t, &testenv.Options{ToolWorkers: int(tt.host)})
			key := e.Session(t, "app", "s", nil)
			var running, peak atomic.Int64
			full := make(chan struct{}) // closed when as many calls as wanted are running
			f := &testTool{name: "f", run: func(context.Context, *tool.Call) (*tool.Result, error) {
				n := running.Add(1)
				defer running.Add(-1)
				for old := peak.Load(); n > old && !peak.CompareAndSwap(old, n); old = peak.Load() {
				}
				if n == tt.want {
					select {
					case <-full:
					default:
						close(full)
					}
				}
				select {
				case <-full:
				case <-time.After(10 * time.Second):
				}
				return nil, nil
			}}
			deployApp(t, e, runtime.NewLLM("a", &runtime.LLMOptions{Model: manyCallsModel(100), Tools: []tool.Tool{f}}), &runtime.AppOptions{Config: tt.config})
			if got := formatRun(e.Host.Run(t.Context(), userMessage(key, "go"))); !strings.HasSuffix(got, "a: done\n") {
				t.Errorf("Run() = %s", got)
			}
			if peak.Load() != tt.want {
				t.Errorf("%d calls were executed at the same time, want %d", peak.Load(), tt.want)
			}
		})
	}
}

// TestToolWorkersFair: while one session's calls occupy all the host's workers, turns in other
// sessions still make progress, and agents that are called as tools cannot deadlock.
func TestToolWorkersFair(t *testing.T) {
	e := testenv.New(t, &testenv.Options{ToolWorkers: 2})
	slow, quick := e.Session(t, "app", "slow", nil), e.Session(t, "app", "quick", nil)
	held, release := make(chan struct{}, 100), make(chan struct{})
	f := &testTool{name: "f", run: func(_ context.Context, call *tool.Call) (*tool.Result, error) {
		if call.Origin.SessionID == "slow" {
			held <- struct{}{}
			<-release
		}
		return nil, nil
	}}
	inner := runtime.NewLLM("inner", &runtime.LLMOptions{Model: manyCallsModel(5), Tools: []tool.Tool{f}})
	deployApp(t, e, runtime.NewLLM("a", &runtime.LLMOptions{
		Model: modelFunc(func(ctx context.Context, req *model.Request) (*genai.Content, error) {
			c, err := toolCallModel("inner", "inner", "f", "inner")(ctx, req)
			for _, call := range model.CallsOf(c) {
				if call.Name == "inner" {
					call.Args = map[string]any{"request": "go"}
				}
			}
			return c, err
		}), Tools: []tool.Tool{f, runtime.NewAgentTool(inner, nil)},
	}), nil)
	ended := make(chan string, 1)
	go func() { ended <- formatRun(e.Host.Run(context.WithoutCancel(t.Context()), userMessage(slow, "go"))) }()
	for range 3 { // its own goroutine and both workers
		<-held
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if got := formatRun(e.Host.Run(ctx, userMessage(quick, "go"))); !strings.HasSuffix(got, "a: done\n") {
		t.Errorf("the other session: %s", got)
	}
	close(release)
	if got := <-ended; !strings.HasSuffix(got, "a: done\n") {
		t.Errorf("the session that held all workers: %s", got)
	}
}

// TestExpressionBudgetOfTurn: a turn's expressions share a budget. Calls that start after it is
// used up fail with an error; the next turn has a new budget. How many calls start before depends
// on the machine's load.
func TestExpressionBudgetOfTurn(t *testing.T) {
	calls := strings.TrimSuffix(strings.Repeat("{name: build}, ", 100), ", ")
	e := testenv.New(t, nil)
	e.Load(t, testenv.Files(t, "app", map[string][]byte{
		"root_agent.yaml":  []byte("name: a\nmodel: demo\ninstruction: x\ntools:\n  - expr: {name: build, value: \"len(map(1..60, repeat('x', 60000)))\"}\n"),
		"app.yaml":         []byte("models:\n  demo: {provider: scripted, script: demo.script.yaml}\n"),
		"demo.script.yaml": []byte("- {when: responses.build != nil, text: done}\n- {when: user == 'many', calls: [" + calls + "]}\n- {calls: [{name: build}]}\n"),
	}))
	key := e.Session(t, "app", "s", nil)
	const want = "this turn's expressions together exceed the limit of 128 MiB"
	got := formatRun(e.Host.Run(t.Context(), userMessage(key, "many")))
	if n := strings.Count(got, want); n < 10 || n > 90 {
		t.Errorf("%d of 100 calls failed with %q, want those beyond the budget: %s", n, want, got[max(0, len(got)-300):])
	}
	if got := formatRun(e.Host.Run(t.Context(), userMessage(key, "one"))); strings.Contains(got, want) || !strings.HasSuffix(got, "a: done\n") {
		t.Errorf("the next turn: %s", got[max(0, len(got)-300):])
	}
}

// TestMaxToolCalls: the calls of a run beyond RunRequest.MaxToolCalls are not executed, in the order in
// which the models made them and in agents called as tools too. The model reads an error, and may answer;
// if it only repeats such calls, the run ends. Without a limit, all calls are executed.
func TestMaxToolCalls(t *testing.T) {
	const refused = "TOOL_CALLS_LIMIT: the limit of 2 tool calls for this request is reached: answer without tools"
	stubborn := modelFunc(func(_ context.Context, req *model.Request) (*genai.Content, error) {
		n := 0
		for _, c := range req.Contents {
			n += len(model.CallsOf(c))
		}
		return &genai.Content{Role: genai.RoleModel, Parts: []*genai.Part{{FunctionCall: &genai.FunctionCall{ID: fmt.Sprint("c", n), Name: "f"}}}}, nil
	})
	for _, tt := range []struct {
		name            string
		model           modelFunc
		limit, executed int64
		want            string
	}{
		{"beyond the limit", manyCallsModel(3), 2, 2, "a: done\n"},
		{"within the limit", manyCallsModel(2), 2, 2, "a: done\n"},
		{"without a limit", manyCallsModel(3), 0, 3, "a: done\n"},
		{"repeated", stubborn, 2, 2, "error " + refused + "\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := testenv.New(t, nil)
			key := e.Session(t, "app", "s", nil)
			var executed atomic.Int64
			f := &testTool{name: "f", run: func(context.Context, *tool.Call) (*tool.Result, error) {
				executed.Add(1)
				return nil, nil
			}}
			deployApp(t, e, runtime.NewLLM("a", &runtime.LLMOptions{Model: tt.model, Tools: []tool.Tool{f}}), nil)
			req := userMessage(key, "go")
			req.MaxToolCalls = int(tt.limit)
			got := formatRun(e.Host.Run(t.Context(), req))
			if executed.Load() != tt.executed || !strings.HasSuffix(got, tt.want) {
				t.Errorf("%d calls were executed, and the run ended with %s, want %d and %s", executed.Load(), got, tt.executed, tt.want)
			}
			if isLimited := tt.executed == 2 && tt.name != "within the limit"; strings.Contains(got, "the limit of 2 tool calls") != isLimited {
				t.Errorf("the model reads the limit, want %v: %s", isLimited, got)
			}
		})
	}
}

// TestMaxToolCallsOfAgents: agents called as tools share the limit, a transfer and the client's own tools
// do not count.
func TestMaxToolCallsOfAgents(t *testing.T) {
	e := testenv.New(t, nil)
	e.Load(t, testenv.Files(t, "app", map[string][]byte{
		"root_agent.yaml": []byte("name: a\nmodel: demo\ninstruction: x\nsub_agents:\n  - name: b\n    model: demo\n    instruction: x\n    tools:\n      - agent: {config_path: inner.yaml}\n"),
		"inner.yaml":      []byte("name: inner\nmodel: demo\ndescription: d\ninstruction: x\ntools:\n  - expr: {name: f, value: '1'}\n"),
		"app.yaml":        []byte("models:\n  demo: {provider: scripted, script: demo.script.yaml}\n"),
		"demo.script.yaml": []byte("- {when: agent == 'a', calls: [{name: transfer_to_agent, args: {agent_name: b}}]}\n" +
			"- {when: agent == 'inner' && responses.f != nil, text: 'f {responses.f}'}\n" +
			"- {when: agent == 'inner', calls: [{name: f}, {name: f}]}\n" +
			"- {when: responses.inner != nil, text: '{responses.inner}'}\n" +
			"- {calls: [{name: inner, args: {request: go}}]}\n"),
	}))
	for limit, want := range map[int]string{0: `f {"result":1}`, 2: "the limit of 2 tool calls", 1: "the limit of 1 tool calls"} {
		key := e.Session(t, "app", fmt.Sprint("s", limit), nil)
		req := userMessage(key, "go")
		req.MaxToolCalls = limit
		if got := formatRun(e.Host.Run(t.Context(), req)); !strings.Contains(got, want) {
			t.Errorf("limit %d: %s, want %s", limit, got, want)
		}
	}
}

// TestInvalidMaxToolCalls: a negative limit is an error.
func TestInvalidMaxToolCalls(t *testing.T) {
	e := testenv.New(t, nil)
	key := e.Session(t, "app", "s", nil)
	deployApp(t, e, runtime.NewLLM("a", &runtime.LLMOptions{Model: manyCallsModel(1)}), nil)
	req := userMessage(key, "go")
	req.MaxToolCalls = -1
	if got, want := formatRun(e.Host.Run(t.Context(), req)), "error INVALID_REQUEST: MaxToolCalls must be at least 0, got -1\n"; got != want {
		t.Errorf("Run() = %s, want %s", got, want)
	}
}
