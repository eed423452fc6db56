package loader

import (
	"context"
	"unicode"

	"agenthost/pkg/spec"
	"agenthost/pkg/tool"
)

// checkAgentName returns an agent's name. It must be an identifier, but not "user", the
// author of user messages (adk-python agents/base_agent.py).
func (j *job) checkAgentName(n *spec.Node) string {
	at := n.Get("name")
	if at == nil || at.Kind != spec.Scalar || at.IsNull() {
		return ""
	}
	switch {
	case at.Value == "user":
		j.report(at.Errorf("agent-name", "the agent name user is reserved for the author of user messages"))
	case !isIdentifier(at.Value):
		j.report(at.Errorf("agent-name", "agent name %q is not an identifier", at.Value).
			WithHint("use letters, digits and underscores, beginning with a letter"))
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

// checkSiblings warns of sub-agents with the same name: only the first one can be a
// transfer target. ADK also warns.
func (j *job) checkSiblings(p *resolvedAgent) {
	seen := map[string]bool{}
	for _, sub := range p.subs {
		if sub.name != "" && seen[sub.name] {
			j.report(sub.plan.Node.Get("name").Warnf("duplicate-name", "agent %s has more than one sub-agent named %s", p.name, sub.name))
		}
		seen[sub.name] = true
	}
}

// checkJoinNodes rejects a JoinNode outside of a Workflow.
func (j *job) checkJoinNodes(p *resolvedAgent) {
	if p.plan.Kind.Name == "Workflow" {
		return
	}
	for _, sub := range p.subs {
		if sub.plan.Kind.Name == "JoinNode" {
			j.report(sub.plan.Node.Errorf("edges", "JoinNode %s is not a node of a Workflow", sub.name))
		}
	}
}

// checkToolNames warns of tools with the same name: a model can call only the first
// one.
func (j *job) checkToolNames(ctx context.Context, p *resolvedAgent) {
	seen := map[string]bool{}
	for _, t := range p.tools {
		for _, name := range t.listToolNames(ctx) {
			if seen[name] {
				j.report(t.at.Warnf("duplicate-name", "agent %s has more than one tool named %s: only the first one is called", p.name, name))
			}
			seen[name] = true
		}
	}
}

// isDynamic reports whether the tools are unknown until a run lists them.
func (t *resolvedTool) isDynamic() bool { return t.set != nil && tool.Dynamic(t.set) }

// listToolNames returns the names of the tools for the model. A set that cannot list
// its tools now has none; the run reports the error.
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
