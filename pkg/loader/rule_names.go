package loader

import (
	"context"
	"unicode"

	"agenthost/pkg/spec"
	"agenthost/pkg/tool"
)

// checkAgentName returns an agent's name. It must be an identifier and not "user",
// which is the author of what the user says (adk-python agents/base_agent.py).
func (j *job) checkAgentName(n *spec.Node) string {
	at := n.Get("name")
	if at == nil || at.Kind != spec.Scalar || at.IsNull() {
		return ""
	}
	switch {
	case at.Value == "user":
		j.report(at.Errorf("agent-name", "an agent cannot be named user: that is the author of what the user says"))
	case !isIdentifier(at.Value):
		j.report(at.Errorf("agent-name", "agent name %q is not an identifier", at.Value).
			WithHint("use letters, digits and underscores, and begin with a letter"))
	}
	return at.Value
}

func isIdentifier(s string) bool {
	for i, r := range s {
		if r != '_' && !unicode.IsLetter(r) && (i == 0 || !unicode.IsDigit(r)) {
			return false
		}
	}
	return s != ""
}

// checkSiblings warns of sub-agents with one name: only the first of them can
// be handed over to. ADK warns too, and goes on.
func (j *job) checkSiblings(p *resolvedAgent) {
	seen := map[string]bool{}
	for _, sub := range p.subs {
		if sub.name != "" && seen[sub.name] {
			j.report(sub.plan.Node.Get("name").Warnf("duplicate-name", "agent %s has another sub-agent named %s", p.name, sub.name))
		}
		seen[sub.name] = true
	}
}

// checkJoinNodes refuses a JoinNode that is no node of a Workflow.
func (j *job) checkJoinNodes(p *resolvedAgent) {
	if p.plan.Kind.Name == "Workflow" {
		return
	}
	for _, sub := range p.subs {
		if sub.plan.Kind.Name == "JoinNode" {
			j.report(sub.plan.Node.Errorf("edges", "the JoinNode %s is no node of a Workflow: there is nothing to join", sub.name))
		}
	}
}

// checkToolNames warns of tools with one name: a model can call only one of
// them, which is the first.
func (j *job) checkToolNames(ctx context.Context, p *resolvedAgent) {
	seen := map[string]bool{}
	for _, t := range p.tools {
		for _, name := range t.listToolNames(ctx) {
			if seen[name] {
				j.report(t.at.Warnf("duplicate-name", "agent %s has another tool named %s: the first one is called", p.name, name))
			}
			seen[name] = true
		}
	}
}

// isDynamic says whether the tools are not known before a run asks for them.
func (t *resolvedTool) isDynamic() bool { return t.set != nil && tool.Dynamic(t.set) }

// listToolNames are the names by which a model knows the tools. A set that cannot list
// them now has none; the run will tell.
func (t *resolvedTool) listToolNames(ctx context.Context) []string {
	if t.isDynamic() {
		return nil
	}
	if t.agent != nil {
		return []string{t.agent.name}
	}
	tools, err := t.set.Tools(ctx)
	if err != nil {
		return nil
	}
	names := make([]string, len(tools))
	for i, one := range tools {
		names[i] = one.Declaration().Name
	}
	return names
}
