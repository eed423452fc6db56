package builtin

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genai"

	"agenthost/internal/tooltest"
	"agenthost/pkg/model"
	"agenthost/pkg/spec"
	"agenthost/pkg/tool"
)

// TestExampleTool: each example has the roles once, and calls and responses in fences, which
// have a language unless the model is a Gemini 2. Messages without text get no examples.
func TestExampleTool(t *testing.T) {
	kind, _ := Builtins().Lookup("ExampleTool")
	n, ds := spec.Parse("args.yaml", []byte(`
examples:
  - input: {role: user, parts: [{text: Hi}]}
    output:
      - {role: model, parts: [{text: Hello!}]}
  - input: {parts: [{text: "Is it open?"}]}
    output:
      - role: model
        parts:
          - function_call: {name: hours, args: {place: "pool's", day: 1, all: true, list: [1.5, null], map: {a: b}}}
      - role: user
        parts:
          - function_response: {name: hours, response: {open: "7"}}
      - {role: model, parts: [{text: From 7.}, {text: Come!}]}
`))
	plan, more := kind.Decode(n)
	if err := append(ds, more...).Err(); err != nil {
		t.Fatal(err)
	}
	set, err := plan.Build(t.Context(), tooltest.NewEnv())
	if err != nil {
		t.Fatal(err)
	}
	edit := func(name, text string) string {
		req := &model.Request{Model: name, Config: &genai.GenerateContentConfig{}}
		if err := tooltest.OnlyTool(t, set).(tool.RequestEditor).EditRequest(t.Context(), &tool.Call{Origin: model.Origin{UserText: text}}, req); err != nil {
			t.Fatal(err)
		}
		return req.Instruction()
	}
	want := func(call, response string) string {
		return "<EXAMPLES>\nBegin few-shot\nThe following are examples of user queries and model responses using the available tools.\n\n" +
			"EXAMPLE 1:\nBegin example\n[user]\nHi\n[model]\nHello!\nEnd example\n\n" +
			"EXAMPLE 2:\nBegin example\n[user]\nIs it open?\n[model]\n" +
			"```" + call + "\nhours(all=True, day=1, list=[1.5, None], map={'a': 'b'}, place='pool's')\n```\n" +
			"[user]\n```" + response + "\n{\"open\":\"7\"}\n```\n[model]\nFrom 7.\nCome!\nEnd example\n\nEnd few-shot\n<EXAMPLES>"
	}
	for name, expected := range map[string]string{"": want("", ""), "gemini-2.5-flash": want("", ""), "gemini-3-pro": want("tool_code", "tool_outputs")} {
		if diff := cmp.Diff(expected, edit(name, "hi")); diff != "" {
			t.Errorf("model %q (-want +got):\n%s", name, diff)
		}
	}
	if got := edit("", ""); got != "" {
		t.Errorf("without text: %q", got)
	}
}
