package a2aserver

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	"agenthost/pkg/connection"
	"agenthost/pkg/loader"
	"agenthost/pkg/protocol"
	"agenthost/pkg/spec"
	"agenthost/pkg/tool"
)

// sectionKey is the key in app.yaml, and the rule of its problems.
const sectionKey = "a2a_server"

// Section returns the kind of a2a_server in app.yaml.
func Section() spec.Kind[loader.SectionEnv, any] {
	return spec.NewKind(sectionKey, "Serves the app to agents and clients of the Agent2Agent protocol at /a2a/APP; an empty mapping offers the root agent. See [a2a.md](a2a.md).",
		func(_ context.Context, env loader.SectionEnv, c *sectionConfig) (any, error) {
			return c.buildSettings(&env)
		})
}

// sectionConfig is a2a_server.
type sectionConfig struct {
	Agents        []string        `yaml:"agents" doc:"Agents with a card of their own, at /a2a/APP/agents/AGENT; at most 64. They are in the agent tree, and neither a workflow's node nor called as a tool."`
	Version       string          `yaml:"version" default:"1.0.0" doc:"The agent's version on its card."`
	Provider      *providerConfig `yaml:"provider" doc:"Who offers the agent, on its card."`
	IconURL       string          `yaml:"icon_url" doc:"An https:// address for an icon, on the card."`
	Documentation string          `yaml:"documentation_url" doc:"An https:// address for documentation, on the card."`
	PushHosts     []spec.Text     `yaml:"push_hosts" doc:"Hosts at which clients may receive push notifications, such as hooks.example.com, hooks.example.com:8443 or *.example.com; at most 32. Without them the agent offers none. The host's policy must grant them, too."`
	Messages      bool            `yaml:"direct_messages" doc:"Answer a turn that asks nothing with a message instead of a task with artifacts."`
}

type providerConfig struct {
	Organization string `yaml:"organization" required:"true" doc:"The name."`
	URL          string `yaml:"url" required:"true" doc:"An https:// address."`
}

const (
	maxAgents    = 64
	maxPushHosts = 32
)

var _ tool.AddressConfig = (*sectionConfig)(nil)

// Addresses implements [tool.AddressConfig]. The host's grant for a pattern is the same pattern.
func (c *sectionConfig) Addresses() []spec.Text {
	var all []spec.Text
	for _, host := range c.PushHosts {
		if connection.IsHostPattern(host.Value) {
			host.Value = "https://" + host.Value
			all = append(all, host)
		}
	}
	return all
}

// Check reports values that are not in their range, at their position in n, the mapping that the
// config was decoded from.
func (c *sectionConfig) Check(n *spec.Node) spec.Diagnostics {
	var all spec.Diagnostics
	if len(c.Agents) > maxAgents {
		all = append(all, n.Get("agents").Errorf(sectionKey, "agents exceeds the limit of %d, got %d", maxAgents, len(c.Agents)))
	}
	if len(c.PushHosts) > maxPushHosts {
		all = append(all, n.Get("push_hosts").Errorf(sectionKey, "push_hosts exceeds the limit of %d, got %d", maxPushHosts, len(c.PushHosts)))
	}
	for _, host := range c.PushHosts {
		if !connection.IsHostPattern(host.Value) {
			all = append(all, host.Errorf(0, sectionKey, "push_hosts must be hosts such as hooks.example.com, hooks.example.com:8443 or *.example.com, got %q", host.Value))
		}
	}
	checkURL := func(at *spec.Node, name, address string) {
		if u, err := url.Parse(address); address != "" && (err != nil || u.Scheme != "https" || u.Host == "") {
			all = append(all, at.Errorf(sectionKey, "%s must be an https:// address, got %q", name, address))
		}
	}
	checkURL(n.Get("icon_url"), "icon_url", c.IconURL)
	checkURL(n.Get("documentation_url"), "documentation_url", c.Documentation)
	if c.Provider != nil {
		checkURL(n.Get("provider").Get("url"), "provider.url", c.Provider.URL)
	}
	return all
}

// Settings are what an app offers to A2A's clients.
type Settings struct {
	// Agents are the agents with a card of their own, besides the root.
	Agents  []string
	version string
	// organization and address are the provider's; both may be empty.
	organization, address   string
	iconURL, documentation  string
	answersByDirectMessages bool
	// pushHosts may receive notifications, and client reaches them; both are nil without push_hosts.
	pushHosts []connection.HostPattern
	client    *http.Client
}

func (c *sectionConfig) buildSettings(env *loader.SectionEnv) (*Settings, error) {
	for _, name := range c.Agents {
		if protocol.FindAgent(env.Root, name) == nil {
			return nil, fmt.Errorf("agent %q not found in the agent tree, or it is a workflow's node", name)
		}
	}
	s := &Settings{Agents: c.Agents, version: c.Version, iconURL: c.IconURL, documentation: c.Documentation, answersByDirectMessages: c.Messages, client: env.HTTP}
	for _, host := range c.PushHosts {
		s.pushHosts = append(s.pushHosts, connection.ParseHostPattern(host.Value))
	}
	if c.Provider != nil {
		s.organization, s.address = c.Provider.Organization, c.Provider.URL
	}
	return s, nil
}
