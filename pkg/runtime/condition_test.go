package runtime_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"google.golang.org/genai"

	"agenthost/internal/testenv"
	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
	"agenthost/pkg/template"
	"agenthost/pkg/tool"
)

func newCondition(t *testing.T, source string) *runtime.Condition {
	t.Helper()
	c, err := runtime.NewCondition(source)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestConditionsOfGo: conditions that Go code compiles skip an agent, choose a route and end a
// loop, as YAML conditions do.
func TestConditionsOfGo(t *testing.T) {
	e := testenv.New(t, nil)
	guest := runtime.NewLLM("guest", &runtime.LLMOptions{Model: textModel("welcome")})
	if err := runtime.SetCondition(guest, newCondition(t, "state.vip == true")); err != nil {
		t.Fatal(err)
	}
	router := runtime.NewRouter("router", "",
		runtime.Route{When: newCondition(t, "state.open == true"), Agent: runtime.NewLLM("clerk", &runtime.LLMOptions{Model: textModel("open")})},
		runtime.Route{Agent: runtime.NewLLM("porter", &runtime.LLMOptions{Model: textModel("closed")})})
	loop := runtime.NewLoop("loop", &runtime.LoopOptions{
		Until:     newCondition(t, "state.count == 'twice'"),
		SubAgents: []runtime.Agent{runtime.NewLLM("counter", &runtime.LLMOptions{Model: countingModel("once", "twice", "three times"), OutputKey: "count"})},
	})
	deployApp(t, e, runtime.NewSequential("root", "", guest, router, loop), nil)
	key := e.Session(t, "app", "s", nil)
	got := formatRun(e.Host.Run(t.Context(), userMessage(key, "hi")))
	if want := "guest: \nporter: closed\ncounter: once\ncounter: twice\n"; got != want {
		t.Errorf("Run() = %q, want %q", got, want)
	}
	skipped := storedEvents(t, e, key)[1].Provenance.Skipped
	if want := "when: state.vip == true"; skipped != want {
		t.Errorf("skipped = %q, want %q", skipped, want)
	}
}

func storedEvents(t *testing.T, e *testenv.Env, key session.Key) []*session.Event {
	t.Helper()
	sess, err := e.Store.Sessions.Get(t.Context(), key, nil)
	if err != nil {
		t.Fatal(err)
	}
	return sess.Events()
}

// countingModel answers with one text after the other.
func countingModel(texts ...string) modelFunc {
	calls := 0
	return func(context.Context, *model.Request) (*genai.Content, error) {
		calls++
		return model.ModelText(texts[calls-1]), nil
	}
}

// TestInvalidCondition: the error has the problem's position.
func TestInvalidCondition(t *testing.T) {
	_, err := runtime.NewCondition("stat.x == 1")
	var te *template.Error
	if !errors.As(err, &te) || te.Offset != 0 || !strings.Contains(err.Error(), "unknown name stat") {
		t.Errorf("NewCondition() = %v", err)
	}
}

// TestPluginsOfGo: the built-in plugins work without YAML: models see only the last turn
// with the global instruction first, and get guidance when a tool fails.
func TestPluginsOfGo(t *testing.T) {
	e := testenv.New(t, nil)
	broken := &testTool{name: "f", run: func(context.Context, *tool.Call) (*tool.Result, error) { return nil, errors.New("no stock") }}
	var sizes []int
	llm := modelFunc(func(ctx context.Context, req *model.Request) (*genai.Content, error) {
		sizes = append(sizes, len(req.Contents))
		if !strings.HasPrefix(req.Instruction(), "Speak of ships.") {
			t.Errorf("instruction = %q", req.Instruction())
		}
		return toolCallModel("f")(ctx, req)
	})
	deployApp(t, e, runtime.NewLLM("a", &runtime.LLMOptions{Model: llm, Tools: []tool.Tool{broken}}), &runtime.AppOptions{Plugins: []*runtime.Plugin{
		runtime.NewContextFilter(1, nil),
		runtime.NewGlobalInstruction(runtime.NewInstruction("Speak of {topic}.", nil)),
		runtime.NewRetryAndReflect(1, &runtime.RetryAndReflectOptions{ContinueAfterRetries: true}),
		runtime.NewLogging(slog.New(slog.DiscardHandler), nil),
		runtime.NewSaveFilesAsArtifacts(),
	}})
	key := e.Session(t, "app", "s", map[string]any{"topic": "ships"})
	for range 2 {
		got := formatRun(e.Host.Run(t.Context(), userMessage(key, "hi")))
		if !strings.Contains(got, "retry_count:1") || !strings.HasSuffix(got, "a: done\n") {
			t.Errorf("Run() = %s", got)
		}
	}
	if want := []int{1, 3, 1, 3}; !slices.Equal(sizes, want) {
		t.Errorf("contents of the requests: %v, want %v", sizes, want)
	}
}

// TestRequireApproval: a Go callback makes a person approve a call.
func TestRequireApproval(t *testing.T) {
	e := testenv.New(t, nil)
	pay := &testTool{name: "f", run: func(context.Context, *tool.Call) (*tool.Result, error) { return nil, errors.New("ran") }}
	approve := func(_ context.Context, _ tool.Tool, call *tool.Call) (*tool.Result, error) {
		return runtime.RequireApproval(call, "Pay?"), nil
	}
	deployApp(t, e, runtime.NewLLM("a", &runtime.LLMOptions{
		Model: toolCallModel("f"), Tools: []tool.Tool{pay}, Callbacks: runtime.Callbacks{BeforeTool: []runtime.BeforeToolFunc{approve}},
	}), nil)
	key := e.Session(t, "app", "s", nil)
	formatRun(e.Host.Run(t.Context(), userMessage(key, "hi")))
	pending := runtime.Pending(storedEvents(t, e, key))
	if len(pending) != 1 {
		t.Errorf("pending = %v, want one request", pending)
	}
}
