// Package mcptool provides MCP servers' tools: the tool kind mcp, and ADK's McpToolset. To use
// them, add both lists to the loader's kinds, the toolsets with their credential settings:
//
//	loader.Kinds{
//		Tools:    append(builtin.Kinds(), mcptool.Kinds()...),
//		Builtins: append(builtin.Builtins(), mcptool.Toolsets[connections.ADKAuth]()...),
//	}
package mcptool

import (
	"context"
	"strings"
	"time"

	"agenthost/internal/toolconfig"
	connections "agenthost/pkg/connection"
	"agenthost/pkg/spec"
	"agenthost/pkg/tool"
)

// Kinds lists the tool kind mcp.
func Kinds() spec.Kinds[tool.Env, tool.Set] {
	return spec.Kinds[tool.Env, tool.Set]{
		spec.NewKind("mcp", "Provides the tools of an MCP server.", newConfigSet),
	}
}

// Toolsets lists ADK's toolsets, which documents name by `name:`. A is the type of their
// credentials' settings: the one in agenthost/wing/connection, or [connections.UnsupportedADKAuth].
func Toolsets[A connections.ADKAuth]() spec.Kinds[tool.Env, tool.Set] {
	return spec.Kinds[tool.Env, tool.Set]{
		spec.NewKind("MCPToolset", "ADK's older name for McpToolset.", newADKSet[A]),
		spec.NewKind("McpToolset", "Provides the tools of an MCP server, in ADK's syntax.", newADKSet[A]),
		spec.NewKind("ToolboxToolset", "Provides the tools of an MCP Toolbox for Databases.", newToolboxSet),
	}
}

type config struct {
	URL            spec.Text              `yaml:"url" doc:"The server URL."`
	Transport      string                 `yaml:"transport" enum:"http|sse" default:"http" doc:"The transport at the URL: streamable HTTP, or SSE for older servers."`
	Headers        map[string]spec.Secret `yaml:"headers" doc:"Request headers; they may contain {user:key} and other state keys, {session.user_id} and {agent}. An optional placeholder without a value omits the header."`
	Auth           *connections.Ref       `yaml:"auth" doc:"The connection that authorizes the requests to the URL: its name under connections in app.yaml, the connection itself, or oauth: each user authorizes the app at the authorization server that the MCP server names."`
	Command        []spec.Text            `yaml:"command" doc:"Instead of url: the server program and its arguments. The host policy must allow it."`
	Env            map[string]spec.Secret `yaml:"env" doc:"Environment variables for the program; from the host it inherits only PATH, HOME and similar."`
	Cwd            spec.Text              `yaml:"cwd" doc:"The program's working directory, relative to the app folder; default: the app folder."`
	ConnectTimeout spec.Duration          `yaml:"connect_timeout" default:"10s" doc:"Maximum time to connect to the server, and to list its tools."`
	Timeout        spec.Duration          `yaml:"timeout" default:"30s" doc:"Maximum call duration."`
	ListCache      spec.Duration          `yaml:"list_cache" doc:"How long the server's lists are reused, unless it reports a change; default: tools are listed in each agent run."`
	Resources      resourcesConfig        `yaml:"resources" doc:"Gives the model the server's resources: true, or their names. It sees the names, and loads contents with load_mcp_resource."`
	Offer          offer                  `yaml:",inline"`
}

var (
	_ tool.AddressConfig  = (*config)(nil)
	_ tool.AddressConfig  = (*adkConfig[connections.UnsupportedADKAuth])(nil)
	_ tool.ProgramConfig  = (*config)(nil)
	_ tool.ProgramConfig  = (*adkConfig[connections.UnsupportedADKAuth])(nil)
	_ spec.Checker        = (*config)(nil)
	_ spec.Checker        = (*adkConfig[connections.UnsupportedADKAuth])(nil)
	_ tool.SamplingConfig = (*config)(nil)
	_ tool.StateConfig    = (*config)(nil)
	_ tool.StateConfig    = (*adkConfig[connections.UnsupportedADKAuth])(nil)
	_ tool.DynamicSet     = (*serverSet)(nil)

	_ connections.RefConfig = (*config)(nil)
	_ connections.RefConfig = (*adkConfig[connections.UnsupportedADKAuth])(nil)
	_ tool.SessionSet       = (*serverSet)(nil)
	_ tool.FinderSet        = (*serverSet)(nil)
	_ tool.FinderSet        = offlineSet{}
)

// Addresses returns the server's URL, if it has one.
func (c *config) Addresses() []spec.Text { return c.newServer().serverAddresses() }

// Connection returns the server's connection, or nil.
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

// StateUse returns the headers' placeholders and the confirmation condition.
func (c *config) StateUse(*spec.Node) tool.StateUse { return c.newServer().stateUse() }

// Advice lists the settings in other programs' configuration.
func (c *config) Advice() spec.Advice {
	const stdio = "remove it with command, which starts a program; with url, use transport: http or transport: sse"
	const env = "write a mapping: env: {NAME: value}, or env: {NAME: \"${env:NAME}\"} for a variable of the host"
	return spec.Advice{
		Fields: map[string]string{
			"type": stdio, "name": "remove it: the tools have their names from the server; tool_name_prefix adds to them",
			"serverUrl": "url", "httpUrl": "url", "endpoint": "url", "working_dir": "cwd", "workingDir": "cwd", "workdir": "cwd", "environment": "env",
			"disabled": "remove the tool to disable it", "ref": "write command: [docker, run, -i, --rm, IMAGE] for a server in a container",
		},
		Shapes: map[string]string{"env: []": env, "env: text": env},
	}
}

// DecodeSpec decodes the config.
func (c *config) DecodeSpec(n *spec.Node) spec.Diagnostics {
	joined, ds := toolconfig.JoinCommand(n)
	ds = append(spec.Decode(joined, c), ds...)
	if c.Auth != nil {
		c.Auth.Resource = c.URL
	}
	if joined != n {
		c.Command = nil // the policy is compared with the corrected one
	}
	return ds
}

// Check reports settings that belong to another transport.
func (c *config) Check(n *spec.Node) spec.Diagnostics {
	ds := append(toolconfig.CheckTimeout(n), c.newServer().checkConfig()...)
	ds = append(ds, c.Offer.Async.CheckAsync(n, false, true)...)
	ds = append(ds, c.Offer.checkElicitation(n)...)
	url, command := n.Get("url"), n.Get("command")
	switch {
	case url == nil && command == nil:
		return append(ds, n.Errorf("required", "an mcp tool requires url or command"))
	case url != nil && command != nil:
		return append(ds, command.Errorf("tool", "url and command are mutually exclusive: use a separate mcp tool for each"))
	}
	if path := strings.TrimSuffix(c.URL.Value, "/"); strings.HasSuffix(path, "/sse") && n.Get("transport").IsNull() {
		ds = append(ds, url.Warnf("tool", "the transport is http, and servers with the path /sse usually use the older one").
			WithHint("write transport: sse, or transport: http if the server speaks streamable HTTP here"))
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
