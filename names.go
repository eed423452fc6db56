package agenthost

import (
	"context"
	"net/http"

	"google.golang.org/genai"

	"agenthost/pkg/loader"
	"agenthost/pkg/model"
	"agenthost/pkg/provider"
	"agenthost/pkg/runtime"
	"agenthost/pkg/server"
	"agenthost/pkg/session"
	"agenthost/pkg/spec"
	"agenthost/pkg/tool"
	"agenthost/pkg/tool/declare"
)

// Turns.
type (
	// RunRequest is one user turn.
	RunRequest = runtime.RunRequest
	// Events are what a turn yields; each event is stored before.
	Events = runtime.Events
	// Event is a message, a call or a response in a turn.
	Event = session.Event
)

// UserText returns a user message.
func UserText(text string) *genai.Content { return model.UserText(text) }

// Kinds and functions, which the apps may name.
type (
	// Kinds list all of a program's kinds.
	Kinds = loader.Kinds
	// ModelKind is a model provider, in Kinds.Models.
	ModelKind = spec.Kind[provider.Env, model.LLM]
	// ToolKind is a tool kind, in Kinds.Tools, or a built-in tool, in Kinds.Builtins.
	ToolKind = spec.Kind[tool.Env, tool.Set]
	// AgentKind is an agent class, in Kinds.Agents.
	AgentKind = spec.Kind[loader.AgentEnv, runtime.Agent]
	// PluginKind is a plugin in app.yaml, in Kinds.Plugins.
	PluginKind = spec.Kind[loader.PluginEnv, *runtime.Plugin]
	// Functions are Go functions that the apps may name.
	Functions = loader.Functions
)

// NewKind returns a kind that builds values from the config struct C, whose tags describe its
// YAML; see [spec.NewKind].
func NewKind[C, Env, T any](name, doc string, build func(context.Context, Env, *C) (T, error)) spec.Kind[Env, T] {
	return spec.NewKind(name, doc, build)
}

// Types for values in a config struct, besides Go's own.
type (
	// Text is a string with its position.
	Text = spec.Text
	// Secret is a string that may contain secrets.
	Secret = spec.Secret
	// Duration is written with units, such as 2s.
	Duration = spec.Duration
	// Size is a byte count, written with units, such as 4MiB.
	Size = spec.Size
	// Node is any YAML, with its position.
	Node = spec.Node
	// Diagnostics are problems at positions.
	Diagnostics = spec.Diagnostics
)

// Models.
type (
	// LLM is a model.
	LLM = model.LLM
	// ModelEnv is what a ModelKind's build function gets.
	ModelEnv = provider.Env
	// ModelRequest is what a model reads.
	ModelRequest = model.Request
	// ModelResponse is what a model answers, whole or in parts.
	ModelResponse = model.Response
)

// Tools.
type (
	// Tool is what a model can call.
	Tool = tool.Tool
	// ToolSet is what a ToolKind builds: tools that may change from turn to turn.
	ToolSet = tool.Set
	// ToolEnv is what a ToolKind's build function gets.
	ToolEnv = tool.Env
	// ToolCall is one call to a tool, with its session's state and artifacts.
	ToolCall = tool.Call
)

// NewTool returns a tool that calls a Go function, whose parameters are the fields of In; see
// [declare.Func].
func NewTool[In, Out any](name, description string, fn func(context.Context, *ToolCall, In) (Out, error)) (Tool, error) {
	return declare.Func(name, description, fn)
}

// OneTool returns a set with one tool.
func OneTool(t Tool) ToolSet { return tool.One(t) }

// Agents, callbacks and plugins.
type (
	// Agent runs in an invocation.
	Agent = runtime.Agent
	// AgentBase is embedded by an agent with a name, sub-agents, callbacks and when.
	AgentBase = runtime.Base
	// AgentEnv is what an AgentKind's build function gets.
	AgentEnv = loader.AgentEnv
	// AgentRef is the reference to another agent in a config struct, and ToolRef to a tool.
	AgentRef = loader.AgentRef
	ToolRef  = loader.ToolRef
	// CommonConfig is what each agent class has in YAML; a config struct includes it.
	CommonConfig = loader.CommonConfig
	// Invocation is the turn in which an agent runs.
	Invocation = runtime.Invocation
	// Callbacks run before and after agents, model calls and tool calls.
	Callbacks = runtime.Callbacks
	// AgentFunc is a callback before or after an agent.
	AgentFunc = runtime.AgentFunc
	// CallbackContext is a callback's invocation, with the writable state.
	CallbackContext = runtime.CallbackContext
	// Plugin has callbacks for all agents in an app.
	Plugin = runtime.Plugin
	// PluginEnv is what a PluginKind's build function gets.
	PluginEnv = loader.PluginEnv
)

// HTTP routes.
type (
	// ServerOptions configure the HTTP API.
	ServerOptions = server.Options
	// Services are what routes use from the server.
	Services = server.Services
	// Extension adds routes to a server.
	Extension = server.Extension
	// Route is one route, with its limits and its documentation.
	Route = server.Route
	// RouteLimits bound its requests, and RouteDoc is its documentation.
	RouteLimits = server.Limits
	RouteDoc    = server.Doc
)

// The callers who may use a route.
const (
	AccessUser   = server.AccessUser
	AccessPublic = server.AccessPublic
)

// NewError returns a route's error, with an HTTP status and what the client reads.
func NewError(status int, detail string) *server.Error { return server.NewError(status, detail) }

// WriteJSON writes a route's answer.
func WriteJSON(w http.ResponseWriter, v any) error { return server.WriteJSON(w, v) }
