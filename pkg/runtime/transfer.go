package runtime

import (
	"fmt"
	"slices"
	"strings"
)

// listTransferTargets returns the agents that an LLM agent can transfer to: its
// children, and its parent and peers if the parent is an LLM agent and nothing
// forbids it (adk-python flows/llm_flows/agent_transfer.py).
func listTransferTargets(n *node, a *LLMAgent) []*node {
	targets := slices.Clone(n.children)
	if n.parent == nil {
		return targets
	}
	if _, ok := n.parent.agent.(*LLMAgent); !ok {
		return targets
	}
	if !a.opts.DisallowTransferToParent {
		targets = append(targets, n.parent)
	}
	if !a.opts.DisallowTransferToPeers {
		for _, peer := range n.parent.children {
			if peer != n {
				targets = append(targets, peer)
			}
		}
	}
	return targets
}

func targetNames(targets []*node) []string {
	names := make([]string, len(targets))
	for i, t := range targets {
		names[i] = t.agent.Name()
	}
	return names
}

// transferInstruction returns the instruction about transfer targets; empty
// without any.
func transferInstruction(n *node) string {
	if len(n.transferTargets) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("Other agents can take over the conversation:\n")
	for _, t := range n.transferTargets {
		fmt.Fprintf(&b, "\nAgent name: %s\nAgent description: %s\n", t.agent.Name(), t.agent.Description())
	}
	names := targetNames(n.transferTargets)
	slices.Sort(names)
	fmt.Fprintf(&b, "\nAnswer yourself when you are the best one for the question. When another agent is better placed by its description, "+
		"call the function `transfer_to_agent` with that agent's name, and write nothing besides the call. "+
		"The only names you may use are: `%s`.", strings.Join(names, "`, `"))
	if p := n.parent; p != nil && slices.Contains(n.transferTargets, p) {
		fmt.Fprintf(&b, "\n\nWhen neither you nor one of the others fits, hand over to your parent agent `%s`.", p.agent.Name())
	}
	return b.String()
}
