// Package mcptool provides the tools of MCP servers: the tool kind mcp, and ADK's
// McpToolset. To use them, add both lists to the loader's kinds:
//
//	loader.Kinds{
//		Tools:    append(tool.Kinds(), mcptool.Kinds()...),
//		Builtins: append(tool.Builtins(), mcptool.Toolsets()...),
//	}
package mcptool

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	connections "agenthost/pkg/connection"
	"agenthost/pkg/spec"
	"agenthost/pkg/template"
	"agenthost/pkg/tool"
)

// Kinds lists the tool kind mcp.
func Kinds() spec.Kinds[tool.Env, tool.Set] {
	return spec.Kinds[tool.Env, tool.Set]{
		spec.NewKind("mcp", "Provides the tools of an MCP server.", newConfigSet),
	}
}

// Toolsets lists ADK's toolsets, which documents name by `name:`.
func Toolsets() spec.Kinds[tool.Env, tool.Set] {
	return spec.Kinds[tool.Env, tool.Set]{
		spec.NewKind("MCPToolset", "ADK's older name for McpToolset.", newADKSet),
		spec.NewKind("McpToolset", "Provides the tools of an MCP server, in ADK's syntax.", newADKSet),
		spec.NewKind("ToolboxToolset", "Provides the tools of an MCP Toolbox for Databases.", newToolboxSet),
	}
}

type config struct {
	URL            spec.Text              `yaml:"url" doc:"The URL of the server."`
	Transport      string                 `yaml:"transport" enum:"http|sse" default:"http" doc:"The transport at the URL: streamable HTTP, or SSE for older servers."`
	Headers        map[string]spec.Secret `yaml:"headers" doc:"Request headers; they may contain {user:key} and other state keys, {session.user_id} and {agent}. An optional placeholder without a value omits the header."`
	Auth           *connections.Ref       `yaml:"auth" doc:"The connection that authorizes the requests to the URL: its name under connections in app.yaml, or the connection itself."`
	Command        []spec.Text            `yaml:"command" doc:"Instead of url: the server program and its arguments. The host policy must allow it."`
	Env            map[string]spec.Secret `yaml:"env" doc:"Environment variables of the program; from the host it inherits only PATH, HOME and similar."`
	Cwd            spec.Text              `yaml:"cwd" doc:"Working directory of the program, relative to the app folder; default: the app folder."`
	ConnectTimeout spec.Duration          `yaml:"connect_timeout" default:"10s" doc:"Maximum time to connect to the server, and to list its tools."`
	Timeout        spec.Duration          `yaml:"timeout" default:"30s" doc:"Maximum duration of a call."`
	ListCache      spec.Duration          `yaml:"list_cache" doc:"How long the lists of the server are used again, unless it reports a change; default: tools are listed in each run of the agent."`
	Resources      resourcesConfig        `yaml:"resources" doc:"Gives the model the resources of the server: true, or their names. It sees the names, and loads contents with load_mcp_resource."`
	Offer          offer                  `yaml:",inline"`
}

// An offer configures which tools of a server are provided, and how.
type offer struct {
	ToolFilter     []string        `yaml:"tool_filter" doc:"The tools to provide, by their names on the server; default: all."`
	ToolNamePrefix string          `yaml:"tool_name_prefix" doc:"Prefix of the tool names, joined with _."`
	OnError        string          `yaml:"on_error" enum:"return|fail" default:"return" doc:"Whether an error is returned to the model or ends the invocation."`
	Confirm        spec.Expr       `yaml:"confirm" doc:"Whether a call requires confirmation by a person (human-in-the-loop): true, or an expression over args, state, user, session, invocation, agent and mcp, such as mcp.destructive."`
	Elicitation    bool            `yaml:"elicitation" doc:"Whether the server may ask the user questions during a call: the turn then ends with a request for confirmation that has a form, and the call is made again with the answers."`
	Sampling       *samplingConfig `yaml:"sampling" doc:"Lets the server use the model of the calling agent during a call (sampling), without its conversation and tools; {} for the default limits. The host policy must allow it."`
	MaxResult      spec.Size       `yaml:"max_result" default:"4MiB" doc:"Maximum size of a result."`

	Async tool.AsyncConfig `yaml:",inline"`
}

var (
	_ tool.AddressConfig  = (*config)(nil)
	_ tool.AddressConfig  = (*adkConfig)(nil)
	_ tool.ProgramConfig  = (*config)(nil)
	_ tool.ProgramConfig  = (*adkConfig)(nil)
	_ spec.Checker        = (*config)(nil)
	_ spec.Checker        = (*adkConfig)(nil)
	_ tool.SamplingConfig = (*config)(nil)
	_ tool.StateConfig    = (*config)(nil)
	_ tool.StateConfig    = (*adkConfig)(nil)
	_ tool.DynamicSet     = (*serverSet)(nil)

	_ connections.RefConfig = (*config)(nil)
	_ connections.RefConfig = (*adkConfig)(nil)
	_ tool.SessionSet       = (*serverSet)(nil)
)

// Addresses returns the URL of the server, if it has one.
func (c *config) Addresses() []spec.Text { return c.newServer().serverAddresses() }

// Connection returns the connection of the server, or nil.
func (c *config) Connection() *connections.Ref { return c.Auth }

// Programs returns the program to run, if there is one.
func (c *config) Programs() []*tool.Program { return c.newServer().commandPrograms() }

// Sampling returns where the server may use the model, or nil.
func (c *config) Sampling() *spec.Node {
	if c.Offer.Sampling == nil {
		return nil
	}
	return c.Offer.Sampling.at
}

// StateUse returns the placeholders of the headers and the condition of the confirmation.
func (c *config) StateUse(*spec.Node) tool.StateUse { return c.newServer().stateUse() }

// Check reports settings that belong to another transport.
func (c *config) Check(n *spec.Node) spec.Diagnostics {
	ds := append(tool.CheckTimeout(n), c.newServer().checkConfig()...)
	ds = append(ds, c.Offer.Async.CheckAsync(n, false, true)...)
	ds = append(ds, c.Offer.checkElicitation(n)...)
	url, command := n.Get("url"), n.Get("command")
	switch {
	case url == nil && command == nil:
		return append(ds, n.Errorf("required", "an mcp tool requires url or command"))
	case url != nil && command != nil:
		return append(ds, command.Errorf("tool", "url and command are mutually exclusive: use a separate mcp tool for each"))
	}
	foreign, other := []string{"env", "cwd"}, "command"
	if command != nil {
		if command.IsNull() || command.Kind == spec.Sequence && len(command.Items) == 0 {
			ds = append(ds, command.Errorf("tool", "command must be a list: the program and its arguments"))
		}
		foreign, other = []string{"transport", "headers", "auth"}, "url"
	}
	for _, key := range foreign {
		if at := n.Get(key); at != nil {
			ds = append(ds, at.Errorf("tool", "%s requires %s", key, other))
		}
	}
	return ds
}

func (c *config) newServer() *server {
	return &server{
		url: c.URL, sse: c.Transport == "sse", headers: c.Headers,
		command: c.Command, env: c.Env, cwd: c.Cwd,
		connectTimeout: time.Duration(c.ConnectTimeout), callTimeout: time.Duration(c.Timeout),
		listCache: time.Duration(c.ListCache), resources: c.Resources, offer: c.Offer,
	}
}

func newConfigSet(_ context.Context, env tool.Env, c *config) (tool.Set, error) {
	return c.newServer().newSet(env)
}

// A server is the server configuration that all YAML forms resolve to.
type server struct {
	url     spec.Text
	sse     bool
	headers map[string]spec.Secret
	// skipTerminate leaves the session on the server when the connection closes.
	skipTerminate bool
	// command is empty for a server with a url.
	command []spec.Text
	env     map[string]spec.Secret
	cwd     spec.Text
	// connectTimeout bounds connecting and listing tools, callTimeout a call.
	connectTimeout, callTimeout time.Duration
	// listCache is how long lists are used again; 0 is one run of an agent.
	listCache time.Duration
	resources resourcesConfig
	offer     offer
}

func (s *server) serverAddresses() []spec.Text {
	if s.url.Value == "" {
		return nil
	}
	return []spec.Text{s.url}
}

// urlHosts returns the host of the URL, if the server has one.
func (s *server) urlHosts() []string {
	if s.url.Value == "" {
		return nil
	}
	return []string{connections.HostOf(s.url.Value)}
}

func (s *server) commandPrograms() []*tool.Program {
	if len(s.command) == 0 || s.command[0].Value == "" {
		return nil
	}
	return []*tool.Program{{Args: s.commandArgs(), Env: slices.Sorted(maps.Keys(s.env)), Unconfined: true, At: s.command[0]}}
}

func (s *server) commandArgs() []string {
	argv := make([]string, len(s.command))
	for i, arg := range s.command {
		argv[i] = arg.Value
	}
	return argv
}

// checkConfig reports settings with which the server can never be reached.
func (s *server) checkConfig() spec.Diagnostics {
	var ds spec.Diagnostics
	if s.url.Pos.Line > 0 && (tool.ConstantHost(s.url.Value) == "" || hasPlaceholder(s.url.Value)) {
		ds = append(ds, s.url.Errorf(0, "url", "the URL must start with http:// or https:// and a host, without placeholders: all sessions share one server"))
	}
	var invalid spec.Diagnostics
	if _, err := tool.CompileHeaders(s.headers); errors.As(err, &invalid) {
		ds = append(ds, invalid...)
	}
	if len(s.command) > 0 && s.command[0].Pos.Line > 0 && s.command[0].Value == "" {
		ds = append(ds, s.command[0].Errorf(0, "tool", "command must start with the program to run"))
	}
	if s.cwd.Value != "" && !isLocalPath(s.cwd.Value) {
		ds = append(ds, s.cwd.Errorf(0, "path", "cwd must be a relative path inside the app folder"))
	}
	ds.Sort()
	return ds
}

// stateUse returns the placeholders of the headers and the condition of the confirmation.
func (s *server) stateUse() tool.StateUse {
	u := tool.ConfirmRuleUse(s.offer.Confirm, annotationEnv())
	for _, name := range slices.Sorted(maps.Keys(s.headers)) {
		u.AddPaths(s.headers[name].Text, func(root string) bool {
			return root == "session" || root == "agent" || root == "args" || root == "user" || root == "invocation" || root == "run_config"
		})
	}
	return u
}

func hasPlaceholder(text string) bool {
	paths, err := template.ParsePaths(text)
	return err == nil && len(paths.Refs()) > 0
}

// displayName identifies the server in messages. Users may read them, so it
// contains neither the full URL nor the arguments, nor the path of the apps on
// the host.
func (s *server) displayName() string {
	what, at := hostOfURL(s.url.Value), s.url.Pos
	if len(s.command) > 0 {
		what, at = baseName(s.command[0].Value), s.command[0].Pos
	}
	return fmt.Sprintf("mcp server %s (%s)", what, at.Short())
}
