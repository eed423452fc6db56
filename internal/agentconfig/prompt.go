package agentconfig

import (
	"context"
	"errors"
	"maps"
	"slices"

	"agenthost/pkg/runtime"
	"agenthost/pkg/spec"
	"agenthost/pkg/tool"
)

// A PromptRef refers to an MCP server's prompt, which is an agent's instruction.
type PromptRef struct {
	Server spec.Text            `yaml:"server" required:"true" doc:"The tool under tools in app.yaml that names the MCP server."`
	Name   string               `yaml:"name" required:"true" doc:"The name of the prompt on the server."`
	Args   map[string]spec.Text `yaml:"args" doc:"Arguments of the prompt; {key} is replaced by the value in the session state. Other arguments are the state keys with their names."`

	// Node is where the document names the server.
	Node *spec.Node `yaml:"-"`
}

// argTexts returns the arguments in name order.
func (r *PromptRef) argTexts() []spec.Text {
	var texts []spec.Text
	for _, name := range slices.Sorted(maps.Keys(r.Args)) {
		texts = append(texts, r.Args[name])
	}
	return texts
}

// instructionText is an instruction's YAML: a string, or an MCP server's prompt.
type instructionText struct {
	spec.Text
	prompt *PromptRef
}

type promptInstruction struct {
	Prompt *PromptRef `yaml:"mcp_prompt" required:"true" doc:"The prompt of an MCP server that is the instruction."`
}

// DecodeSpec accepts both forms.
func (t *instructionText) DecodeSpec(n *spec.Node) spec.Diagnostics {
	if n.Get("mcp_prompt") == nil { // also {name}, text without quotes
		return t.Text.DecodeSpec(n)
	}
	var c promptInstruction
	ds := spec.Decode(n, &c)
	if t.prompt = c.Prompt; t.prompt != nil {
		t.prompt.Node = n.Get("mcp_prompt").Get("server")
	}
	return ds
}

// SchemaSpec describes both forms.
func (*instructionText) SchemaSpec() map[string]any {
	text := map[string]any{"type": "string"}
	return map[string]any{"title": "string, or [mcp_prompt](mcp.md#prompts)", "anyOf": []any{text, map[string]any{
		"type": "object", "additionalProperties": false, "required": []string{"mcp_prompt"},
		"properties": map[string]any{"mcp_prompt": map[string]any{
			"type": "object", "additionalProperties": false, "required": []string{"server", "name"},
			"properties": map[string]any{"server": text, "name": text, "args": map[string]any{"type": "object", "additionalProperties": text}},
		}},
	}}}
}

// newPromptProvider returns the function that loads a prompt as an agent's instruction.
func newPromptProvider(ref *PromptRef, from tool.PromptSource) runtime.InstructionFunc {
	args := map[string]*runtime.Instruction{}
	for name, text := range ref.Args {
		args[name] = newInstructionAt(text)
	}
	return func(ctx context.Context, inv *runtime.Invocation) (string, error) {
		values := map[string]string{}
		for name, text := range args {
			value, err := text.Render(ctx, inv)
			if err != nil {
				return "", err
			}
			values[name] = value
		}
		text, err := from.LoadPrompt(ctx, inv.NewSetCall(), &tool.PromptRequest{Name: ref.Name, Args: values})
		var runErr *runtime.RunError
		if err != nil && ctx.Err() == nil && !errors.As(err, &runErr) {
			return "", &runtime.RunError{Code: runtime.CodeToolFailed, Message: "instruction of agent " + inv.Agent().Name() + ": " + spec.ClientText(err), Err: err}
		}
		return text, err
	}
}
