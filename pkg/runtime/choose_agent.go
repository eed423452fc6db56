package runtime

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"agenthost/pkg/session"
)

// initTurnInvocation initializes inv for the agent that answers. An agent that answers a call keeps
// the call's branch.
func (r *run) initTurnInvocation(inv *Invocation) {
	inv.run, inv.node = r, r.chooseAgent()
	inv.path = rootPathOf(inv.node)
	if call := r.findAnsweredCall(); call != nil {
		n, branch := r.app.findNode(call.NodeName()), call.Branch
		for ; n != nil && n.isDelegate(); n = n.parent {
			branch = strings.TrimSuffix(branch[:max(0, strings.LastIndex(branch, n.agent.Name()+"@"))], ".")
		}
		if n == inv.node {
			inv.branch = branch
		}
	}
}

// chooseAgent chooses the agent that answers: the author of the call that the user
// answers; else the last agent that kept the conversation; else the root
// (adk-python runners.py _find_agent_to_run; the answer always goes to its
// caller, docs/decisions/0007).
func (r *run) chooseAgent() *node {
	events := r.sess.Events()
	if call := r.findAnsweredCall(); call != nil {
		if n := r.app.findNode(call.NodeName()); n != nil {
			for n.isDelegate() { // the turn belongs to the nearest agent that is not called as a tool
				n = n.parent
			}
			return n
		}
	}
	if n := r.findAnsweringAgent(); n != nil {
		return n
	}
	root := r.app.rootNode
	if !root.transferable {
		return root
	}
	for i := len(events) - 1; i >= 0; i-- {
		ev := events[i]
		if ev.Provenance.Imported || ev.Author == session.UserAuthor || ev.Actions.AgentState != nil || ev.Actions.EndOfAgent || isSkip(ev) {
			continue
		}
		if ev.Author == root.agent.Name() {
			return root
		}
		if n := r.app.findNode(ev.Author); n != nil && n.transferable {
			return n
		}
	}
	return root
}

// findAnsweringAgent returns the agent that the request names, or nil.
func (r *run) findAnsweringAgent() *node {
	if r.agent == "" {
		return nil
	}
	n := r.app.findNode(r.agent)
	if n == nil || n.inWorkflow || n.isDelegate() {
		return nil
	}
	return n
}

// findAnsweredCall returns the event with the call that the user's message answers, or nil. It
// ignores imported events, because no agent on this host made their calls.
func (r *run) findAnsweredCall() *session.Event {
	id := ""
	for _, p := range r.message.content.Parts {
		if p.FunctionResponse != nil {
			id = p.FunctionResponse.ID
			break
		}
	}
	if id == "" {
		return nil
	}
	calls := r.calls
	if calls == nil { // a plugin has replaced the message
		calls = newCallIndex(r.sess.Events())
	}
	site, _ := calls.all.findLastCall(id)
	return site.event
}

// listTransferTargets returns the agents that an LLM agent can transfer to: its
// children, and its parent and peers if the parent is an LLM agent and nothing
// forbids it (adk-python flows/llm_flows/agent_transfer.py).
func listTransferTargets(n *node, a *LLMAgent) []*node {
	if n.isDelegate() {
		return nil
	}
	targets := slices.DeleteFunc(slices.Clone(n.children), (*node).isDelegate)
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
			if peer != n && !peer.isDelegate() {
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

// findTransferTarget returns the agent with that name to which this agent can transfer.
func (n *node) findTransferTarget(name string) (*node, error) {
	for _, target := range n.transferTargets {
		if target.agent.Name() == name {
			return target, nil
		}
	}
	return nil, failf(CodeTransferFailed, nil, "Agent %s is not one of those that can take over: %v", name, targetNames(n.transferTargets))
}

// transferTo runs another agent within this agent's run. This agent does not
// continue after it.
func (s *step) transferTo(ctx context.Context, name string) outcome {
	target, err := s.inv.node.findTransferTarget(name)
	if err != nil {
		return failWith(err)
	}
	to := s.inv.newChildInvocation(target, s.inv.branch, 1)
	to.onLastEvent = s.inv.passLastEvent()
	if !to.runAgent(ctx, s.emitEvent) {
		return outcome{kind: outcomeStopped}
	}
	return outcome{kind: outcomeTransferred}
}
