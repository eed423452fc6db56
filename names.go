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
	// RunRequest is one turn of a user.
	RunRequest = runtime.RunRequest
	// Events are what a turn yields; each event is stored before.
	Events = runtime.Events
	// Event is a message, a call or a response of a turn.
	Event = session.Event
)

// UserText returns a message of a user.
func UserText(text string) *genai.Content { return model.UserText(text) }

// Kinds and functions, which the apps may name.
type (
	// Kinds list all kinds of a program.
	Kinds = loader.Kinds
	// ModelKind is a provider of models, in Models of Kinds.
	ModelKind = spec.Kind[provider.Env, model.LLM]
	// ToolKind is a kind of tools, in Tools of Kinds, or a built-in tool, in Builtins.
	ToolKind = spec.Kind[tool.Env, tool.Set]
	// AgentKind is a class of agents, in Agents of Kinds.
	AgentKind = spec.Kind[loader.AgentEnv, runtime.Agent]
	// PluginKind is a plugin of app.yaml, in Plugins of Kinds.
	PluginKind = spec.Kind[loader.PluginEnv, *runtime.Plugin]
	// Functions are Go functions that the apps may name.
	Functions = loader.Functions
)

// NewKind returns a kind that builds values from the config struct C, whose tags describe its
// YAML; see [spec.NewKind].
func NewKind[C, Env, T any](name, doc string, build func(context.Context, Env, *C) (T, error)) spec.Kind[Env, T] {
	return spec.NewKind(name, doc, build)
}

// The values of a config struct, besides Go's own types.
type (
	// Text is a string with its position.
	Text = spec.Text
	// Secret is a string that may contain secrets.
	Secret = spec.Secret
	// Duration is written with units, such as 2s.
	Duration = spec.Duration
	// Size is a number of bytes, written with units, such as 4MiB.
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
	// ModelEnv is what the build function of a ModelKind gets.
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
	// ToolEnv is what the build function of a ToolKind gets.
	ToolEnv = tool.Env
	// ToolCall is one call of a tool, with the state and the artifacts of its session.
	ToolCall = tool.Call
)

// NewTool returns a tool that calls a Go function, whose parameters are the fields of In; see
// [declare.Func].
func NewTool[In, Out any](name, description string, fn func(context.Context, *ToolCall, In) (Out, error)) (Tool, error) {
	return declare.Func(name, description, fn)
}

// OneTool returns the set of one tool.
func OneTool(t Tool) ToolSet { return tool.One(t) }

// Agents, callbacks and plugins.
type (
	// Agent runs in an invocation.
	Agent = runtime.Agent
	// AgentBase is embedded by an agent with a name, sub-agents, callbacks and when.
	AgentBase = runtime.Base
	// AgentEnv is what the build function of an AgentKind gets.
	AgentEnv = loader.AgentEnv
	// AgentRef is the reference to another agent in a config struct, and ToolRef to a tool.
	AgentRef = loader.AgentRef
	ToolRef  = loader.ToolRef
	// CommonConfig is what the YAML of each agent class has; a config struct includes it.
	CommonConfig = loader.CommonConfig
	// Invocation is the turn in which an agent runs.
	Invocation = runtime.Invocation
	// Callbacks run before and after agents, model calls and tool calls.
	Callbacks = runtime.Callbacks
	// AgentFunc is a callback before or after an agent.
	AgentFunc = runtime.AgentFunc
	// CallbackContext is the invocation of a callback, with the writable state.
	CallbackContext = runtime.CallbackContext
	// Plugin has callbacks for all agents of an app.
	Plugin = runtime.Plugin
	// PluginEnv is what the build function of a PluginKind gets.
	PluginEnv = loader.PluginEnv
)

// HTTP routes.
type (
	// ServerOptions configure the HTTP API.
	ServerOptions = server.Options
	// Services are what routes use of the server.
	Services = server.Services
	// Extension adds routes to a server.
	Extension = server.Extension
	// Route is one of them, with its limits and its documentation.
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

// NewError returns an error of a route, with an HTTP status and what the client reads.
func NewError(status int, detail string) *server.Error { return server.NewError(status, detail) }

// WriteJSON writes the answer of a route.
func WriteJSON(w http.ResponseWriter, v any) error { return server.WriteJSON(w, v) }
