package runtime

import (
	"google.golang.org/genai"

	"agenthost/pkg/tool"
)

// An AgentInfo describes an agent for people who inspect an app. Fields that
// do not apply are empty.
type AgentInfo struct {
	// Kind is the agent class in documents; empty for agents of other Go
	// packages.
	Kind              string
	Name, Description string
	// Model is the agent's own or inherited model.
	Model string
	// Instruction is the source text with placeholders.
	Instruction     string
	OutputKey       string
	IncludeContents IncludeContents
	MaxIterations   int
	// Tools are the agent's own, without those that the runtime adds.
	Tools []ToolInfo
	// Agents are the sub-agents, in order.
	Agents []*AgentInfo
	// Edges are the edges of a workflow, between its Agents.
	Edges []Edge
}

// A ToolInfo describes a tool.
type ToolInfo struct {
	Declaration *genai.FunctionDeclaration
	// Agent is the agent that the tool calls, or nil.
	Agent *AgentInfo
	// Builtin tools run in the model's service and are never called by name.
	Builtin bool
}

// AgentInfo describes the agent tree.
func (a *App) AgentInfo() *AgentInfo { return a.rootNode.describeAgent() }

// Find returns the first agent of a name, depth first, or nil. Agents that are
// called as tools are not searched.
func (p *AgentInfo) Find(name string) *AgentInfo {
	if p.Name == name {
		return p
	}
	for _, child := range p.Agents {
		if hit := child.Find(name); hit != nil {
			return hit
		}
	}
	return nil
}

func (n *node) describeAgent() *AgentInfo {
	p := &AgentInfo{Name: n.agent.Name(), Description: n.agent.Description()}
	for _, c := range n.children {
		p.Agents = append(p.Agents, c.describeAgent())
	}
	switch a := n.agent.(type) {
	case *LLMAgent:
		p.Kind, p.Model = "LlmAgent", n.llm.Name()
		p.Instruction, p.OutputKey, p.IncludeContents = a.opts.Instruction.sourceText(), a.opts.OutputKey, a.opts.IncludeContents
		p.Tools = describeTools(a.opts.Tools, n)
	case *SequentialAgent:
		p.Kind = "SequentialAgent"
	case *ParallelAgent:
		p.Kind = "ParallelAgent"
	case *LoopAgent:
		p.Kind, p.MaxIterations = "LoopAgent", a.opts.MaxIterations
	case *RouterAgent:
		p.Kind = "RouterAgent"
	case *Workflow:
		p.Kind = "Workflow"
		for _, from := range a.edges {
			p.Edges = append(p.Edges, from...)
		}
	case *FunctionNode:
		p.Kind, p.OutputKey = "FunctionNode", a.outputKey
	case *ToolNode:
		p.Kind, p.OutputKey = "ToolNode", a.opts.OutputKey
		p.Tools = describeTools([]tool.Tool{a.tool}, n)
	case *JoinNode:
		p.Kind = "JoinNode"
	}
	return p
}

func describeTools(tools []tool.Tool, n *node) []ToolInfo {
	var all []ToolInfo
	for _, t := range tools {
		p := ToolInfo{Declaration: t.Declaration(), Builtin: tool.CapabilitiesOf(t).Builtin}
		if placed, ok := n.tools.byName[p.Declaration.Name].(*boundAgentTool); ok {
			p.Agent = placed.app.AgentInfo()
		}
		all = append(all, p)
	}
	return all
}
