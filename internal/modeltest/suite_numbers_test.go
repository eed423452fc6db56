package modeltest_test

import (
	"context"
	"strings"
	"testing"

	"google.golang.org/genai"

	"agenthost/internal/number/numbertest"
	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
	"agenthost/pkg/tool"
)

// echoTool returns its arguments. Its schema has a number that a float64 rounds.
type echoTool struct{}

func (echoTool) Declaration() *genai.FunctionDeclaration {
	return &genai.FunctionDeclaration{Name: "echo", Description: "Echoes.", ParametersJsonSchema: map[string]any{
		"type": "object", "properties": map[string]any{"limit": map[string]any{"type": "integer", "enum": []any{int64(9007199254740995)}}},
	}}
}

func (echoTool) Run(_ context.Context, c *tool.Call) (*tool.Result, error) {
	return &tool.Result{Response: map[string]any{"echo": c.Args}}, nil
}

// A number that the model writes reaches the tool, the events and the next request with all its
// digits, and so do numbers in a tool's result and in its schema.
func testNumbers(t *testing.T, s *suiteSubject) {
	args, err := session.DecodeMap([]byte(numbertest.Object))
	if err != nil {
		t.Fatal(err)
	}
	bothModes(t, func(t *testing.T, stream bool) {
		llm, w := s.build(t, suiteReply{calls: []*genai.FunctionCall{{ID: "call_n", Name: "echo", Args: args}}}, suiteReply{text: []string{"done"}})
		a := newSuiteApp(t, llm, runtime.LLMOptions{Tools: []tool.Tool{echoTool{}}})
		var onPartial func()
		if stream {
			onPartial = func() {}
		}
		if events, err := a.runTurn(t.Context(), "count", onPartial); err != nil {
			t.Fatalf("Run() = %q, %v", events, err)
		}
		stored, err := a.store.Sessions.Get(t.Context(), a.key, nil)
		if err != nil {
			t.Fatal(err)
		}
		text, err := stored.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		numbertest.Check(t, "stored events", string(text), 2)
		if !s.local {
			numbertest.Check(t, "request", w.lastRequest(t), 2)
			if !strings.Contains(w.lastRequest(t), "9007199254740995") {
				t.Errorf("the schema of the request has no 9007199254740995: %s", w.lastRequest(t))
			}
		}
	})
}
