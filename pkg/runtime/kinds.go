package runtime

import (
	"agenthost/pkg/model"
	"agenthost/pkg/spec"
	"agenthost/pkg/tool"
)

// AgentEnv has the parts that an agent is built from.
type AgentEnv struct {
	SubAgents []Agent
	Tools     []tool.Tool
	// Toolsets provide tools that are listed during a run.
	Toolsets []tool.Set
	// Model is nil if the agent does not set one.
	Model model.LLM
}

// AgentKinds returns the agent classes that documents can use.
func AgentKinds() spec.Kinds[AgentEnv, Agent] {
	return spec.Kinds[AgentEnv, Agent]{
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

// AgentToolEnv has the parts that an agent tool is built from.
type AgentToolEnv struct {
	Agent Agent
}

// AgentToolKinds returns the kinds of agent tools: ADK's AgentTool, and the short
// form.
func AgentToolKinds() spec.Kinds[AgentToolEnv, tool.Set] {
	return spec.Kinds[AgentToolEnv, tool.Set]{
		spec.NewKind("AgentTool", "Lets the model call an agent (ADK's form, with args).", newAgentTool),
		spec.NewKind("agent", "Lets the model call an agent.", newAgentKind),
	}
}

// asBuiltin returns an agent of this package, or nil. An agent that embeds one
// of them is not built in: its own Run is called.
func asBuiltin(agent Agent) builtinAgent {
	switch a := agent.(type) {
	case *LLMAgent, *SequentialAgent, *ParallelAgent, *LoopAgent, *RouterAgent, *Workflow, *JoinNode:
		return a.(builtinAgent)
	}
	return nil
}
