package runtime_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"google.golang.org/genai"

	"agenthost/internal/testenv"
	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
	"agenthost/pkg/tool"
)

// panickingAgent returns an agent that yields an event and then panics.
func panickingAgent(name string) runtime.Agent {
	return &testAgent{Base: runtime.Base{AgentName: name}, run: func(_ context.Context, inv *runtime.Invocation) runtime.Events {
		return func(yield func(*session.Event, error) bool) {
			ev := inv.NewEvent()
			ev.Content = model.ModelText("now")
			if yield(ev, nil) {
				panic("nil map")
			}
		}
	}}
}

// panickingTrees returns trees with panicking code and the expected run.
func panickingTrees() []struct {
	name string
	root runtime.Agent
	want string
} {
	panicking := modelFunc(func(context.Context, *model.Request) (*genai.Content, error) { panic("nil map") })
	waiting := func(name string) runtime.Agent {
		return runtime.NewLLM(name, &runtime.LLMOptions{Model: modelFunc(func(ctx context.Context, _ *model.Request) (*genai.Content, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		})})
	}
	early := &testAgent{Base: runtime.Base{AgentName: "early"}, run: func(context.Context, *runtime.Invocation) runtime.Events { panic("nil map") }}
	hooked := func(c runtime.Callbacks) runtime.Agent {
		f := &testTool{name: "f", run: func(context.Context, *tool.Call) (*tool.Result, error) { return nil, nil }}
		return runtime.NewLLM("a", &runtime.LLMOptions{Model: toolCallModel("f"), Tools: []tool.Tool{f}, Callbacks: c})
	}
	type row = struct {
		name string
		root runtime.Agent
		want string
	}
	return []row{
		{"agent", panickingAgent("a"), "a: now\nerror AGENT_FAILED: agent a panicked\n"},
		{"agent before its first event", early, "error AGENT_FAILED: agent early panicked\n"},
		{"agent in a sequence", runtime.NewSequential("s", "", panickingAgent("a"), waiting("b")), "a: now\nerror AGENT_FAILED: agent a panicked\n"},
		{"agent in parallel with others", runtime.NewParallel("p", "", waiting("b"), panickingAgent("a"), waiting("c")), "a: now\nerror AGENT_FAILED: agent a panicked\n"},
		{"model", runtime.NewLLM("a", &runtime.LLMOptions{Model: panicking}), "a: MODEL_FAILED\nerror MODEL_FAILED: model answering failed: it panicked\n"},
		{
			"model in parallel with others", runtime.NewParallel("p", "", waiting("b"), runtime.NewLLM("a", &runtime.LLMOptions{Model: panicking})),
			"a: MODEL_FAILED\nerror MODEL_FAILED: model answering failed: it panicked\n",
		},
		{
			"callback of the agent", hooked(runtime.Callbacks{BeforeAgent: []runtime.AgentFunc{
				func(context.Context, *runtime.CallbackContext) (*genai.Content, error) { panic("nil map") },
			}}), "error CALLBACK_FAILED: before_agent of agent a failed: it panicked\n",
		},
		{
			"callback of the tool", hooked(runtime.Callbacks{AfterTool: []runtime.AfterToolFunc{
				func(context.Context, tool.Tool, *tool.Call, *tool.Result) (*tool.Result, error) { panic("nil map") },
			}}), "a: call f\na: f map[error:after_tool of agent a failed: it panicked]\nerror CALLBACK_FAILED: after_tool of agent a failed: it panicked\n",
		},
		{
			"tool in parallel with others", runtime.NewLLM("a", &runtime.LLMOptions{Model: toolCallModel("f", "g"), Tools: []tool.Tool{
				&testTool{name: "f", run: func(context.Context, *tool.Call) (*tool.Result, error) { panic("nil map") }},
				&testTool{name: "g", run: func(context.Context, *tool.Call) (*tool.Result, error) { return nil, nil }},
			}}), "a: call f call g\na: f map[error:tool f panicked] g map[result:<nil>]\na: done\n",
		},
	}
}

// TestPanicContained: every panic is reported as its origin's failure, ends at most its run, and
// releases the session.
func TestPanicContained(t *testing.T) {
	for _, tt := range panickingTrees() {
		t.Run(tt.name, func(t *testing.T) {
			e := testenv.New(t, nil)
			key := e.Session(t, "app", "s", nil)
			deployApp(t, e, tt.root, nil)
			if diff := cmp.Diff(tt.want, formatRun(e.Host.Run(t.Context(), userMessage(key, "go")))); diff != "" {
				t.Errorf("Run() (-want +got):\n%s", diff)
			}
			wantSessionFree(t, e, key)
		})
	}
}

// TestPanicOutsideAgents: a panic in the runtime's own code, here in the log handler on all of a
// run's goroutines, ends that run with an error, is logged with its stack, and leaves the session
// free. Without a recover on each goroutine the process ends here.
func TestPanicOutsideAgents(t *testing.T) {
	const internal = "error INTERNAL: internal error: see the host's log\n"
	for _, tt := range []struct {
		tree, span, want string
	}{
		{"llm", "invocation", internal},
		{"llm", "invoke_agent a", internal},
		{"llm", "generate_content answering", internal},
		{"llm", "execute_tool f", "internal error"},
		{"sequence", "invoke_agent a", internal},
		{"parallel", "invoke_agent a", "error AGENT_FAILED: agent a panicked\n"},
		{"parallel", "invoke_agent c", "error AGENT_FAILED: agent c panicked\n"},
		{"parallel", "execute_tool f", "panicked"},
		{"workflow", "invoke_agent b", "error AGENT_FAILED: agent b panicked\n"},
		{"loop", "invoke_agent a", internal},
	} {
		t.Run(tt.tree+" "+tt.span, func(t *testing.T) {
			var log bytes.Buffer
			opts := testenv.NewTracing(panickingSpans{tt.span})
			opts.Logger = slog.New(panickingHandler{slog.NewTextHandler(&log, nil)})
			e := testenv.New(t, opts)
			key := e.Session(t, "app", "s", nil)
			deployApp(t, e, multiEventTrees(t)[tt.tree], nil)
			if got := formatRun(e.Host.Run(t.Context(), userMessage(key, "go"))); !strings.Contains(got, tt.want) {
				t.Errorf("Run() =\n%s\nwant %s", got, tt.want)
			}
			if !strings.Contains(log.String(), "stress_panic_test.go") || !strings.Contains(log.String(), "panic=\"nil map\"") {
				t.Errorf("log %s\nhas no panic with its stack", log.String())
			}
			wantSessionFree(t, e, key)
		})
	}
}

// panickingSpans is a span processor that panics when a span with this name ends.
type panickingSpans struct{ name string }

func (panickingSpans) OnStart(context.Context, sdktrace.ReadWriteSpan) {}
func (panickingSpans) Shutdown(context.Context) error                  { return nil }
func (panickingSpans) ForceFlush(context.Context) error                { return nil }

func (p panickingSpans) OnEnd(s sdktrace.ReadOnlySpan) {
	if s.Name() == p.name {
		panic("span processor")
	}
}

// panickingHandler is a log handler that panics when the host logs a span processor's panic.
type panickingHandler struct{ slog.Handler }

func (h panickingHandler) Handle(ctx context.Context, r slog.Record) error {
	if r.Message == "ending a span panicked" {
		panic("nil map")
	}
	return h.Handler.Handle(ctx, r)
}

func (h panickingHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return panickingHandler{h.Handler.WithAttrs(attrs)}
}

// TestPanicInConsumer: a panic in the consumer is not the agent's failure. It propagates, the
// session is released, and no goroutine leaks.
func TestPanicInConsumer(t *testing.T) {
	trees := multiEventTrees(t)
	trees["one of another kind"] = panickingAgent("a")
	for name, root := range trees {
		t.Run(name, func(t *testing.T) {
			e := testenv.New(t, nil)
			key := e.Session(t, "app", "s", nil)
			deployApp(t, e, root, nil)
			func() {
				defer func() {
					if got := recover(); got != "mine" {
						t.Errorf("recovered %v, want the consumer's own panic", got)
					}
				}()
				for range e.Host.Run(t.Context(), userMessage(key, "go")) {
					panic("mine")
				}
			}()
			wantSessionFree(t, e, key)
		})
	}
}

// multiEventTrees returns trees with several events from each agent kind.
func multiEventTrees(t *testing.T) map[string]runtime.Agent {
	t.Helper()
	f := &testTool{name: "f", run: func(context.Context, *tool.Call) (*tool.Result, error) { return nil, nil }}
	worker := func(name string) runtime.Agent {
		return runtime.NewLLM(name, &runtime.LLMOptions{Model: toolCallModel("f", "f"), Tools: []tool.Tool{f}, OutputKey: name})
	}
	flow, err := runtime.NewWorkflow("flow", &runtime.WorkflowOptions{
		Nodes: []runtime.Agent{worker("a"), worker("b"), worker("c"), runtime.NewJoin("both", "")},
		Edges: []runtime.Edge{{From: runtime.Start, To: 0}, {From: runtime.Start, To: 1}, {From: 0, To: 2}, {From: 1, To: 3}, {From: 2, To: 3}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return map[string]runtime.Agent{
		"llm":      worker("a"),
		"sequence": runtime.NewSequential("s", "", worker("a"), worker("b")),
		"parallel": runtime.NewParallel("p", "", worker("a"), worker("b"), runtime.NewParallel("q", "", worker("c"), worker("d"))),
		"loop":     runtime.NewLoop("l", &runtime.LoopOptions{SubAgents: []runtime.Agent{worker("a")}, MaxIterations: new(3)}),
		"workflow": flow,
	}
}

// TestConsumerStopsAtEachEvent: a consumer can stop at any event. The events that
// it received are stored, and the session is released immediately.
func TestConsumerStopsAtEachEvent(t *testing.T) {
	for name, root := range multiEventTrees(t) {
		t.Run(name, func(t *testing.T) {
			e := testenv.New(t, nil)
			deployApp(t, e, root, nil)
			total := len(runUntilEvent(t, e, e.Session(t, "app", "whole", nil), 1<<20))
			if total < 3 {
				t.Fatalf("the run has %d events, want some to leave at", total)
			}
			for n := 1; n <= total; n++ {
				key := e.Session(t, "app", fmt.Sprint("left", n), nil)
				seen := runUntilEvent(t, e, key, n)
				wantSessionFree(t, e, key)
				sess, err := e.Store.Sessions.Get(t.Context(), key, nil)
				if err != nil {
					t.Fatal(err)
				}
				var stored []string
				for _, ev := range sess.Events()[1:] {
					stored = append(stored, ev.ID)
				}
				if diff := cmp.Diff(seen, stored); diff != "" {
					t.Errorf("left at event %d (-seen +stored):\n%s", n, diff)
				}
			}
		})
	}
}

// runUntilEvent stops a run at the nth event, and returns the received events' IDs.
func runUntilEvent(t *testing.T, e *testenv.Env, key session.Key, n int) []string {
	t.Helper()
	var ids []string
	for ev, err := range e.Host.Run(t.Context(), userMessage(key, "go")) {
		if err != nil {
			t.Fatal(err)
		}
		if ids = append(ids, ev.ID); len(ids) == n {
			break
		}
	}
	return ids
}
