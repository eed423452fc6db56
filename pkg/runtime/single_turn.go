package runtime

import (
	"slices"

	"google.golang.org/genai"

	"agenthost/pkg/model"
	"agenthost/pkg/session"
	"agenthost/pkg/template"
)

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
