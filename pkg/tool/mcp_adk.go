package tool

import (
	"context"
	"time"

	"agenthost/pkg/spec"
)

// adkMCPConfig is the args of ADK's McpToolset (adk-python
// tools/mcp_tool/mcp_toolset.py).
type adkMCPConfig struct {
	StdioServerParams          *adkStdioServer  `yaml:"stdio_server_params" doc:"A server started as a program (stdio). The host policy must allow it."`
	StdioConnectionParams      *adkStdio        `yaml:"stdio_connection_params" doc:"A server started as a program (stdio), with a timeout."`
	SSEConnectionParams        *adkHTTPServer   `yaml:"sse_connection_params" doc:"A server that uses SSE, as older servers do."`
	StreamableConnectionParams *adkStreamServer `yaml:"streamable_http_connection_params" doc:"A server that uses streamable HTTP."`
	Offer                      mcpOffer         `yaml:",inline"`
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
func (c *adkMCPConfig) Addresses() []spec.Text { return c.newServer().serverAddresses() }

// Program returns the program to run, or nil.
func (c *adkMCPConfig) Program() *Program { return c.newServer().commandProgram() }

// Check requires exactly one server, as ADK does.
func (c *adkMCPConfig) Check(n *spec.Node) spec.Diagnostics {
	ways := 0
	for _, key := range []string{"stdio_server_params", "stdio_connection_params", "sse_connection_params", "streamable_http_connection_params"} {
		if !n.Get(key).IsNull() {
			ways++
		}
	}
	if ways != 1 {
		return spec.Diagnostics{n.Errorf("required", "exactly one of stdio_server_params, stdio_connection_params, sse_connection_params and streamable_http_connection_params is required")}
	}
	return c.newServer().checkConfig()
}

func (c *adkMCPConfig) newServer() *mcpServer {
	s := &mcpServer{connectTimeout: 5 * time.Second, callTimeout: 300 * time.Second, offer: c.Offer}
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

func (c *adkStdioServer) configure(s *mcpServer) {
	s.command = append([]spec.Text{c.Command}, c.Args...)
	s.env, s.cwd = c.Env, c.Cwd
}

func (c *adkHTTPServer) configure(s *mcpServer) {
	s.url, s.headers = c.URL, c.Headers
	s.connectTimeout, s.callTimeout = secondsDuration(c.Timeout), secondsDuration(c.SSEReadTimeout)
}

func secondsDuration(n float64) time.Duration { return time.Duration(n * float64(time.Second)) }

func newADKMCP(_ context.Context, env Env, c *adkMCPConfig) (Set, error) {
	return c.newServer().newSet(env)
}
