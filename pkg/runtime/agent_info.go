package runtime

import (
	"google.golang.org/genai"

	"agenthost/pkg/tool"
)

// An AgentInfo says what an agent is made of, for people who look at an app. What
// it does not have is empty.
type AgentInfo struct {
	// Kind is the agent's class as documents name it; that of agents written in
	// Go is empty.
	Kind              string
	Name, Description string
	// Model is the one that the agent asks, its own or an inherited one.
	Model string
	// Instruction is as it was written, with its placeholders.
	Instruction     string
	OutputKey       string
	IncludeContents IncludeContents
	MaxIterations   int
	// Tools are the agent's own, without those that the runtime adds.
	Tools []ToolInfo
	// Agents are those below it, in order.
	Agents []*AgentInfo
	// Edges are those of a workflow, between its Agents.
	Edges []Edge
}

// A ToolInfo says what a tool is.
type ToolInfo struct {
	Declaration *genai.FunctionDeclaration
	// Agent is the one that the tool calls, or nil.
	Agent *AgentInfo
	// Builtin tools are the model's, and never called by name.
	Builtin bool
}

// AgentInfo is that of the tree, from the root down.
func (a *App) AgentInfo() *AgentInfo { return a.rootNode.describeAgent() }

// Find is the portrait of the first agent of a name, from this one down, agents
// that are called as tools apart; nil if there is none.
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
