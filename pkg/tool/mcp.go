package tool

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"agenthost/pkg/policy"
	"agenthost/pkg/spec"
	"agenthost/pkg/template"
)

type mcpConfig struct {
	URL            spec.Text              `yaml:"url" doc:"The address of the server."`
	Transport      string                 `yaml:"transport" enum:"http|sse" default:"http" doc:"What is spoken at the url: streamable HTTP, or the SSE of older servers."`
	Headers        map[string]spec.Secret `yaml:"headers" doc:"Request headers for the url."`
	Command        []spec.Text            `yaml:"command" doc:"In the place of url: the program that is the server, and its arguments. The host's policy has to grant it."`
	Env            map[string]spec.Secret `yaml:"env" doc:"Variables of the program's environment; of the host's it has PATH, HOME and the like."`
	Cwd            spec.Text              `yaml:"cwd" doc:"The folder of the app that the program runs in; if nothing is said, the app's own."`
	ConnectTimeout spec.Duration          `yaml:"connect_timeout" default:"10s" doc:"How long the server may take to answer the first question, and to list its tools."`
	Timeout        spec.Duration          `yaml:"timeout" default:"30s" doc:"How long a call may take."`
	Offer          mcpOffer               `yaml:",inline"`
}

// An mcpOffer is which of a server's tools are offered, and how.
type mcpOffer struct {
	ToolFilter     []string  `yaml:"tool_filter" doc:"The tools that are offered, by the server's names; without it all."`
	ToolNamePrefix string    `yaml:"tool_name_prefix" doc:"Is put before the names of the tools, with a _ between."`
	OnError        string    `yaml:"on_error" enum:"return|fail" default:"return" doc:"Whether a failure is told to the model or ends the invocation."`
	Confirm        spec.Expr `yaml:"confirm" doc:"Whether a person has to approve a call before it is carried out: true, or an expression that sees args, state, user, session, invocation and agent."`
}

// Addresses are those that the tools ask.
func (c *mcpConfig) Addresses() []spec.Text { return c.newServer().serverAddresses() }

// Program is the one that is run, or nil.
func (c *mcpConfig) Program() *Program { return c.newServer().commandProgram() }

// Check reports settings that are not of the same server.
func (c *mcpConfig) Check(n *spec.Node) spec.Diagnostics {
	ds := append(checkTimeout(n), c.newServer().checkConfig()...)
	url, command := n.Get("url"), n.Get("command")
	switch {
	case url == nil && command == nil:
		return append(ds, n.Errorf("required", "an mcp tool has the url of its server, or the command that starts it"))
	case url != nil && command != nil:
		return append(ds, command.Errorf("tool", "url and command are two servers: make each a tool of its own"))
	}
	foreign, other := []string{"env", "cwd"}, "command"
	if command != nil {
		if command.IsNull() || command.Kind == spec.Sequence && len(command.Items) == 0 {
			ds = append(ds, command.Errorf("tool", "a command is a list: the program that is run, and its arguments"))
		}
		foreign, other = []string{"transport", "headers"}, "url"
	}
	for _, key := range foreign {
		if at := n.Get(key); at != nil {
			ds = append(ds, at.Errorf("tool", "%s is for a server with %s", key, other))
		}
	}
	return ds
}

func (c *mcpConfig) newServer() *mcpServer {
	return &mcpServer{
		url: c.URL, sse: c.Transport == "sse", headers: c.Headers,
		command: c.Command, env: c.Env, cwd: c.Cwd,
		connectTimeout: time.Duration(c.ConnectTimeout), callTimeout: time.Duration(c.Timeout), offer: c.Offer,
	}
}

func newMCP(_ context.Context, env Env, c *mcpConfig) (Set, error) { return c.newServer().newSet(env) }

// An mcpServer is what all ways to write one come to.
type mcpServer struct {
	url     spec.Text
	sse     bool
	headers map[string]spec.Secret
	// skipTerminate keeps from the server that its session is over.
	skipTerminate bool
	// command is empty for a server with a url.
	command []spec.Text
	env     map[string]spec.Secret
	cwd     spec.Text
	// connect bounds a connection and a list of tools, call a call.
	connectTimeout, callTimeout time.Duration
	offer                       mcpOffer
}

// A Program is one that a tool runs.
type Program struct {
	policy.Program
	// At is where it is named.
	At spec.Text
}

func (s *mcpServer) serverAddresses() []spec.Text {
	if s.url.Value == "" {
		return nil
	}
	return []spec.Text{s.url}
}

func (s *mcpServer) commandProgram() *Program {
	if len(s.command) == 0 || s.command[0].Value == "" {
		return nil
	}
	return &Program{policy.Program{Args: s.commandArgs(), Env: slices.Sorted(maps.Keys(s.env))}, s.command[0]}
}

func (s *mcpServer) commandArgs() []string {
	argv := make([]string, len(s.command))
	for i, arg := range s.command {
		argv[i] = arg.Value
	}
	return argv
}

// checkConfig reports what keeps the server from ever being reached.
func (s *mcpServer) checkConfig() spec.Diagnostics {
	var ds spec.Diagnostics
	if s.url.Pos.Line > 0 && (urlBase.FindString(s.url.Value) == "" || hasPlaceholder(s.url.Value)) {
		ds = append(ds, s.url.Errorf(0, "url", "want http:// or https:// and a host, without placeholders: all sessions share one server"))
	}
	for name, text := range s.headers {
		if !validHeader.MatchString(name) {
			ds = append(ds, text.Errorf(0, "header", "%q cannot be the name of a header", name))
		}
		if hasPlaceholder(text.Value) {
			ds = append(ds, text.Errorf(0, "placeholder", "headers of an mcp tool have no placeholders: all sessions share one connection"))
		}
	}
	if len(s.command) > 0 && s.command[0].Pos.Line > 0 && s.command[0].Value == "" {
		ds = append(ds, s.command[0].Errorf(0, "tool", "a command begins with the program that is run"))
	}
	if s.cwd.Value != "" && !isLocalPath(s.cwd.Value) {
		ds = append(ds, s.cwd.Errorf(0, "path", "cwd is a folder of the app, as a path from the app's own"))
	}
	ds.Sort()
	return ds
}

func hasPlaceholder(text string) bool {
	paths, err := template.ParsePaths(text)
	return err == nil && len(paths.Refs()) > 0
}

// displayName is what messages call the server: a user may read them, so that they have
// neither its whole address nor its arguments, nor where the host keeps its apps.
func (s *mcpServer) displayName() string {
	what, at := hostOfURL(s.url.Value), s.url.Pos
	if len(s.command) > 0 {
		what, at = baseName(s.command[0].Value), s.command[0].Pos
	}
	return fmt.Sprintf("mcp server %s (%s)", what, at.Short())
}
