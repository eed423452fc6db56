package tool

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"agenthost/internal/policy"
	"agenthost/pkg/spec"
	"agenthost/pkg/template"
)

type mcpConfig struct {
	URL            spec.Text              `yaml:"url" doc:"The URL of the server."`
	Transport      string                 `yaml:"transport" enum:"http|sse" default:"http" doc:"The transport at the URL: streamable HTTP, or SSE for older servers."`
	Headers        map[string]spec.Secret `yaml:"headers" doc:"Request headers."`
	Command        []spec.Text            `yaml:"command" doc:"Instead of url: the server program and its arguments. The host policy must allow it."`
	Env            map[string]spec.Secret `yaml:"env" doc:"Environment variables of the program; from the host it inherits only PATH, HOME and similar."`
	Cwd            spec.Text              `yaml:"cwd" doc:"Working directory of the program, relative to the app folder; default: the app folder."`
	ConnectTimeout spec.Duration          `yaml:"connect_timeout" default:"10s" doc:"Maximum time to connect to the server, and to list its tools."`
	Timeout        spec.Duration          `yaml:"timeout" default:"30s" doc:"Maximum duration of a call."`
	Offer          mcpOffer               `yaml:",inline"`
}

// An mcpOffer configures which tools of a server are provided, and how.
type mcpOffer struct {
	ToolFilter     []string  `yaml:"tool_filter" doc:"The tools to provide, by their names on the server; default: all."`
	ToolNamePrefix string    `yaml:"tool_name_prefix" doc:"Prefix of the tool names, joined with _."`
	OnError        string    `yaml:"on_error" enum:"return|fail" default:"return" doc:"Whether an error is returned to the model or ends the invocation."`
	Confirm        spec.Expr `yaml:"confirm" doc:"Whether a call requires confirmation by a person (human-in-the-loop): true, or an expression over args, state, user, session, invocation and agent."`
}

// Addresses returns the URL of the server, if it has one.
func (c *mcpConfig) Addresses() []spec.Text { return c.newServer().serverAddresses() }

// Program returns the program to run, or nil.
func (c *mcpConfig) Program() *Program { return c.newServer().commandProgram() }

// Check reports settings that belong to another transport.
func (c *mcpConfig) Check(n *spec.Node) spec.Diagnostics {
	ds := append(checkTimeout(n), c.newServer().checkConfig()...)
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

func (c *mcpConfig) newServer() *mcpServer {
	return &mcpServer{
		url: c.URL, sse: c.Transport == "sse", headers: c.Headers,
		command: c.Command, env: c.Env, cwd: c.Cwd,
		connectTimeout: time.Duration(c.ConnectTimeout), callTimeout: time.Duration(c.Timeout), offer: c.Offer,
	}
}

func newMCP(_ context.Context, env Env, c *mcpConfig) (Set, error) { return c.newServer().newSet(env) }

// An mcpServer is the server configuration that all YAML forms resolve to.
type mcpServer struct {
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
	offer                       mcpOffer
}

// A Program is a program that a tool runs.
type Program struct {
	policy.Program
	// At is the position of its name in the document.
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

// checkConfig reports settings with which the server can never be reached.
func (s *mcpServer) checkConfig() spec.Diagnostics {
	var ds spec.Diagnostics
	if s.url.Pos.Line > 0 && (urlBase.FindString(s.url.Value) == "" || hasPlaceholder(s.url.Value)) {
		ds = append(ds, s.url.Errorf(0, "url", "the URL must start with http:// or https:// and a host, without placeholders: all sessions share one server"))
	}
	for name, text := range s.headers {
		if !validHeader.MatchString(name) {
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
func (s *mcpServer) displayName() string {
	what, at := hostOfURL(s.url.Value), s.url.Pos
	if len(s.command) > 0 {
		what, at = baseName(s.command[0].Value), s.command[0].Pos
	}
	return fmt.Sprintf("mcp server %s (%s)", what, at.Short())
}
