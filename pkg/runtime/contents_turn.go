package runtime

import (
	"slices"

	"google.golang.org/genai"

	"agenthost/pkg/session"
)

// currentEvents returns the events of the current turn. If a rewind has removed
// the start of the turn, the turn is determined from the remaining events.
// Summaries of earlier turns are excluded.
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

// findCurrentTurn returns the index of the first event of the current turn: the
// latest event of the user or another agent (_get_current_turn_contents). An
// answer to a call of the agent itself continues the turn of the call.
func findCurrentTurn(events []*session.Event, v *contentsView) int {
	for i := len(events) - 1; i >= 0; i-- {
		ev := events[i]
		if v.isVisible(ev) && (v.isForeign(ev) || ev.Author == session.UserAuthor && !v.answersOwnCall(ev, events[:i])) {
			return i
		}
	}
	return len(events)
}

// answersOwnCall reports whether an event answers a call that the view's agent
// made in an earlier event.
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
