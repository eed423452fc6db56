package main

import (
	"agenthost/internal/modeltest"
	"agenthost/pkg/loader"
	"agenthost/pkg/tool/builtin"
	"agenthost/pkg/tool/httptool"
	connections "agenthost/wing/connection"
	"agenthost/wing/live"
)

// listKinds returns what the proofs' apps may name.
func listKinds() loader.Kinds {
	return loader.Kinds{
		Models:      modeltest.AllKinds(),
		Tools:       append(builtin.Kinds(), httptool.Kinds()...),
		Builtins:    append(builtin.Builtins(), httptool.Builtins()...),
		Agents:      loader.AgentKinds(),
		AgentTools:  loader.AgentToolKinds(),
		Connections: connections.NewKind(nil),
		Plugins:     loader.PluginKinds(),
		Live:        live.Driver{},
	}
}
