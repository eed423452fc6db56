package protocol

import (
	"errors"
	"testing"

	"google.golang.org/genai"

	"agenthost/pkg/runtime"
	"agenthost/pkg/server"
	"agenthost/pkg/tool"
)

func approval(tool, hint string, args map[string]any) *genai.FunctionCall {
	return &genai.FunctionCall{ID: "c", Name: runtime.RequestConfirmation, Args: map[string]any{
		"originalFunctionCall": map[string]any{"id": "o", "name": tool, "args": args}, "toolConfirmation": map[string]any{"hint": hint, "confirmed": false},
	}}
}

func credential(address string) *genai.FunctionCall {
	return &genai.FunctionCall{ID: "c", Name: runtime.RequestCredential, Args: map[string]any{"authConfig": map[string]any{
		"exchangedAuthCredential": map[string]any{"oauth2": map[string]any{"authUri": address, "userCode": "AB-CD"}},
	}}}
}

func input(schema map[string]any) *genai.FunctionCall {
	args := map[string]any{"message": "Where to?"}
	if schema != nil {
		args["response_schema"] = schema
	}
	return &genai.FunctionCall{ID: "c", Name: tool.RequestInput, Args: args}
}

// A question's words show what runs, and a message that answers it becomes the response that the
// call waits for.
func TestQuestions(t *testing.T) {
	choice := &genai.FunctionCall{ID: "c", Name: tool.UserChoice, Args: map[string]any{"options": []any{"Green", "Black"}}}
	street := map[string]any{"type": "object", "properties": map[string]any{"street": map[string]any{"type": "string"}}, "required": []any{"street"}}
	for _, c := range []struct {
		call           *genai.FunctionCall
		text, in, want string
	}{
		{approval("pay", "", map[string]any{"sum": 5}), "Approve the call of pay?\n\n`{\"sum\":5}`\n\nAnswer yes or no.", " YES. ", `{"confirmed":true}`},
		{approval("pay", "Really?\u202e", nil), "Really?\\u202e\n\nAnswer yes or no.", "no", `{"confirmed":false}`},
		{approval("pay", "Really?", nil), "Really?\n\nAnswer yes or no.", `{"confirmed": true}`, `{"confirmed":true}`},
		{approval("pay", "Really?", nil), "Really?\n\nAnswer yes or no.", "yes, but less", "the message does not answer the question"},
		{choice, "Choose one:\n\n1. Green\n2. Black", "green", `{"result":"Green"}`},
		{choice, "Choose one:\n\n1. Green\n2. Black", "2)", `{"result":"Black"}`},
		{choice, "Choose one:\n\n1. Green\n2. Black", "3", "the message does not answer the question"},
		{input(nil), "Where to?", "Tea Street", `{"result":"Tea Street"}`},
		{input(nil), "Where to?", " ", "the message does not answer the question"},
		{input(map[string]any{"type": "integer"}), "Where to?", "7", `{"result":7}`},
		{input(street), "Where to?\n\nAnswer with JSON that matches `{\"properties\":{\"street\":{\"type\":\"string\"}},\"required\":[\"street\"],\"type\":\"object\"}`.", `{"street": "Tea"}`, `{"street":"Tea"}`},
		{credential("https://id.example/authorize"), "Give your permission at https://id.example/authorize with the code AB-CD, then answer done.", "done", `{}`},
		{credential("javascript:alert(1)"), "", "", ""},
		{&genai.FunctionCall{Name: "slow"}, "", "", ""},
	} {
		q := NewQuestion(c.call)
		if q == nil {
			if c.text != "" {
				t.Errorf("%s is not a question", c.call.Name)
			}
			continue
		}
		if q.Text != c.text {
			t.Errorf("got the question %q, want %q", q.Text, c.text)
		}
		if got := answer(t, q, c.in); got != c.want {
			t.Errorf("%q: got %s, want %s", c.in, got, c.want)
		}
	}
}

// answer returns the response to a message in JSON, or the error.
func answer(t *testing.T, q *Question, text string) string {
	t.Helper()
	response, err := q.ReadAnswer(t.Context(), text)
	if err != nil {
		if !errors.Is(err, ErrNotAnAnswer) {
			t.Fatal(err)
		}
		return err.Error()
	}
	got, err := server.EncodeJSON(response)
	if err != nil {
		t.Fatal(err)
	}
	return string(got)
}

// A value that does not match the schema is named.
func TestWrongValue(t *testing.T) {
	q := NewQuestion(input(map[string]any{"type": "integer"}))
	_, err := q.ReadAnswer(t.Context(), "seven")
	if !errors.Is(err, ErrNotAnAnswer) {
		t.Fatal(err)
	}
}
