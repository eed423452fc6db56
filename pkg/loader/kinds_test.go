package loader

import (
	"slices"
	"strings"
	"testing"

	"agenthost/pkg/agentconfig"
	"agenthost/pkg/provider"
	"agenthost/pkg/tool"
	"agenthost/wing/mcptool"
	"agenthost/wing/openapitool"
)

// listKinds returns the kinds of testenv.Kinds, whose package imports this one.
func listKinds() Kinds {
	return Kinds{
		Models:     provider.Kinds(),
		Tools:      slices.Concat(tool.Kinds(), mcptool.Kinds(), openapitool.Kinds()),
		Builtins:   slices.Concat(tool.Builtins(), mcptool.Toolsets(), openapitool.Toolsets()),
		Agents:     agentconfig.AgentKinds(),
		AgentTools: agentconfig.AgentToolKinds(),
		Plugins:    agentconfig.PluginKinds(),
	}
}

// Without kinds, an app with an agent has a problem at the agent.
func TestNoKinds(t *testing.T) {
	s := newWatchEnv(t)
	s.writeFile("x/root_agent.yaml", "name: x\nmodel: m\ninstruction: y\n")
	ds := New(Kinds{}, nil).Check(t.Context(), s.path("x"))
	if got := ds.Error(); !strings.Contains(got, "this program has no agent classes") {
		t.Errorf("problems = %s", got)
	}
}
