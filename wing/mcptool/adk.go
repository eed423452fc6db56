package mcptool

import (
	"context"
	"time"

	connections "agenthost/pkg/connection"
	"agenthost/pkg/spec"
	"agenthost/pkg/tool"
)

// adkConfig is ADK's McpToolset args (adk-python tools/mcp_tool/mcp_toolset.py).
type adkConfig[A connections.ADKAuth] struct {
	StdioServerParams          *adkStdioServer  `yaml:"stdio_server_params" doc:"A server started as a program (stdio). The host policy must allow it."`
	StdioConnectionParams      *adkStdio        `yaml:"stdio_connection_params" doc:"A server started as a program (stdio), with a timeout."`
	SSEConnectionParams        *adkHTTPServer   `yaml:"sse_connection_params" doc:"A server that uses SSE, as older servers do."`
	StreamableConnectionParams *adkStreamServer `yaml:"streamable_http_connection_params" doc:"A server that uses streamable HTTP."`
	ToolListCacheTTLSeconds    float64          `yaml:"tool_list_cache_ttl_seconds" doc:"How long the server's lists are reused, in seconds, unless it reports a change; default: tools are listed in each agent run."`
	UseMCPResources            bool             `yaml:"use_mcp_resources" doc:"Gives the model the server's resources. It sees their names, and loads contents with load_mcp_resource."`
	Offer                      offer            `yaml:",inline"`

	Auth A `yaml:",inline"`
}

type adkStdioServer struct {
	Command  spec.Text              `yaml:"command" required:"true" doc:"The program."`
	Args     []spec.Text            `yaml:"args" doc:"Its arguments."`
	Env      map[string]spec.Secret `yaml:"env" doc:"Environment variables for the program; from the host it inherits only PATH, HOME and similar."`
	Cwd      spec.Text              `yaml:"cwd" doc:"The program's working directory, relative to the app folder; default: the app folder."`
	Encoding string                 `yaml:"encoding" enum:"utf-8" default:"utf-8" doc:"The protocol's encoding."`
}

type adkStdio struct {
	ServerParams adkStdioServer `yaml:"server_params" required:"true" doc:"The program."`
	Timeout      float64        `yaml:"timeout" default:"5" doc:"Connection timeout in seconds."`
}

type adkHTTPServer struct {
	URL            spec.Text              `yaml:"url" required:"true" doc:"The server URL."`
	Headers        map[string]spec.Secret `yaml:"headers" doc:"Request headers; they may contain {user:key} and other state keys, {session.user_id} and {agent}. An optional placeholder without a value omits the header."`
	Timeout        float64                `yaml:"timeout" default:"5" doc:"Connection timeout in seconds."`
	SSEReadTimeout float64                `yaml:"sse_read_timeout" default:"300" doc:"Maximum call duration in seconds."`
}

type adkStreamServer struct {
	Server           adkHTTPServer `yaml:",inline"`
	TerminateOnClose bool          `yaml:"terminate_on_close" default:"true" doc:"Whether to terminate the server's session when the connection closes."`
}

// Addresses returns the server's URL, if it has one.
func (c *adkConfig[A]) Addresses() []spec.Text { return c.newServer().serverAddresses() }

// Connection returns the connection that auth_scheme and auth_credential describe, or nil.
func (c *adkConfig[A]) Connection() *connections.Ref { return c.Auth.Ref(c.newServer().urlHosts()) }

// Programs returns the program to run, if there is one.
func (c *adkConfig[A]) Programs() []*tool.Program {
	programs := c.newServer().commandPrograms()
	for _, p := range programs {
		p.Note = "ADK_ALLOW_CONFIG_STDIO_MCP_SERVERS has no effect"
	}
	return programs
}

// StateUse returns the headers' placeholders and the confirmation condition.
func (c *adkConfig[A]) StateUse(*spec.Node) tool.StateUse { return c.newServer().stateUse() }

// Check requires exactly one server, as ADK does.
func (c *adkConfig[A]) Check(n *spec.Node) spec.Diagnostics {
	ways := 0
	for _, key := range []string{"stdio_server_params", "stdio_connection_params", "sse_connection_params", "streamable_http_connection_params"} {
		if !n.Get(key).IsNull() {
			ways++
		}
	}
	if ways != 1 {
		return spec.Diagnostics{n.Errorf("required", "exactly one of stdio_server_params, stdio_connection_params, sse_connection_params and streamable_http_connection_params is required")}
	}
	s := c.newServer()
	ds := append(s.checkConfig(), c.Offer.Async.CheckAsync(n, false, true)...)
	if at := n.Get("auth_scheme"); at != nil && len(s.command) > 0 {
		ds = append(ds, at.Errorf("tool", "auth_scheme requires a server with a url"))
	} else {
		ds = append(ds, c.Auth.Check(n, s.urlHosts())...)
	}
	return append(ds, c.Offer.checkElicitation(n)...)
}

func (c *adkConfig[A]) newServer() *server {
	s := &server{connectTimeout: 5 * time.Second, callTimeout: 300 * time.Second, listCache: secondsDuration(c.ToolListCacheTTLSeconds), offer: c.Offer}
	s.resources.enabled = c.UseMCPResources
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

func newADKSet[A connections.ADKAuth](_ context.Context, env tool.Env, c *adkConfig[A]) (tool.Set, error) {
	return c.newServer().newSet(env)
}
