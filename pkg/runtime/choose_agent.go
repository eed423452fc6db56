package runtime

import (
	"slices"
	"strings"

	"agenthost/pkg/session"
)

// newRootInvocation returns the invocation of the first agent: the recorded
// one, or the one that chooseAgent returns.
func (r *run) newRootInvocation() (*Invocation, error) {
	if !r.app.Resumable {
		return r.newTurnInvocation(), nil
	}
	path := r.record.rootPath()
	if path == "" {
		inv := r.newTurnInvocation()
		inv.frame = &frame{path: inv.node.agent.Name() + "@1"}
		return inv, nil
	}
	name, first := strings.CutSuffix(path, "@1")
	n := r.app.findNode(name)
	switch {
	case !first:
		return nil, invalidRequest("the invocation cannot be resumed: its node path must begin with an agent's name and @1, got %.60q", path)
	case n == nil:
		return nil, invalidRequest("the invocation cannot be resumed: agent %s, which started it, is no longer part of the app; start a new one", name)
	}
	return &Invocation{run: r, node: n, frame: &frame{path: path, prior: r.record.frameAt(path)}}, nil
}

// chooseAgent chooses the agent that answers: the author of the call that the user
// answers; else the last agent that kept the conversation; else the root
// (adk-python runners.py _find_agent_to_run; the answer always goes to its
// caller, docs/decisions/0007).
func (r *run) chooseAgent() *node {
	events := r.sess.Events()
	if call := r.findAnsweredCall(); call != nil {
		if n := r.app.findNode(call.Author); n != nil {
			return n
		}
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

// newTurnInvocation returns the invocation of the agent that answers. An agent
// that answers a call keeps the branch of the call.
func (r *run) newTurnInvocation() *Invocation {
	inv := &Invocation{run: r, node: r.chooseAgent()}
	if call := r.findAnsweredCall(); call != nil && call.Author == inv.node.agent.Name() {
		inv.branch = call.Branch
	}
	return inv
}

// findAnsweredCall returns the event with the call that the user's message
// answers, or nil. It ignores imported events, because no agent of this host
// made their calls.
func (r *run) findAnsweredCall() *session.Event {
	id := ""
	for _, p := range r.user.Parts {
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

func (r *run) findAnsweredBranch() string {
	if call := r.findAnsweredCall(); call != nil {
		return call.Branch
	}
	return ""
}

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
