// Package agentconfig is the YAML of agents, agent tools and plugins. A config struct with tags is
// each one's parser, checks, JSON Schema and reference:
//
//  1. [AgentKinds], [AgentToolKinds] and [PluginKinds] list what documents can
//     declare. A [spec.Kind] binds a name to a config and to the function that
//     builds it.
//  2. The kind decodes a mapping into its config, and reports every problem at its
//     position. [DecodeCallbacks] decodes the callbacks of an agent.
//  3. The loader resolves what the config refers to, by interfaces such as
//     [AgentConfig] and [FunctionConfig], and collects it in an [AgentEnv].
//  4. The kind builds the agent: it compiles expressions and texts, and calls a
//     constructor of package runtime. Go programs can call the same constructors.
//
// [StateUse] describes how an agent's YAML uses the session state, for checks on whole apps.
package agentconfig

import (
	"agenthost/pkg/runtime"
	"agenthost/pkg/spec"
	"agenthost/pkg/tool"
)

// AgentKinds returns the agent classes that documents can use.
func AgentKinds() spec.Kinds[AgentEnv, runtime.Agent] {
	return spec.Kinds[AgentEnv, runtime.Agent]{
		spec.NewKind("LlmAgent", "Calls a model and executes its tool calls.", newLLM),
		spec.NewKind("SequentialAgent", "Runs its sub-agents one after the other.", newSequential),
		spec.NewKind("ParallelAgent", "Runs its sub-agents concurrently, each on its own branch.", newParallel),
		spec.NewKind("LoopAgent", "Runs its sub-agents repeatedly until a sub-agent escalates, a condition is true, or the maximum of iterations is reached.", newLoop),
		spec.NewKind("RouterAgent", "Runs one of its agents, chosen by conditions.", newRouter),
		spec.NewKind("Workflow", "Runs a graph of agents along its edges.", newWorkflow),
		spec.NewKind("FunctionNode", "In a Workflow: computes a value with an expression or a function of the program.", newConfiguredFunctionNode),
		spec.NewKind("ToolNode", "In a Workflow: calls a tool.", newConfiguredToolNode),
		spec.NewKind("JoinNode", "In a Workflow: waits for all its predecessors.", newJoin),
	}
}

// AgentToolKinds returns the tool kinds that run an agent or a model: ADK's AgentTool and its short
// form, and ModelConsultTool.
func AgentToolKinds() spec.Kinds[AgentToolEnv, tool.Set] {
	return spec.Kinds[AgentToolEnv, tool.Set]{
		spec.NewKind("AgentTool", "Lets the model call an agent (ADK's form, with args).", newAgentTool),
		spec.NewKind("agent", "Lets the model call an agent.", newAgentKind),
		spec.NewKind("ModelConsultTool", "Lets the model ask a more capable model for guidance.", newConsultTool),
	}
}

// PluginKinds returns the plugins that app.yaml can use.
func PluginKinds() spec.Kinds[PluginEnv, *runtime.Plugin] {
	return spec.Kinds[PluginEnv, *runtime.Plugin]{
		spec.NewKind("add_to_memory", "Adds the events of each run to the memory when the run ends.", newAddToMemory),
		spec.NewKind("context_filter", "Sends models only the last turns of a conversation.", newContextFilter),
		spec.NewKind("global_instruction", "Puts an instruction before the instructions of every agent.", newGlobalInstruction),
		spec.NewKind("logging", "Logs the steps of each run.", newLogging),
		spec.NewKind("retry_and_reflect", "Returns guidance to the model when a tool fails, so that it retries.", newRetryAndReflect),
		spec.NewKind("save_files_as_artifacts", "Saves files in user messages as artifacts.", newSaveFiles),
	}
}

var (
	_ ModelConfig       = (*llmConfig)(nil)
	_ InstructionConfig = (*llmConfig)(nil)
	_ CodeConfig        = (*llmConfig)(nil)
	_ FileConfig        = (*llmConfig)(nil)
	_ AgentConfig       = (*llmConfig)(nil)
	_ AgentConfig       = (*workflowConfig)(nil)
	_ AgentConfig       = (*loopConfig)(nil)
	_ AgentConfig       = (*sequentialConfig)(nil)
	_ AgentConfig       = (*parallelConfig)(nil)
	_ AgentConfig       = (*routerConfig)(nil)
	_ AgentConfig       = (*agentToolConfig)(nil)
	_ AgentConfig       = (*agentKindConfig)(nil)
	_ ToolConfig        = (*llmConfig)(nil)
	_ ToolConfig        = (*toolNodeConfig)(nil)
	_ ExecutorConfig    = (*llmConfig)(nil)
	_ FunctionConfig    = (*toolNodeConfig)(nil)
	_ FunctionConfig    = (*functionNodeConfig)(nil)
	_ FunctionConfig    = (*contextFilterConfig)(nil)
	_ EdgeConfig        = (*workflowConfig)(nil)
	_ RouteConfig       = (*routerConfig)(nil)
	_ tool.StateConfig  = (*agentToolConfig)(nil)
	_ tool.StateConfig  = (*agentKindConfig)(nil)
	_ spec.Checker      = (*llmConfig)(nil)
	_ spec.Checker      = (*workflowConfig)(nil)
	_ spec.Checker      = (*loopConfig)(nil)
	_ spec.Checker      = (*routerConfig)(nil)
	_ spec.Checker      = (*agentToolConfig)(nil)
	_ spec.Checker      = (*agentKindConfig)(nil)
	_ spec.Checker      = (*toolNodeConfig)(nil)
	_ spec.Checker      = (*functionNodeConfig)(nil)
)
