package runtime

import (
	"agenthost/pkg/model"
	"agenthost/pkg/spec"
	"agenthost/pkg/tool"
)

// AgentEnv is what an agent is built from: its parts, already built.
type AgentEnv struct {
	SubAgents []Agent
	Tools     []tool.Tool
	// Toolsets are tools that are not known before a run asks for them.
	Toolsets []tool.Set
	// Model is nil when the agent names none.
	Model model.LLM
}

// AgentKinds lists every agent class that a document may name.
func AgentKinds() spec.Kinds[AgentEnv, Agent] {
	return spec.Kinds[AgentEnv, Agent]{
		spec.NewKind("LlmAgent", "Asks a model, and carries out the calls that it makes.", newLLM),
		spec.NewKind("SequentialAgent", "Runs its sub-agents one after the other.", newSequential),
		spec.NewKind("ParallelAgent", "Runs its sub-agents side by side, each on its own branch.", newParallel),
		spec.NewKind("LoopAgent", "Runs its sub-agents again and again until it is told to stop.", newLoop),
		spec.NewKind("RouterAgent", "Runs one of its agents, chosen by conditions.", newRouter),
		spec.NewKind("Workflow", "Runs a graph of agents along its edges.", newWorkflow),
		spec.NewKind("FunctionNode", "In a Workflow: computes, by an expression or a function of the program.", newConfiguredFunctionNode),
		spec.NewKind("ToolNode", "In a Workflow: calls a tool.", newConfiguredToolNode),
		spec.NewKind("JoinNode", "In a Workflow: waits for all nodes before it.", newJoin),
	}
}

// AgentToolEnv is what a tool made of an agent is built from.
type AgentToolEnv struct {
	Agent Agent
}

// AgentToolKinds lists the ways to name an agent as a tool: ADK's AgentTool,
// and our short form.
func AgentToolKinds() spec.Kinds[AgentToolEnv, tool.Set] {
	return spec.Kinds[AgentToolEnv, tool.Set]{
		spec.NewKind("AgentTool", "Lets the model call an agent (ADK's form, with args).", newAgentTool),
		spec.NewKind("agent", "Lets the model call an agent.", newAgentKind),
	}
}
