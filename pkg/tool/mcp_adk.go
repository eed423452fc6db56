package tool

import (
	"context"
	"time"

	"agenthost/pkg/spec"
)

// adkMCPConfig is the args of ADK's McpToolset (adk-python
// tools/mcp_tool/mcp_toolset.py).
type adkMCPConfig struct {
	StdioServerParams          *adkStdioServer  `yaml:"stdio_server_params" doc:"A server that is a program. The host's policy has to grant it."`
	StdioConnectionParams      *adkStdio        `yaml:"stdio_connection_params" doc:"The same with a timeout."`
	SSEConnectionParams        *adkHTTPServer   `yaml:"sse_connection_params" doc:"A server that speaks SSE, as older ones do."`
	StreamableConnectionParams *adkStreamServer `yaml:"streamable_http_connection_params" doc:"A server that speaks streamable HTTP."`
	Offer                      mcpOffer         `yaml:",inline"`
}

type adkStdioServer struct {
	Command  spec.Text              `yaml:"command" required:"true" doc:"The program."`
	Args     []spec.Text            `yaml:"args" doc:"Its arguments."`
	Env      map[string]spec.Secret `yaml:"env" doc:"Variables of its environment; of the host's it has PATH, HOME and the like."`
	Cwd      spec.Text              `yaml:"cwd" doc:"The folder of the app that it runs in; if nothing is said, the app's own."`
	Encoding string                 `yaml:"encoding" enum:"utf-8" default:"utf-8" doc:"That of the protocol."`
}

type adkStdio struct {
	ServerParams adkStdioServer `yaml:"server_params" required:"true" doc:"The program."`
	Timeout      float64        `yaml:"timeout" default:"5" doc:"How many seconds the server may take to answer the first question."`
}

type adkHTTPServer struct {
	URL            spec.Text              `yaml:"url" required:"true" doc:"The address of the server."`
	Headers        map[string]spec.Secret `yaml:"headers" doc:"Request headers."`
	Timeout        float64                `yaml:"timeout" default:"5" doc:"How many seconds the server may take to answer the first question."`
	SSEReadTimeout float64                `yaml:"sse_read_timeout" default:"300" doc:"How many seconds a call may take."`
}

type adkStreamServer struct {
	Server           adkHTTPServer `yaml:",inline"`
	TerminateOnClose bool          `yaml:"terminate_on_close" default:"true" doc:"The server is told when the connection is not used any more."`
}

// Addresses are those that the tools ask.
func (c *adkMCPConfig) Addresses() []spec.Text { return c.newServer().serverAddresses() }

// Program is the one that is run, or nil.
func (c *adkMCPConfig) Program() *Program { return c.newServer().commandProgram() }

// Check wants exactly one server, as ADK does.
func (c *adkMCPConfig) Check(n *spec.Node) spec.Diagnostics {
	ways := 0
	for _, key := range []string{"stdio_server_params", "stdio_connection_params", "sse_connection_params", "streamable_http_connection_params"} {
		if !n.Get(key).IsNull() {
			ways++
		}
	}
	if ways != 1 {
		return spec.Diagnostics{n.Errorf("required", "exactly one of stdio_server_params, stdio_connection_params, sse_connection_params and streamable_http_connection_params has to be there")}
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
