package runtime_test

import (
	"context"
	"fmt"
	"testing"

	"google.golang.org/genai"

	"agenthost/internal/testenv"
	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
	"agenthost/pkg/tool"
)

// TestStateValuesCopied: what Go code reads of the state is its own. It may change it side by side
// with others, and only Set writes: a value changed in place would otherwise be in this host's
// memory and in no event.
func TestStateValuesCopied(t *testing.T) {
	e := testenv.New(t, nil)
	key := e.Session(t, "app", "s", map[string]any{"basket": map[string]any{"n": 1, "things": []any{"egg"}}})
	spoil := func(s tool.State) {
		for range 100 {
			basket, _ := s.Get("basket")
			basket.(map[string]any)["n"] = 2
			basket.(map[string]any)["things"].([]any)[0] = "stone"
			s.All()["basket"].(map[string]any)["n"] = 3
		}
	}
	var tools []tool.Tool
	for _, name := range []string{"f", "g"} {
		tools = append(tools, &testTool{name: name, run: func(_ context.Context, call *tool.Call) (*tool.Result, error) {
			spoil(call.State)
			call.State.Set(name, map[string]any{"x": 1})
			own, _ := call.State.Get(name)
			own.(map[string]any)["x"] = 2
			return nil, nil
		}})
	}
	before := runtime.Callbacks{BeforeAgent: []runtime.AgentFunc{func(_ context.Context, m *runtime.CallbackContext) (*genai.Content, error) {
		spoil(m.State)
		return nil, nil
	}}}
	deployApp(t, e, runtime.NewLLM("a", &runtime.LLMOptions{Model: toolCallModel("f", "g"), Tools: tools, Callbacks: before}), nil)
	for _, err := range e.Host.Run(t.Context(), &runtime.RunRequest{App: key.App, UserID: key.User, SessionID: key.ID, Message: model.UserText("go")}) {
		if err != nil {
			t.Fatal(err)
		}
	}
	sess, err := e.Store.Sessions.Get(t.Context(), key, nil)
	if err != nil {
		t.Fatal(err)
	}
	wantAll(t, sess, "map[basket:map[n:1 things:[egg]] f:map[x:1] g:map[x:1]]")
}

func wantAll(t *testing.T, sess *session.Session, want string) {
	t.Helper()
	if got := fmt.Sprint(sess.State.All()); got != want {
		t.Errorf("state = %s, want %s", got, want)
	}
}
