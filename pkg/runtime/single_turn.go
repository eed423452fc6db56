package runtime

import (
	"slices"

	"google.golang.org/genai"

	"agenthost/pkg/model"
	"agenthost/pkg/session"
	"agenthost/pkg/template"
)

// singleTurnText replaces the identity for an agent that runs as a single turn.
const singleTurnText = "Complete this task in one turn. No user reads or answers your questions."

// isSingleTurn reports whether an agent sees its input instead of the conversation: in
// ModeSingleTurn, and as a workflow node without a mode (adk-python
// workflow/_llm_agent_wrapper.py). IncludeDefault keeps such a node's conversation.
func (n *node) isSingleTurn() bool {
	a, isLLM := n.agent.(*LLMAgent)
	switch {
	case !isLLM || n.parent == nil || a.opts.Mode == ModeChat || a.opts.Mode == ModeTask:
		return false
	case a.opts.Mode == ModeSingleTurn:
		return true
	case a.opts.IncludeContents == IncludeDefault:
		return false
	}
	_, isNode := n.parent.agent.(*Workflow)
	return isNode
}

// turnContents are the contents for an agent that sees only its own turn: its input, and the events
// that belong to it.
type turnContents struct{ *Invocation }

// hasSingleTurn reports whether this agent run is a single turn with an input. A node without an
// input, or one that another agent transfers to, sees the conversation.
func (inv turnContents) hasSingleTurn() bool {
	return inv.input != nil && inv.input.v != nil && inv.node.isSingleTurn()
}

// buildTurn returns the contents of a single turn: the input as a user message, which is never
// stored, and the events of this run. The input is the user's own message with its files, text, or
// JSON of any other value.
func (inv turnContents) buildTurn(key viewKey) ([]*genai.Content, error) {
	input := inv.run.message.content
	if text, ok := inv.input.v.(string); !ok || text != inv.run.message.text || input == nil {
		input = model.UserText(template.String(inv.input.v))
	}
	v := contentsView{viewKey: key}
	v.appendEvents(append([]*session.Event{inv.newInputEvent(input)}, inv.turnEvents()...))
	return v.currentContents()
}

// newInputEvent returns a user event with an input.
func (inv turnContents) newInputEvent(input *genai.Content) *session.Event {
	return &session.Event{
		Author: session.UserAuthor, InvocationID: inv.run.id, Branch: inv.branch,
		Response: model.Response{Content: input},
	}
}

// turnEvents returns the events of this run of the agent, and the user's answers to its
// calls.
func (inv turnContents) turnEvents() []*session.Event {
	events := inv.run.sess.Events()
	if inv.frame == nil {
		events = events[min(inv.turnStart, len(events)):]
	}
	isOwn := func(ev *session.Event) bool { // other runs at the same time have other branches
		if inv.frame == nil {
			return ev.Branch == inv.branch
		}
		return framePathOf(ev) == inv.frame.path && ev.InvocationID == inv.run.id
	}
	var calls []string
	var own []*session.Event
	for _, ev := range events {
		switch {
		case ev.Author == inv.node.agent.Name() && isOwn(ev):
			for _, c := range ev.Calls() {
				calls = append(calls, c.ID)
			}
		case ev.Author != session.UserAuthor || !slices.ContainsFunc(ev.Responses(), func(r *genai.FunctionResponse) bool { return slices.Contains(calls, r.ID) }):
			continue
		}
		own = append(own, ev)
	}
	return own
}
