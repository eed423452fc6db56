package runtime_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genai"

	"agenthost/internal/testenv"
	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
	"agenthost/pkg/store"
	"agenthost/pkg/tool"
	"agenthost/pkg/tool/declare"
)

// searchMemories returns the texts that a search finds, joined by bars.
func searchMemories(t *testing.T, e *testenv.Env, key session.Key, query string) string {
	t.Helper()
	ms, err := e.Store.Memories.Search(t.Context(), key.App, key.User, store.MemoryQuery{Text: query})
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	for _, m := range ms {
		texts = append(texts, m.Text())
	}
	return strings.Join(texts, "|")
}

func addSessionToMemory(ctx context.Context, m *runtime.CallbackContext) (*genai.Content, error) {
	return nil, m.Memories.AddSession(ctx)
}

// A callback adds all the session's stored events, including those outside the run's window. A tool
// can add memories without a session.
func TestCallbackAddsMemory(t *testing.T) {
	e := testenv.New(t, nil)
	key := e.Session(t, "app", "s", nil)
	note, err := declare.Func("note", "", func(ctx context.Context, call *tool.Call, _ struct{}) (any, error) {
		err := call.Memories.Add(ctx, &session.Memory{Content: model.UserText("word of the tool")})
		return nil, errors.Join(err, call.Memories.AddEvents(ctx, nil))
	})
	if err != nil {
		t.Fatal(err)
	}
	agent := runtime.NewLLM("keeper", &runtime.LLMOptions{Tools: []tool.Tool{note}})
	agent.Callbacks.AfterAgent = []runtime.AgentFunc{addSessionToMemory}
	one := 1
	config := runtime.DefaultRunConfig()
	config.SessionWindow = &runtime.SessionWindow{NumRecentEvents: &one}
	deployApp(t, e, agent, &runtime.AppOptions{Model: toolCallModel("note"), Config: &config})
	formatRun(e.Host.Run(t.Context(), userMessage(key, "word one")))
	formatRun(e.Host.Run(t.Context(), userMessage(key, "word two")))
	want := "word of the tool|word two|word of the tool|word one"
	if diff := cmp.Diff(want, searchMemories(t, e, key, "word")); diff != "" {
		t.Errorf("remembered (-want +got):\n%s", diff)
	}
}

// An agent that is called as a tool searches the caller's memories, but its own
// run is not added, because it is not a conversation with the user.
func TestAgentToolRunNotInMemory(t *testing.T) {
	e := testenv.New(t, nil)
	key := e.Session(t, "app", "s", nil)
	var found int
	look := func(ctx context.Context, m *runtime.CallbackContext) (*genai.Content, error) {
		ms, err := m.Memories.Search(ctx, "word")
		found = len(ms)
		return nil, errors.Join(err, m.Memories.AddSession(ctx), m.Memories.AddEvents(ctx, m.Session().Events()))
	}
	inner := runtime.NewLLM("helper", &runtime.LLMOptions{Model: textModel("inner word")})
	inner.Callbacks.AfterAgent = []runtime.AgentFunc{look}
	agentTool := runtime.NewAgentTool(inner, nil)
	root := runtime.NewLLM("root", &runtime.LLMOptions{Tools: []tool.Tool{agentTool}})
	deployApp(t, e, root, &runtime.AppOptions{Model: modelFunc(func(_ context.Context, req *model.Request) (*genai.Content, error) {
		if len(model.ResponsesOf(req.Contents[len(req.Contents)-1])) > 0 {
			return model.ModelText("done"), nil
		}
		return &genai.Content{Role: genai.RoleModel, Parts: []*genai.Part{{FunctionCall: &genai.FunctionCall{
			Name: "helper", Args: map[string]any{"request": "write a word"},
		}}}}, nil
	}), Plugins: []*runtime.Plugin{runtime.NewAddToMemory(slog.New(slog.DiscardHandler))}})
	if err := e.Store.Memories.Add(t.Context(), key.App, key.User, &session.Memory{Content: model.UserText("old word")}); err != nil {
		t.Fatal(err)
	}
	formatRun(e.Host.Run(t.Context(), userMessage(key, "word one")))
	if found != 1 {
		t.Errorf("the inner agent found %d memories, want 1", found)
	}
	if diff := cmp.Diff("word one|old word", searchMemories(t, e, key, "word")); diff != "" {
		t.Errorf("remembered (-want +got):\n%s", diff)
	}
}

// A failure to add memories is only logged, because the answer is already sent.
func TestAddToMemoryError(t *testing.T) {
	e := testenv.New(t, nil)
	key := e.Session(t, "app", "s", nil)
	var log bytes.Buffer
	ctx, cancel := context.WithCancel(t.Context())
	deployApp(t, e, runtime.NewLLM("keeper", nil), &runtime.AppOptions{
		Model:   textModel("done"),
		Plugins: []*runtime.Plugin{{Name: "first", AfterRun: func(context.Context, *runtime.Invocation) error { cancel(); return nil }}, runtime.NewAddToMemory(slog.New(slog.NewTextHandler(&log, nil)))},
	})
	if got := formatRun(e.Host.Run(ctx, userMessage(key, "word"))); got != "keeper: done\n" {
		t.Errorf("run = %s", got)
	}
	const want = `level=WARN msg="adding run to memory failed" app=app revision="" session=s invocation=e-`
	if !strings.Contains(log.String(), want) || !strings.Contains(log.String(), "context canceled") {
		t.Errorf("log = %s, want %s", &log, want)
	}
}
