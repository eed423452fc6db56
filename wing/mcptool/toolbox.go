package mcptool

import (
	"context"
	"net/url"
	"time"

	"agenthost/internal/baseurl"
	"agenthost/internal/toolconfig"
	"agenthost/internal/toolhttp"
	"agenthost/pkg/spec"
	"agenthost/pkg/tool"
)

// toolboxConfig is ADK's ToolboxToolset args, as far as they are data: an MCP Toolbox for Databases
// serves its toolsets as MCP servers.
type toolboxConfig struct {
	ServerURL         spec.Text                 `yaml:"server_url" required:"true" doc:"The Toolbox URL, without /mcp."`
	ToolsetName       string                    `yaml:"toolset_name" doc:"The toolset; default: all tools in the Toolbox."`
	ToolNames         []string                  `yaml:"tool_names" doc:"The tools to provide, by their names; default: all tools in the toolset."`
	AdditionalHeaders map[string]spec.Secret    `yaml:"additional_headers" doc:"Request headers, as in McpToolset. An authentication service's token goes into the header NAME_token."`
	Confirm           toolconfig.ToolsetConfirm `yaml:"confirm" doc:"Whether a call requires confirmation by a person, as for McpToolset."`
	OnError           string                    `yaml:"on_error" enum:"return|fail" default:"return" doc:"Whether an error is returned to the model or ends the invocation."`
	MaxResult         spec.Size                 `yaml:"max_result" default:"4MiB" doc:"Maximum result size."`
}

var (
	_ tool.AddressConfig = (*toolboxConfig)(nil)
	_ tool.StateConfig   = (*toolboxConfig)(nil)
	_ spec.Checker       = (*toolboxConfig)(nil)
)

// Addresses returns the server's URL.
func (c *toolboxConfig) Addresses() []spec.Text { return c.newServer().serverAddresses() }

// StateUse returns the headers' placeholders and the confirmation condition.
func (c *toolboxConfig) StateUse(*spec.Node) tool.StateUse { return c.newServer().stateUse() }

// Check reports settings with which the server can never be reached.
func (c *toolboxConfig) Check(*spec.Node) spec.Diagnostics { return c.newServer().checkConfig() }

// newServer returns the MCP server for the toolset, with ADK's timeouts.
func (c *toolboxConfig) newServer() *server {
	address := c.ServerURL
	if toolhttp.ConstantHost(address.Value) != "" {
		path := "/mcp"
		if c.ToolsetName != "" {
			path += "/" + url.PathEscape(c.ToolsetName)
		}
		address.Value = baseurl.Join(address.Value, path)
	}
	return &server{
		url: address, headers: c.AdditionalHeaders, connectTimeout: 5 * time.Second, callTimeout: 300 * time.Second,
		offer: offer{ToolFilter: c.ToolNames, Confirm: c.Confirm, OnError: c.OnError, MaxResult: c.MaxResult},
	}
}

func newToolboxSet(_ context.Context, env tool.Env, c *toolboxConfig) (tool.Set, error) {
	return c.newServer().newSet(env)
}
