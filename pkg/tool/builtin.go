package tool

import (
	"context"
	"fmt"
	"slices"
	"time"

	"google.golang.org/genai"

	"agenthost/pkg/model"
	"agenthost/pkg/spec"
)

// callToolArgs is the config of a built-in tool that runs in this process.
type callToolArgs struct {
	Call CallConfig `yaml:",inline"`
}

var _ StateConfig = (*callToolArgs)(nil)

// modelArgs is the config of a tool that runs inside the model's service: it
// takes no args in YAML.
type modelArgs struct{}

// DecodeSpec rejects confirm, since there is no call to confirm.
func (a *modelArgs) DecodeSpec(n *spec.Node) spec.Diagnostics {
	if at := n.Get("confirm"); at != nil {
		return spec.Diagnostics{at.Errorf("tool", "this tool runs inside the model's service: its calls cannot be confirmed").
			WithHint("remove confirm, or move the tool to a separate agent and set confirm on the tool that calls that agent")}
	}
	return spec.Decode(n, a)
}

// A callTool is a built-in tool whose only effect is on its call.
type callTool struct {
	declaration
	capabilities Capabilities
	run          func(*Call) *Result
}

// Capabilities returns whether the tool is long-running, and the settings of
// the document.
func (t *callTool) Capabilities() Capabilities { return t.capabilities }

// Run implements [Tool]. The only possible error is about the arguments.
func (t *callTool) Run(ctx context.Context, call *Call) (*Result, error) {
	if _, err := CheckArgs(ctx, t.decl, call.Args); err != nil {
		return nil, err
	}
	return t.run(call), nil
}

func newDeclaration(name, description string, schema map[string]any) declaration {
	decl := &genai.FunctionDeclaration{Name: name, Description: description}
	if schema != nil {
		decl.ParametersJsonSchema = schema
	}
	return declaration{decl}
}

// buildCallTool returns the builder of a set with one callTool.
func buildCallTool(build func() *callTool) func(context.Context, Env, *callToolArgs) (Set, error) {
	return func(_ context.Context, _ Env, c *callToolArgs) (Set, error) {
		t := build()
		caps, err := c.Call.Capabilities(t.decl)
		caps.LongRunning = t.capabilities.LongRunning
		t.capabilities = caps
		return One(t), err
	}
}

// buildModelTool returns the builder of a set with one tool of the model's
// service.
func buildModelTool(build func() Tool) func(context.Context, Env, *modelArgs) (Set, error) {
	return func(context.Context, Env, *modelArgs) (Set, error) { return One(build()), nil }
}

// newExitLoop ends the enclosing loop and skips the summary of the model
// (adk-python tools/exit_loop_tool.py).
func newExitLoop() *callTool {
	d := newDeclaration("exit_loop", "Exits the loop.\n\nCall this function only when you are instructed to do so.", nil)
	return &callTool{declaration: d, run: func(call *Call) *Result {
		call.Actions.Escalate = true
		call.Actions.SkipSummarization = true
		return NewResult(nil)
	}}
}

// NewTransfer returns the tool transfer_to_agent, with which a model transfers
// the conversation to one of the targets, or to any agent if there are no
// targets. The tool only records the transfer (adk-python
// tools/transfer_to_agent_tool.py).
func NewTransfer(targets []string) Tool { return newTransfer(targets) }

func newTransfer(targets []string) *callTool {
	name := map[string]any{"type": "string", "description": "The agent to transfer to."}
	if len(targets) > 0 {
		enum := make([]any, len(targets))
		for i, target := range targets {
			enum[i] = target
		}
		name["enum"] = enum
	}
	reason := map[string]any{"type": "string", "description": "Why that agent continues, and what it is to do. It reads this in the conversation, and does not transfer back for the same reason."}
	d := newDeclaration("transfer_to_agent",
		"Transfers the conversation to another agent, which answers the user instead of you. "+
			"Use it when the description of that agent fits the question better.",
		objectSchema(map[string]any{"agent_name": name, "transfer_reason": reason}, "agent_name"))
	return &callTool{declaration: d, run: func(call *Call) *Result {
		call.Actions.TransferToAgent, _ = call.Args["agent_name"].(string)
		return NewResult(nil)
	}}
}

func newAnyTransfer() *callTool { return newTransfer(nil) }

// newUserChoice asks the user to choose; the client responds later (adk-python
// tools/get_user_choice_tool.py).
func newUserChoice() *callTool {
	d := newDeclaration(UserChoice, "Asks the user to choose one of the options.",
		objectSchema(map[string]any{"options": stringListSchema("The options to choose from.")}, "options"))
	d.addPendingNote()
	return &callTool{declaration: d, capabilities: Capabilities{LongRunning: true}, run: func(call *Call) *Result {
		call.Actions.SkipSummarization = true
		return nil
	}}
}

// RequestInput is the function name in calls of ADK's tool request_input. Their
// arguments are message and optionally response_schema.
const RequestInput = "adk_request_input"

// UserChoice is the tool that asks the user to choose one of its argument
// options.
const UserChoice = "get_user_choice"

// newInputRequest asks the user a question; the client responds later. Clients
// recognize the calls by their function name, which differs from the name of
// the tool (adk-python tools/_request_input_tool.py).
func newInputRequest() *callTool {
	d := newDeclaration(RequestInput, "Asks the user a question. Use it when information that you need is missing or unclear.",
		objectSchema(map[string]any{
			"message":         map[string]any{"type": "string", "description": "The question."},
			"response_schema": map[string]any{"type": "object", "description": `A JSON Schema of the answer, such as {"type": "string"} or {"type": "boolean"}.`},
		}, "message"))
	d.addPendingNote()
	return &callTool{declaration: d, capabilities: Capabilities{LongRunning: true}, run: func(*Call) *Result { return nil }}
}

func stringListSchema(description string) map[string]any {
	return map[string]any{"type": "array", "items": map[string]any{"type": "string"}, "description": description}
}

// A modelTool runs inside the model's service: it is never called, only enabled
// in every request.
type modelTool struct {
	declaration
	isEnabled func(*genai.Tool) bool
	newTool   func() *genai.Tool
}

// Capabilities marks the tool as built in: it is not offered as a function.
func (t *modelTool) Capabilities() Capabilities { return Capabilities{RequestOnly: true} }

// IsModelTool reports whether a tool runs inside of the service of Gemini models, which other
// models do not have.
func IsModelTool(t Tool) bool {
	_, ok := t.(*modelTool)
	return ok
}

// Run always fails: the tool runs inside the model's service.
func (t *modelTool) Run(context.Context, *Call) (*Result, error) {
	return nil, fmt.Errorf("%s runs inside the model's service and cannot be called", t.decl.Name)
}

// EditRequest enables the tool, once.
func (t *modelTool) EditRequest(_ context.Context, _ *Call, req *model.Request) error {
	if slices.ContainsFunc(req.Config.Tools, t.isEnabled) {
		return nil
	}
	// The list may be shared with other requests.
	req.Config.Tools = append(slices.Clip(req.Config.Tools), t.newTool())
	return nil
}

func newGoogleSearch() Tool {
	return &modelTool{
		declaration: newDeclaration("google_search", "", nil),
		isEnabled:   func(t *genai.Tool) bool { return t.GoogleSearch != nil },
		newTool:     func() *genai.Tool { return &genai.Tool{GoogleSearch: &genai.GoogleSearch{}} },
	}
}

func newURLContext() Tool {
	return &modelTool{
		declaration: newDeclaration("url_context", "", nil),
		isEnabled:   func(t *genai.Tool) bool { return t.URLContext != nil },
		newTool:     func() *genai.Tool { return &genai.Tool{URLContext: &genai.URLContext{}} },
	}
}

func newGoogleMaps() Tool {
	return &modelTool{
		declaration: newDeclaration("google_maps_grounding", "", nil),
		isEnabled:   func(t *genai.Tool) bool { return t.GoogleMaps != nil },
		newTool:     func() *genai.Tool { return &genai.Tool{GoogleMaps: &genai.GoogleMaps{}} },
	}
}

func newEnterpriseSearch() Tool {
	return &modelTool{
		declaration: newDeclaration("enterprise_web_search", "", nil),
		isEnabled:   func(t *genai.Tool) bool { return t.EnterpriseWebSearch != nil },
		newTool:     func() *genai.Tool { return &genai.Tool{EnterpriseWebSearch: &genai.EnterpriseWebSearch{}} },
	}
}

// A CallConfig is the YAML of the call settings of built-in tools and agent
// tools.
type CallConfig struct {
	OnError string        `yaml:"on_error" enum:"return|fail" default:"return" doc:"Whether an error is returned to the model or ends the invocation."`
	Timeout spec.Duration `yaml:"timeout" doc:"Maximum duration of a call."`
	Confirm spec.Expr     `yaml:"confirm" doc:"Whether a call requires confirmation by a person (human-in-the-loop): true, or an expression over args, state, user, session, run_config, invocation and agent."`
}

// Capabilities returns the settings for a tool with this declaration. The error
// is a [spec.Diagnostics].
func (c *CallConfig) Capabilities(decl *genai.FunctionDeclaration) (Capabilities, error) {
	confirm, err := CompileConfirm(c.Confirm, decl)
	return Capabilities{Timeout: time.Duration(c.Timeout), FailOnError: c.OnError == "fail", Confirm: confirm}, err
}

// StateUse returns the condition of the confirmation.
func (c *callToolArgs) StateUse(*spec.Node) StateUse { return ConfirmUse(c.Call.Confirm) }
