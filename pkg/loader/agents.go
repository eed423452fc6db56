package loader

import (
	"agenthost/internal/agentconfig"
	"agenthost/pkg/runtime"
	"agenthost/pkg/spec"
	"agenthost/pkg/tool"
)

// The types that a program's own kinds declare and get. An agent class config embeds [CommonConfig]
// and, for the agents and tools to build first, has methods AgentRefs and ToolRefs that return
// references to its fields.
type (
	// AgentEnv is what the loader has resolved for an agent before it is built.
	AgentEnv = agentconfig.AgentEnv
	// AgentToolEnv is the same for a tool that runs an agent or a model.
	AgentToolEnv = agentconfig.AgentToolEnv
	// PluginEnv is the same for a plugin.
	PluginEnv = agentconfig.PluginEnv
	// CommonConfig has the fields that all agent classes have.
	CommonConfig = agentconfig.CommonConfig
	// AgentRef is a field that refers to an agent: a file, a name or the agent inline.
	AgentRef = agentconfig.AgentRef
	// ToolRef is a field that refers to a tool: its settings or a name.
	ToolRef = agentconfig.ToolRef
	// ExecutorKinds are the code executors that a program lists.
	ExecutorKinds = agentconfig.ExecutorKinds
	// ExecutorEnv is what the loader has resolved for a code executor before it is built.
	ExecutorEnv = agentconfig.ExecutorEnv
	// ExecutorUse is how an agent uses a code executor.
	ExecutorUse = agentconfig.ExecutorUse
	// ExecutorChecker, ProgramExecutor, HostChecker and ADKExecutor are what a code executor config
	// may implement.
	ExecutorChecker = agentconfig.ExecutorChecker
	ProgramExecutor = agentconfig.ProgramExecutor
	HostChecker     = agentconfig.HostChecker
	ADKExecutor     = agentconfig.ADKExecutor
	// Functions are Go functions that documents name, by these names.
	Functions = agentconfig.Functions
)

// AgentKinds returns agenthost's agent classes.
func AgentKinds() spec.Kinds[AgentEnv, runtime.Agent] { return agentconfig.AgentKinds() }

// AgentToolKinds returns agenthost's tools that run an agent or a model.
func AgentToolKinds() spec.Kinds[AgentToolEnv, tool.Set] { return agentconfig.AgentToolKinds() }

// PluginKinds returns agenthost's plugins.
func PluginKinds() spec.Kinds[PluginEnv, *runtime.Plugin] { return agentconfig.PluginKinds() }
