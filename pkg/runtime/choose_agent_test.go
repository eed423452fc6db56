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

// TestAnswerOnBranch: after an answer, an agent in a ParallelAgent continues on its own branch,
// where it does not see its siblings' events (semantics 1.5, 2.5).
func TestAnswerOnBranch(t *testing.T) {
	asks := &testTool{name: "pay", run: func(_ context.Context, call *tool.Call) (*tool.Result, error) {
		if call.Confirmation == nil {
			call.RequestConfirmation("", nil)
			return nil, nil
		}
		return &tool.Result{Response: map[string]any{"paid": true}}, nil
	}}
	seen := ""
	payer := modelFunc(func(_ context.Context, req *model.Request) (*genai.Content, error) {
		seen = ""
		for _, c := range req.Contents {
			seen += model.TextOf(c) + "\n"
		}
		return toolCallModel("pay")(t.Context(), req)
	})
	e := testenv.New(t, nil)
	deployApp(t, e, runtime.NewParallel("both", "",
		runtime.NewLLM("payer", &runtime.LLMOptions{Model: payer, Tools: []tool.Tool{asks}}),
		runtime.NewLLM("other", &runtime.LLMOptions{Model: textModel("from the sibling")}),
	), nil)
	key := e.Session(t, "app", "s", nil)
	formatRun(e.Host.Run(t.Context(), userMessage(key, "go")))
	req := &runtime.RunRequest{App: key.App, UserID: key.User, SessionID: key.ID}
	req.Message = answerOpenCall(t, e, key, `{"answer": "adk_request_confirmation", "response": {"confirmed": true}}`)
	var events []*session.Event
	for ev, err := range e.Host.Run(t.Context(), req) {
		if err != nil {
			t.Fatal(err)
		}
		events = append(events, ev)
	}
	if len(events) != 2 {
		t.Fatalf("the answer led to %d events, want the tool's answer and the agent's", len(events))
	}
	for _, ev := range events {
		if ev.Branch != "both.payer" {
			t.Errorf("%s is on branch %q, want both.payer", formatEvent(ev), ev.Branch)
		}
	}
	if strings.Contains(seen, "sibling") {
		t.Errorf("the model sees the sibling's events:\n%s", seen)
	}
}
