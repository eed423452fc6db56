package loader

import (
	"context"
	"iter"

	"agenthost/pkg/spec"
)

// InspectAgents resolves a folder's app without building it, and calls look if it has no errors. It
// returns the documents' diagnostics, with those that look reports.
func (l *Loader) InspectAgents(ctx context.Context, dir string, look func(*Inspection)) spec.Diagnostics {
	return l.inspectApp(ctx, dir, func(r *resolver) { look(&Inspection{r}) })
}

// An InspectedAgent is an agent at its position in an app's tree.
type InspectedAgent struct {
	// Name is its name, Class its agent class, such as LlmAgent.
	Name, Class string
	// At is the reference to the agent, nil for the root.
	At *spec.Node
	// Base is the mapping as written, with its class defaults. Node is the mapping that Config was
	// decoded from, with names replaced by their declarations.
	Base, Node *spec.Node
	// Config are the settings, a value with the type that the class decodes.
	Config any
	// Agents are the sub-agents, and a workflow's nodes.
	Agents []*InspectedAgent
	Tools  []*InspectedTool
}

// An InspectedTool is an entry in an agent's tools.
type InspectedTool struct {
	// At is the entry. Declaration is the node that declares the tool: At, or the tool
	// that At names.
	At, Declaration *spec.Node
	// Agent is the agent that the tool calls, or nil. Node has such a tool's settings, and is nil
	// for other tools.
	Agent *InspectedAgent
	Node  *spec.Node
}

// RootAgent returns the app's agents from the root, or nil if the root agent could not be resolved.
// Each call returns a new tree with the same nodes, which must not be changed.
func (in *Inspection) RootAgent() *InspectedAgent {
	if in.r.app.root == nil {
		return nil
	}
	return in.r.app.root.describeAgent(in.r.app.names.tools)
}

// describe returns the agent and its descendants. tools are the declared tools.
func (p *resolvedAgent) describeAgent(tools map[string]part) *InspectedAgent {
	a := &InspectedAgent{Name: p.name, Class: p.plan.Kind.Name, At: p.at, Base: p.base, Node: p.plan.Node, Config: p.plan.Config}
	for _, sub := range p.subs {
		a.Agents = append(a.Agents, sub.describeAgent(tools))
	}
	for _, t := range p.tools {
		d := &InspectedTool{At: t.at, Declaration: t.at}
		if use := t.at.Get("use"); use != nil {
			d.Declaration = tools[use.Value].node
		}
		if t.agent != nil {
			d.Agent, d.Node = t.agent.describeAgent(tools), t.plan.Node
		}
		a.Tools = append(a.Tools, d)
	}
	return a
}

// PartKeys returns the declaration keys in agent files, such as models.
func (in *Inspection) PartKeys() []*spec.Node { return in.r.app.partKeys }

// UsedFunctions yields the functions entries that the app uses, sorted by name.
func (in *Inspection) UsedFunctions() iter.Seq2[string, *spec.Node] {
	return func(yield func(string, *spec.Node) bool) {
		for name, f := range sortedParts(in.r.app.names.functions) {
			if in.r.app.used[f.node] && !yield(name, f.node) {
				return
			}
		}
	}
}

// DeclaredModel returns a model's declaration, or nil if the app declares no such model.
func (in *Inspection) DeclaredModel(name string) *spec.Node { return in.r.app.names.models[name].node }

// SplitModelName returns an undeclared model's provider, and its name there. ok is false if no
// provider has the name.
func (in *Inspection) SplitModelName(name string) (provider, rest string, ok bool) {
	kind, rest, ok := in.r.loader.findModelKind(name)
	return kind.Name, rest, ok
}
