package main

import (
	"agenthost/internal/modeltest"
	"agenthost/pkg/loader"
	"agenthost/pkg/tool"
)

// listKinds returns what the apps of the proofs may name.
func listKinds() loader.Kinds {
	return loader.Kinds{
		Models:     modeltest.AllKinds(),
		Tools:      tool.Kinds(),
		Builtins:   tool.Builtins(),
		Agents:     loader.AgentKinds(),
		AgentTools: loader.AgentToolKinds(),
		Plugins:    loader.PluginKinds(),
	}
}
