package runtime

import (
	"slices"

	"google.golang.org/genai"

	"agenthost/pkg/session"
)

// currentEvents are the events of the current turn. A rewind among them may
// have taken the turn itself back: then it is looked for among what stays. A
// summary of earlier turns is none of this one's.
func currentEvents(events []*session.Event, v *contentsView) []*session.Event {
	turn := events[findCurrentTurn(events, v):]
	if !slices.ContainsFunc(turn, rewritesPast) {
		return turn
	}
	events = session.WithoutRewound(events)
	turn = events[findCurrentTurn(events, v):]
	return slices.DeleteFunc(slices.Clone(turn), func(ev *session.Event) bool {
		return isCompaction(ev) && ev.Actions.Compaction.EndTimestamp < eventSeconds(turn[0])
	})
}

// findCurrentTurn finds where the current turn begins: at the latest event that is
// the user's or another agent's (_get_current_turn_contents). An answer to a
// call of the agent itself only continues the turn of the call.
func findCurrentTurn(events []*session.Event, v *contentsView) int {
	for i := len(events) - 1; i >= 0; i-- {
		ev := events[i]
		if v.isVisible(ev) && (v.isForeign(ev) || ev.Author == session.UserAuthor && !v.answersOwnCall(ev, events[:i])) {
			return i
		}
	}
	return len(events)
}

// answersOwnCall says whether an event answers a call that the view's agent made
// in one of the earlier events.
func (v *contentsView) answersOwnCall(ev *session.Event, earlier []*session.Event) bool {
	responses := ev.Responses()
	if len(responses) == 0 {
		return false
	}
	isCall := func(c *genai.FunctionCall) bool { return c.ID == responses[0].ID }
	return slices.ContainsFunc(earlier, func(e *session.Event) bool {
		return e.Author == v.agent && slices.ContainsFunc(e.Calls(), isCall)
	})
}
