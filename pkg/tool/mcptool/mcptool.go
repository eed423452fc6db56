// Package mcptool provides the tools of MCP servers: the tool kind mcp, and ADK's
// McpToolset. To use them, add both lists to the options of its loader:
//
//	loader.New(&loader.Options{
//		ToolKinds:    append(tool.Kinds(), mcptool.Kinds()...),
//		BuiltinTools: append(tool.Builtins(), mcptool.Toolsets()...),
//	})
package mcptool

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

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
	}
}

type config struct {
	URL            spec.Text              `yaml:"url" doc:"The URL of the server."`
	Transport      string                 `yaml:"transport" enum:"http|sse" default:"http" doc:"The transport at the URL: streamable HTTP, or SSE for older servers."`
	Headers        map[string]spec.Secret `yaml:"headers" doc:"Request headers."`
	Command        []spec.Text            `yaml:"command" doc:"Instead of url: the server program and its arguments. The host policy must allow it."`
	Env            map[string]spec.Secret `yaml:"env" doc:"Environment variables of the program; from the host it inherits only PATH, HOME and similar."`
	Cwd            spec.Text              `yaml:"cwd" doc:"Working directory of the program, relative to the app folder; default: the app folder."`
	ConnectTimeout spec.Duration          `yaml:"connect_timeout" default:"10s" doc:"Maximum time to connect to the server, and to list its tools."`
	Timeout        spec.Duration          `yaml:"timeout" default:"30s" doc:"Maximum duration of a call."`
	Offer          offer                  `yaml:",inline"`
}

// An offer configures which tools of a server are provided, and how.
type offer struct {
	ToolFilter     []string  `yaml:"tool_filter" doc:"The tools to provide, by their names on the server; default: all."`
	ToolNamePrefix string    `yaml:"tool_name_prefix" doc:"Prefix of the tool names, joined with _."`
	OnError        string    `yaml:"on_error" enum:"return|fail" default:"return" doc:"Whether an error is returned to the model or ends the invocation."`
	Confirm        spec.Expr `yaml:"confirm" doc:"Whether a call requires confirmation by a person (human-in-the-loop): true, or an expression over args, state, user, session, invocation and agent."`

	Async tool.AsyncConfig `yaml:",inline"`
}

var (
	_ tool.AddressConfig = (*config)(nil)
	_ tool.AddressConfig = (*adkConfig)(nil)
	_ tool.ProgramConfig = (*config)(nil)
	_ tool.ProgramConfig = (*adkConfig)(nil)
	_ spec.Checker       = (*config)(nil)
	_ spec.Checker       = (*adkConfig)(nil)
	_ tool.DynamicSet    = (*serverSet)(nil)
)

// Addresses returns the URL of the server, if it has one.
func (c *config) Addresses() []spec.Text { return c.newServer().serverAddresses() }

// Programs returns the program to run, if there is one.
func (c *config) Programs() []*tool.Program { return c.newServer().commandPrograms() }

// Check reports settings that belong to another transport.
func (c *config) Check(n *spec.Node) spec.Diagnostics {
	ds := append(tool.CheckTimeout(n), c.newServer().checkConfig()...)
	ds = append(ds, c.Offer.Async.CheckAsync(n, false, true)...)
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
		foreign, other = []string{"transport", "headers"}, "url"
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
		connectTimeout: time.Duration(c.ConnectTimeout), callTimeout: time.Duration(c.Timeout), offer: c.Offer,
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
	offer                       offer
}

func (s *server) serverAddresses() []spec.Text {
	if s.url.Value == "" {
		return nil
	}
	return []spec.Text{s.url}
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
	for name, text := range s.headers {
		if !tool.IsHeaderName(name) {
			ds = append(ds, text.Errorf(0, "header", "invalid header name %q", name))
		}
		if hasPlaceholder(text.Value) {
			ds = append(ds, text.Errorf(0, "placeholder", "headers of an mcp tool cannot contain placeholders: all sessions share one connection"))
		}
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

// adkConfig is the args of ADK's McpToolset (adk-python
// tools/mcp_tool/mcp_toolset.py).
type adkConfig struct {
	StdioServerParams          *adkStdioServer  `yaml:"stdio_server_params" doc:"A server started as a program (stdio). The host policy must allow it."`
	StdioConnectionParams      *adkStdio        `yaml:"stdio_connection_params" doc:"A server started as a program (stdio), with a timeout."`
	SSEConnectionParams        *adkHTTPServer   `yaml:"sse_connection_params" doc:"A server that uses SSE, as older servers do."`
	StreamableConnectionParams *adkStreamServer `yaml:"streamable_http_connection_params" doc:"A server that uses streamable HTTP."`
	Offer                      offer            `yaml:",inline"`
}

type adkStdioServer struct {
	Command  spec.Text              `yaml:"command" required:"true" doc:"The program."`
	Args     []spec.Text            `yaml:"args" doc:"Its arguments."`
	Env      map[string]spec.Secret `yaml:"env" doc:"Environment variables of the program; from the host it inherits only PATH, HOME and similar."`
	Cwd      spec.Text              `yaml:"cwd" doc:"Working directory of the program, relative to the app folder; default: the app folder."`
	Encoding string                 `yaml:"encoding" enum:"utf-8" default:"utf-8" doc:"The encoding of the protocol."`
}

type adkStdio struct {
	ServerParams adkStdioServer `yaml:"server_params" required:"true" doc:"The program."`
	Timeout      float64        `yaml:"timeout" default:"5" doc:"Connection timeout in seconds."`
}

type adkHTTPServer struct {
	URL            spec.Text              `yaml:"url" required:"true" doc:"The URL of the server."`
	Headers        map[string]spec.Secret `yaml:"headers" doc:"Request headers."`
	Timeout        float64                `yaml:"timeout" default:"5" doc:"Connection timeout in seconds."`
	SSEReadTimeout float64                `yaml:"sse_read_timeout" default:"300" doc:"Maximum duration of a call in seconds."`
}

type adkStreamServer struct {
	Server           adkHTTPServer `yaml:",inline"`
	TerminateOnClose bool          `yaml:"terminate_on_close" default:"true" doc:"Whether to terminate the server's session when the connection closes."`
}

// Addresses returns the URL of the server, if it has one.
func (c *adkConfig) Addresses() []spec.Text { return c.newServer().serverAddresses() }

// Programs returns the program to run, if there is one.
func (c *adkConfig) Programs() []*tool.Program { return c.newServer().commandPrograms() }

// Check requires exactly one server, as ADK does.
func (c *adkConfig) Check(n *spec.Node) spec.Diagnostics {
	ways := 0
	for _, key := range []string{"stdio_server_params", "stdio_connection_params", "sse_connection_params", "streamable_http_connection_params"} {
		if !n.Get(key).IsNull() {
			ways++
		}
	}
	if ways != 1 {
		return spec.Diagnostics{n.Errorf("required", "exactly one of stdio_server_params, stdio_connection_params, sse_connection_params and streamable_http_connection_params is required")}
	}
	return append(c.newServer().checkConfig(), c.Offer.Async.CheckAsync(n, false, true)...)
}

func (c *adkConfig) newServer() *server {
	s := &server{connectTimeout: 5 * time.Second, callTimeout: 300 * time.Second, offer: c.Offer}
	switch {
	case c.StdioServerParams != nil:
		c.StdioServerParams.configure(s)
	case c.StdioConnectionParams != nil:
		c.StdioConnectionParams.ServerParams.configure(s)
		s.connectTimeout = secondsDuration(c.StdioConnectionParams.Timeout)
	case c.SSEConnectionParams != nil:
		c.SSEConnectionParams.configure(s)
		s.sse = true
	case c.StreamableConnectionParams != nil:
		c.StreamableConnectionParams.Server.configure(s)
		s.skipTerminate = !c.StreamableConnectionParams.TerminateOnClose
	}
	return s
}

func (c *adkStdioServer) configure(s *server) {
	s.command = append([]spec.Text{c.Command}, c.Args...)
	s.env, s.cwd = c.Env, c.Cwd
}

func (c *adkHTTPServer) configure(s *server) {
	s.url, s.headers = c.URL, c.Headers
	s.connectTimeout, s.callTimeout = secondsDuration(c.Timeout), secondsDuration(c.SSEReadTimeout)
}

func secondsDuration(n float64) time.Duration { return time.Duration(n * float64(time.Second)) }

func newADKSet(_ context.Context, env tool.Env, c *adkConfig) (tool.Set, error) {
	return c.newServer().newSet(env)
}
