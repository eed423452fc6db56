package loader

import (
	"agenthost/pkg/agentconfig"
	"agenthost/pkg/model"
	"agenthost/pkg/provider"
	"agenthost/pkg/runtime"
	"agenthost/pkg/spec"
	"agenthost/pkg/tool"
)

// Kinds list what documents may name, and what schemas, reference and checks know. A nil
// list has no kinds. A program appends its own kinds to those of our packages; of two kinds
// with the same name, the first one is used. Loaders share the lists and do not change them.
type Kinds struct {
	// Models are the providers of models, such as [provider.Kinds].
	Models spec.Kinds[provider.Env, model.LLM]
	// Tools are the kinds of tools that documents declare by a key, such as [tool.Kinds].
	Tools spec.Kinds[tool.Env, tool.Set]
	// Builtins are the tools that documents name by name:, such as [tool.Builtins].
	Builtins spec.Kinds[tool.Env, tool.Set]
	// Agents are the classes of agents, such as [agentconfig.AgentKinds].
	Agents spec.Kinds[agentconfig.AgentEnv, runtime.Agent]
	// AgentTools are the tools that run an agent or a model, such as
	// [agentconfig.AgentToolKinds].
	AgentTools spec.Kinds[agentconfig.AgentToolEnv, tool.Set]
	// Plugins are the plugins of app.yaml, such as [agentconfig.PluginKinds].
	Plugins spec.Kinds[agentconfig.PluginEnv, *runtime.Plugin]
}
