package main

import (
	"slices"

	"github.com/spf13/cobra"

	"agenthost/internal/command"
	"agenthost/pkg/agentconfig"
	"agenthost/pkg/loader"
	"agenthost/pkg/provider"
	"agenthost/pkg/tool"
	"agenthost/wing/adk/adkcommand"
	"agenthost/wing/apptest/testcommand"
	"agenthost/wing/evaluation/evalcommand"
	"agenthost/wing/mcptool"
	"agenthost/wing/openapitool"
)

// listKinds returns all that documents may name.
func listKinds() loader.Kinds {
	return loader.Kinds{
		Models:     provider.Kinds(),
		Tools:      slices.Concat(tool.Kinds(), mcptool.Kinds(), openapitool.Kinds()),
		Builtins:   slices.Concat(tool.Builtins(), mcptool.Toolsets(), openapitool.Toolsets()),
		Agents:     agentconfig.AgentKinds(),
		AgentTools: agentconfig.AgentToolKinds(),
		Plugins:    agentconfig.PluginKinds(),
	}
}

// newLoader returns a loader with the kinds of this program; options may be nil.
func newLoader(opts *loader.Options) *loader.Loader {
	return command.Env{Kinds: listKinds()}.NewLoader(opts)
}

// wingCommands returns the commands of the wings.
func wingCommands(env command.Env) []*cobra.Command {
	return slices.Concat(
		testcommand.Commands(env),
		evalcommand.Commands(env),
		adkcommand.Commands(env),
	)
}
