// Package builtin provides the tools that need no connection to a service: expressions, and ADK's
// built-in tools that only affect their call, the request or the session.
package builtin

import (
	"context"

	"google.golang.org/genai"

	"agenthost/internal/toolconfig"
	"agenthost/pkg/spec"
	"agenthost/pkg/tool"
	"agenthost/pkg/tool/declare"
)

// Kinds lists the tool kinds that need nothing besides this package.
func Kinds() spec.Kinds[tool.Env, tool.Set] {
	return spec.Kinds[tool.Env, tool.Set]{
		spec.NewKind("expr", "Computes its result with an expression.", newExpr),
	}
}

// Builtins lists ADK's built-in tools, which documents name by `name:`.
func Builtins() spec.Kinds[tool.Env, tool.Set] {
	return spec.Kinds[tool.Env, tool.Set]{
		spec.NewKind("enterprise_web_search", "Lets models on Vertex AI use enterprise web search.", buildModelTool(newEnterpriseSearch)),
		spec.NewKind("ExampleTool", "Adds examples of conversations to the instruction of each model request.", newExampleTool),
		spec.NewKind("exit_loop", "Lets the model exit the enclosing loop.", buildCallTool(newExitLoop)),
		spec.NewKind("get_user_choice", "Asks the user to pick one of several options.", buildCallTool(newUserChoice)),
		spec.NewKind("google_maps_grounding", "Lets the model ground its answer in Google Maps.", buildModelTool(newGoogleMaps)),
		spec.NewKind("google_search", "Lets the model search with Google.", buildModelTool(newGoogleSearch)),
		spec.NewKind("load_artifacts", "Lets the model load the session's artifacts.", newLoadArtifacts),
		spec.NewKind("load_memory", "Lets the model search earlier conversations.", newLoadMemory),
		spec.NewKind("preload_memory", "Adds excerpts from earlier conversations that match the user's message to each model request.", newPreloadMemory),
		spec.NewKind("request_input", "Asks the user a question, answered in free text or by a schema; models call it adk_request_input.", buildCallTool(newInputRequest)),
		spec.NewKind("transfer_to_agent", "Transfers the conversation to another agent.", buildCallTool(newAnyTransfer)),
		spec.NewKind("url_context", "Lets the model read the URLs in the conversation.", buildModelTool(newURLContext)),
	}
}

// modelArgs configures a tool that runs inside the model's service: it takes no args in YAML.
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
	toolconfig.Declarer
	capabilities tool.Capabilities
	run          func(*tool.Call) *tool.Result
}

// Capabilities returns whether the tool is long-running, and the document's settings.
func (t *callTool) Capabilities() tool.Capabilities { return t.capabilities }

// Run implements [tool.Tool]. The only possible error is about the arguments.
func (t *callTool) Run(ctx context.Context, call *tool.Call) (*tool.Result, error) {
	if _, err := declare.CheckArgs(ctx, t.Declaration(), call.Args); err != nil {
		return nil, err
	}
	return t.run(call), nil
}

// buildCallTool returns the builder for a set with one callTool.
func buildCallTool(build func() *callTool) func(context.Context, tool.Env, *toolconfig.BuiltinConfig) (tool.Set, error) {
	return func(_ context.Context, _ tool.Env, c *toolconfig.BuiltinConfig) (tool.Set, error) {
		t := build()
		caps, err := c.Call.Capabilities(t.Declaration())
		caps.LongRunning = t.capabilities.LongRunning
		t.capabilities = caps
		return tool.One(t), err
	}
}

// buildModelTool returns the builder for a set with one tool in the model's service.
func buildModelTool(build func() tool.Tool) func(context.Context, tool.Env, *modelArgs) (tool.Set, error) {
	return func(context.Context, tool.Env, *modelArgs) (tool.Set, error) { return tool.One(build()), nil }
}

// newExitLoop ends the enclosing loop and skips the model's summary (adk-python
// tools/exit_loop_tool.py).
func newExitLoop() *callTool {
	d := toolconfig.NewDeclarer("exit_loop", "Exits the loop.\n\nCall this function only when you are instructed to do so.", nil)
	return &callTool{Declarer: d, run: func(call *tool.Call) *tool.Result {
		call.Actions.Escalate = true
		call.Actions.SkipSummarization = true
		return tool.NewResult(nil)
	}}
}

// newAnyTransfer is transfer_to_agent without an agent list, with a call's settings.
func newAnyTransfer() *callTool {
	return &callTool{Declarer: toolconfig.Declarer{Decl: tool.NewTransfer(nil).Declaration()}, run: func(call *tool.Call) *tool.Result {
		call.Actions.TransferToAgent, _ = call.Args["agent_name"].(string)
		return tool.NewResult(nil)
	}}
}

// newUserChoice asks the user to choose; the client responds later (adk-python
// tools/get_user_choice_tool.py).
func newUserChoice() *callTool {
	d := toolconfig.NewDeclarer(tool.UserChoice, "Asks the user to choose one of the options.",
		toolconfig.ObjectSchema(map[string]any{"options": toolconfig.StringListSchema("The options to choose from.")}, "options"))
	d.AddPendingNote()
	return &callTool{Declarer: d, capabilities: tool.Capabilities{LongRunning: true}, run: func(call *tool.Call) *tool.Result {
		call.Actions.SkipSummarization = true
		return nil
	}}
}

// newInputRequest asks the user a question; the client responds later. Clients recognize the calls
// by their function name, which differs from the tool's name (adk-python
// tools/_request_input_tool.py).
func newInputRequest() *callTool {
	d := toolconfig.NewDeclarer(tool.RequestInput, "Asks the user a question. Use it when information that you need is missing or unclear.",
		toolconfig.ObjectSchema(map[string]any{
			"message":         map[string]any{"type": "string", "description": "The question."},
			"response_schema": map[string]any{"type": "object", "description": `A JSON Schema of the answer, such as {"type": "string"} or {"type": "boolean"}.`},
		}, "message"))
	d.AddPendingNote()
	return &callTool{Declarer: d, capabilities: tool.Capabilities{LongRunning: true}, run: func(*tool.Call) *tool.Result { return nil }}
}

func newGoogleSearch() tool.Tool {
	return tool.NewModelTool("google_search",
		func(t *genai.Tool) bool { return t.GoogleSearch != nil },
		func() *genai.Tool { return &genai.Tool{GoogleSearch: &genai.GoogleSearch{}} })
}

func newURLContext() tool.Tool {
	return tool.NewModelTool("url_context",
		func(t *genai.Tool) bool { return t.URLContext != nil },
		func() *genai.Tool { return &genai.Tool{URLContext: &genai.URLContext{}} })
}

func newGoogleMaps() tool.Tool {
	return tool.NewModelTool("google_maps_grounding",
		func(t *genai.Tool) bool { return t.GoogleMaps != nil },
		func() *genai.Tool { return &genai.Tool{GoogleMaps: &genai.GoogleMaps{}} })
}

func newEnterpriseSearch() tool.Tool {
	return tool.NewModelTool("enterprise_web_search",
		func(t *genai.Tool) bool { return t.EnterpriseWebSearch != nil },
		func() *genai.Tool { return &genai.Tool{EnterpriseWebSearch: &genai.EnterpriseWebSearch{}} })
}
