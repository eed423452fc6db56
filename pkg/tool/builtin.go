package tool

import (
	"context"
	"fmt"
	"slices"

	"google.golang.org/genai"

	"agenthost/pkg/model"
	"agenthost/pkg/spec"
)

// A callArgs is the config of a built-in tool that is called here.
type callToolArgs struct {
	Call CallConfig `yaml:",inline"`
}

// A modelArgs is the config of a tool that the model's service carries out: it
// takes no args in YAML.
type modelArgs struct{}

// DecodeSpec says why there is no confirm.
func (a *modelArgs) DecodeSpec(n *spec.Node) spec.Diagnostics {
	if at := n.Get("confirm"); at != nil {
		return spec.Diagnostics{at.Errorf("tool", "the model's service carries this tool out by itself: there is no call that a person could approve").
			WithHint("leave confirm out, or put the tool into an agent of its own and confirm on the tool that calls that agent")}
	}
	return spec.Decode(n, a)
}

// A callTool is a built-in tool that only acts on its call.
type callTool struct {
	declaration
	capabilities Capabilities
	run          func(*Call) *Result
}

// Capabilities says whether it is answered later, and which calls a person approves.
func (t *callTool) Capabilities() Capabilities { return t.capabilities }

// Run implements [Tool]. Only the arguments can be wrong.
func (t *callTool) Run(_ context.Context, call *Call) (*Result, error) {
	if _, err := CheckArgs(t.decl, call.Args); err != nil {
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

// buildCallTool makes a builder of a set with one tool that acts on its calls.
func buildCallTool(build func() *callTool) func(context.Context, Env, *callToolArgs) (Set, error) {
	return func(_ context.Context, _ Env, c *callToolArgs) (Set, error) {
		t := build()
		caps, err := c.Call.Capabilities(t.decl)
		caps.LongRunning = t.capabilities.LongRunning
		t.capabilities = caps
		return One(t), err
	}
}

// buildModelTool makes a builder of a set with one tool of the model's service.
func buildModelTool(build func() Tool) func(context.Context, Env, *modelArgs) (Set, error) {
	return func(context.Context, Env, *modelArgs) (Set, error) { return One(build()), nil }
}

// newExitLoop ends the loop around the agent, and the model phrases nothing
// about it (adk-python tools/exit_loop_tool.py).
func newExitLoop() *callTool {
	d := newDeclaration("exit_loop", "Ends the loop. Call it only when you were told to.", nil)
	return &callTool{declaration: d, run: func(call *Call) *Result {
		call.Actions.Escalate = true
		call.Actions.SkipSummarization = true
		return newResult(nil)
	}}
}

// NewTransfer makes the tool transfer_to_agent, with which a model hands the
// conversation to one of the targets; without targets it takes any name. It
// only records the wish (adk-python tools/transfer_to_agent_tool.py).
func NewTransfer(targets []string) Tool { return newTransfer(targets) }

func newTransfer(targets []string) *callTool {
	name := map[string]any{"type": "string", "description": "The agent that is to go on."}
	if len(targets) > 0 {
		enum := make([]any, len(targets))
		for i, target := range targets {
			enum[i] = target
		}
		name["enum"] = enum
	}
	d := newDeclaration("transfer_to_agent",
		"Hands the conversation over to another agent, which answers the user in your place. "+
			"Use it when that agent fits the question better by its description.",
		objectSchema(map[string]any{"agent_name": name}, "agent_name"))
	return &callTool{declaration: d, run: func(call *Call) *Result {
		call.Actions.TransferToAgent, _ = call.Args["agent_name"].(string)
		return newResult(nil)
	}}
}

func newAnyTransfer() *callTool { return newTransfer(nil) }

// newUserChoice asks the user to pick; the client answers later (adk-python
// tools/get_user_choice_tool.py).
func newUserChoice() *callTool {
	d := newDeclaration(UserChoice, "Shows the options to the user and asks for one of them.",
		objectSchema(map[string]any{"options": stringListSchema("The options to choose from.")}, "options"))
	d.addPendingNote()
	return &callTool{declaration: d, capabilities: Capabilities{LongRunning: true}, run: func(call *Call) *Result {
		call.Actions.SkipSummarization = true
		return nil
	}}
}

// RequestInput is the name of the calls of ADK's tool request_input. Their
// arguments are message and, if the model wants, response_schema.
const RequestInput = "adk_request_input"

// UserChoice is the tool with which a model has the user pick one of its
// argument options.
const UserChoice = "get_user_choice"

// newInputRequest asks the user in free words; the client answers later. Clients
// know its calls by their name, which is not the tool's (adk-python
// tools/_request_input_tool.py).
func newInputRequest() *callTool {
	d := newDeclaration(RequestInput, "Asks the user a question. Use it when something that you need is missing or unclear.",
		objectSchema(map[string]any{
			"message":         map[string]any{"type": "string", "description": "The question."},
			"response_schema": map[string]any{"type": "object", "description": `A JSON Schema of the answer, such as {"type": "string"} or {"type": "boolean"}.`},
		}, "message"))
	d.addPendingNote()
	return &callTool{declaration: d, capabilities: Capabilities{LongRunning: true}, run: func(*Call) *Result { return nil }}
}

func objectSchema(props map[string]any, required ...any) map[string]any {
	schema := map[string]any{"type": "object", "properties": props}
	if len(required) > 0 {
		schema["required"] = required
	}
	return schema
}

func stringListSchema(description string) map[string]any {
	return map[string]any{"type": "array", "items": map[string]any{"type": "string"}, "description": description}
}

// A modelTool is carried out by the model's own service: it is never called,
// only switched on in every request.
type modelTool struct {
	declaration
	isEnabled func(*genai.Tool) bool
	newTool   func() *genai.Tool
}

// Capabilities says that the tool is no function.
func (t *modelTool) Capabilities() Capabilities { return Capabilities{Builtin: true} }

// Run always fails: the model's service carries the tool out.
func (t *modelTool) Run(context.Context, *Call) (*Result, error) {
	return nil, fmt.Errorf("%s is carried out by the model's service and cannot be called", t.decl.Name)
}

// EditRequest switches the tool on, once.
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
