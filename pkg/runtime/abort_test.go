package runtime_test

import (
	"context"
	"strings"
	"testing"

	"google.golang.org/genai"

	"agenthost/internal/testenv"
	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
	"agenthost/pkg/tool"
)

// TestClientLeft: a run whose client left answers its open calls, or else stores an event
// with the reason. The session continues with the next message.
func TestClientLeft(t *testing.T) {
	for _, tt := range []struct {
		name       string
		inTool     bool
		clientLeft bool
		want       string
	}{
		{"in a tool", true, true, "a: slow map[error:This call was canceled because the client left.]"},
		{"in a model call", false, true, "a: INVOCATION_ABORTED"},
		{"the client is still there", true, false, "a: call slow"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := testenv.New(t, nil)
			key := e.Session(t, "app", "s", nil)
			ctx, leave := context.WithCancel(t.Context())
			slow := &testTool{name: "slow", run: func(ctx context.Context, _ *tool.Call) (*tool.Result, error) {
				leave()
				<-ctx.Done()
				return nil, ctx.Err()
			}}
			llm := modelFunc(func(ctx context.Context, req *model.Request) (*genai.Content, error) {
				if last := req.Contents[len(req.Contents)-1]; model.TextOf(last) == "again" {
					return model.ModelText("fine"), nil
				}
				if tt.inTool {
					return &genai.Content{Role: genai.RoleModel, Parts: []*genai.Part{{FunctionCall: &genai.FunctionCall{ID: "c", Name: "slow"}}}}, nil
				}
				leave()
				return nil, ctx.Err()
			})
			deployApp(t, e, runtime.NewLLM("a", &runtime.LLMOptions{Model: llm, Tools: []tool.Tool{slow}}), nil)
			req := userMessage(key, "go")
			req.ClientLeft = func() bool { return tt.clientLeft }
			for range e.Host.Run(ctx, req) {
			}
			events := abortedEvents(t, e, key)
			if got := formatEvent(events[len(events)-1]); got != tt.want {
				t.Errorf("the last event is %q, want %q", got, tt.want)
			}
			if got := formatRun(e.Host.Run(t.Context(), userMessage(key, "again"))); !strings.Contains(got, "a: fine") {
				t.Errorf("the next turn is %s", got)
			}
		})
	}
}

func abortedEvents(t *testing.T, e *testenv.Env, key session.Key) []*session.Event {
	t.Helper()
	sess, err := e.Store.Sessions.Get(t.Context(), key, nil)
	if err != nil {
		t.Fatal(err)
	}
	return sess.Events()
}

// TestClientLeftInTask: a task whose client left stays open, and its own open calls are
// answered in its scope. The next message continues it.
func TestClientLeftInTask(t *testing.T) {
	e := testenv.New(t, nil)
	key := e.Session(t, "app", "s", nil)
	ctx, leave := context.WithCancel(t.Context())
	slow := &testTool{name: "slow", run: func(ctx context.Context, _ *tool.Call) (*tool.Result, error) {
		leave()
		<-ctx.Done()
		return nil, ctx.Err()
	}}
	llm := modelFunc(func(_ context.Context, req *model.Request) (*genai.Content, error) {
		call := &genai.FunctionCall{ID: "task", Name: "order", Args: map[string]any{"request": "food"}}
		switch {
		case req.Origin.Agent == "order" && model.TextOf(req.Contents[len(req.Contents)-1]) == "again":
			return model.ModelText("Which?"), nil
		case req.Origin.Agent == "order":
			call = &genai.FunctionCall{ID: "c", Name: "slow"}
		}
		return &genai.Content{Role: genai.RoleModel, Parts: []*genai.Part{{FunctionCall: call}}}, nil
	})
	order := runtime.NewLLM("order", &runtime.LLMOptions{Mode: runtime.ModeTask, Tools: []tool.Tool{slow}})
	deployApp(t, e, runtime.NewLLM("boss", &runtime.LLMOptions{Model: llm, SubAgents: []runtime.Agent{order}}), nil)
	req := userMessage(key, "go")
	req.ClientLeft = func() bool { return true }
	for range e.Host.Run(ctx, req) {
	}
	events := abortedEvents(t, e, key)
	last := events[len(events)-1]
	if got := formatEvent(last); !strings.HasPrefix(got, "order: slow map[error:") || last.IsolationScope != "task" {
		t.Errorf("the last event is %q in the scope %q", got, last.IsolationScope)
	}
	if got := formatRun(e.Host.Run(t.Context(), userMessage(key, "again"))); !strings.Contains(got, "order: Which?") {
		t.Errorf("the next turn is %s", got)
	}
}
