package runtime

import (
	"slices"

	"google.golang.org/genai"

	"agenthost/pkg/model"
	"agenthost/pkg/session"
	"agenthost/pkg/template"
)

// singleTurnText replaces the identity of an agent that runs as a single turn.
const singleTurnText = "Complete this task in one turn. No user reads or answers your questions."

// isSingleTurn reports whether an agent is a node of a workflow that sees its input
// instead of the conversation (adk-python workflow/_llm_agent_wrapper.py, mode
// single_turn). IncludeDefault keeps the conversation.
func (n *node) isSingleTurn() bool {
	a, isLLM := n.agent.(*LLMAgent)
	if !isLLM || n.parent == nil || a.opts.IncludeContents == IncludeDefault {
		return false
	}
	_, isNode := n.parent.agent.(*Workflow)
	return isNode
}

// hasSingleTurn reports whether this run of an agent is a single turn with an input. A
// node without an input, or one that another agent transfers to, sees the conversation.
func (inv *Invocation) hasSingleTurn() bool {
	return inv.input != nil && inv.input.v != nil && inv.node.isSingleTurn()
}

// buildTurn returns the contents of a single turn: the input as a user message, which
// is never stored, and the events of this run.
func (inv *Invocation) buildTurn(key viewKey) ([]*genai.Content, error) {
	input := &session.Event{
		Author: session.UserAuthor, InvocationID: inv.run.id, Branch: inv.branch,
		Response: model.Response{Content: inv.inputContent()},
	}
	v := contentsView{viewKey: key}
	v.appendEvents(append([]*session.Event{input}, inv.turnEvents()...))
	return v.currentContents()
}

// inputContent returns the input as a user message: the user's own message with its
// files, text, or JSON of any other value.
func (inv *Invocation) inputContent() *genai.Content {
	if text, ok := inv.input.v.(string); ok && text == inv.run.userText && inv.run.user != nil {
		return inv.run.user
	}
	return model.UserText(template.String(inv.input.v))
}

// turnEvents returns the events of this run of the agent, and the user's answers to its
// calls.
func (inv *Invocation) turnEvents() []*session.Event {
	events := inv.run.sess.Events()
	if inv.frame == nil {
		events = events[min(inv.turnStart, len(events)):]
	}
	var calls []string
	var own []*session.Event
	for _, ev := range events {
		switch {
		case ev.Author == inv.node.agent.Name() && (inv.frame == nil || ev.NodePath == inv.frame.path && ev.InvocationID == inv.run.id):
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
