package tool

import (
	"context"

	"google.golang.org/genai"
)

// TransferToAgent names the tool with which a model transfers the conversation.
const TransferToAgent = "transfer_to_agent"

// NewTransfer returns the tool transfer_to_agent, with which a model transfers the conversation to
// a target, or to any agent if there are no targets. The tool only records the transfer (adk-python
// tools/transfer_to_agent_tool.py).
func NewTransfer(targets []string) Tool {
	name := map[string]any{"type": "string", "description": "The agent to transfer to."}
	if len(targets) > 0 {
		enum := make([]any, len(targets))
		for i, target := range targets {
			enum[i] = target
		}
		name["enum"] = enum
	}
	reason := map[string]any{"type": "string", "description": "Why that agent continues, and what it is to do. It reads this in the conversation, and does not transfer back for the same reason."}
	return &transferTool{&genai.FunctionDeclaration{
		Name: TransferToAgent,
		Description: "Transfers the conversation to another agent, which answers the user instead of you. " +
			"Use it when the description of that agent fits the question better.",
		ParametersJsonSchema: map[string]any{
			"type": "object", "properties": map[string]any{"agent_name": name, "transfer_reason": reason}, "required": []any{"agent_name"},
		},
	}}
}

type transferTool struct{ decl *genai.FunctionDeclaration }

// Declaration implements [Tool].
func (t *transferTool) Declaration() *genai.FunctionDeclaration { return t.decl }

// Run records the transfer. The only possible error is about the arguments.
func (t *transferTool) Run(ctx context.Context, call *Call) (*Result, error) {
	params, err := TextParams(t.decl)
	if err != nil {
		return nil, err
	}
	if _, err := params.Check(ctx, call.Args); err != nil {
		return nil, err
	}
	call.Actions.TransferToAgent, _ = call.Args["agent_name"].(string)
	return NewResult(nil), nil
}
