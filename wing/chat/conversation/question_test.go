package conversation

import (
	"encoding/json"
	"strings"
	"testing"

	"google.golang.org/genai"

	"agenthost/internal/terminal"
	"agenthost/pkg/runtime"
	"agenthost/pkg/tool"
)

// TestParseAnswer checks that a line is parsed as JSON if the schema accepts that,
// otherwise as a string.
func TestParseAnswer(t *testing.T) {
	input := func(schema any) *genai.FunctionCall {
		return &genai.FunctionCall{Name: tool.RequestInput, Args: map[string]any{"message": "Well?", "response_schema": schema}}
	}
	text := input(map[string]any{"type": "string"})
	choice := &genai.FunctionCall{Name: tool.UserChoice, Args: map[string]any{"options": []any{"1", "two"}}}
	credential := &genai.FunctionCall{Name: runtime.RequestCredential, Args: map[string]any{"authConfig": map[string]any{}}}
	other := &genai.FunctionCall{Name: "order"}
	for _, c := range []struct {
		call       *genai.FunctionCall
		line, want string
	}{
		{other, `at sea`, `{"result":"at sea"}`},
		{other, `12`, `{"result":"12"}`},
		{other, `["a"]`, `{"result":"[\"a\"]"}`},
		{other, `{"at": "sea"}`, `{"at":"sea"}`},
		{other, `{"at"`, `the answer starts like a JSON object but is not valid JSON: `},
		{input(nil), `true`, `{"result":"true"}`},
		{input(map[string]any{"type": "boolean"}), `true`, `{"result":true}`},
		{input(map[string]any{"type": "boolean"}), `yes`, `invalid answer: got string, want boolean`},
		{input(map[string]any{"type": "array", "items": map[string]any{"type": "integer"}}), `[1, 2]`, `{"result":[1,2]}`},
		{input(map[string]any{"type": "object"}), `{"a": 1}`, `{"a":1}`},
		{input(map[string]any{}), `12`, `{"result":12}`},
		{input(map[string]any{"type": "OBJECT"}), `so`, `{"result":"so"}`},
		{text, `12`, `{"result":"12"}`},
		{text, `"12"`, `{"result":"12"}`},
		{text, `{"a": 1}`, `{"result":"{\"a\": 1}"}`},
		{choice, `1`, `{"result":"1"}`},
		{choice, `3`, `invalid answer: value must be one of '1', 'two'`},
		{credential, `key`, `invalid answer: got string, want object`},
		{credential, `{"apiKey": "k"}`, `invalid answer: missing property 'exchangedAuthCredential'`},
		{credential, `{"exchangedAuthCredential": {"apiKey": "k"}}`, `{"exchangedAuthCredential":{"apiKey":"k"}}`},
	} {
		response, got := newQuestion(c.call, nil).parseLine(c.line)
		if response != nil {
			b, err := json.Marshal(response)
			if err != nil {
				t.Fatal(err)
			}
			got = string(b)
		}
		if !strings.HasPrefix(got, c.want) || response != nil && got != c.want {
			t.Errorf("%s: answer %s is parsed as %s, want %s", terminal.CompactJSON(c.call.Args), c.line, got, c.want)
		}
	}
}

// TestApprovalWithFields: a request for approval with fields, such as an MCP server's question, also
// takes a JSON object as the fields; one without them takes only yes or no.
func TestApprovalWithFields(t *testing.T) {
	question := map[string]any{"mcp_elicitation": map[string]any{"message": "Where?"}, "content": map[string]any{"city": nil}}
	for _, tt := range []struct {
		payload            any
		line, want, prompt string
	}{
		{question, `{"city": "Bern"}`, `{"confirmed":true,"payload":{"city":"Bern"}}`, `approve book({})? [y/n, or the answer as JSON, such as {"city":null}] `},
		{question, `{"city"`, `the answer starts like a JSON object but is not valid JSON: `, ""},
		{question, "n", `{"confirmed":false}`, ""},
		{map[string]any{"amount": 3}, `{"amount": 2}`, `{"confirmed":true,"payload":{"amount":2}}`, `approve book({})? [y/n, or the answer as JSON, such as {"amount":3}] `},
		{nil, `{"amount": 2}`, "", "approve book({})? [y/n] "},
		{map[string]any{}, `{}`, "", "approve book({})? [y/n] "},
	} {
		q := approvalQuestion(&runtime.ApprovalRequest{Tool: "book", Args: map[string]any{}, Payload: tt.payload})
		response, got := q.parseLine(tt.line)
		if response != nil {
			got = terminal.CompactJSON(response)
		}
		if !strings.HasPrefix(got, tt.want) || tt.want == "" && got != "" || tt.prompt != "" && q.prompt != tt.prompt {
			t.Errorf("%v, %s: %s, prompt %q, want %s, %q", tt.payload, tt.line, got, q.prompt, tt.want, tt.prompt)
		}
	}
}
