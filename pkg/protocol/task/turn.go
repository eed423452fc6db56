package task

import (
	"slices"
	"time"

	"google.golang.org/genai"

	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
)

// A Turn is a task's part of a session: from the message that began the invocation to the user's next
// message. Answers to the agent's questions belong to it.
type Turn struct {
	// Events are the turn's, at least one.
	Events []*session.Event
	// Pending are the open calls.
	Pending []PendingCall
	// IsLast reports that no other turn follows.
	IsLast bool
}

// A PendingCall is a call that waits for a person, with the event that has made it.
type PendingCall struct {
	Event string
	Call  *genai.FunctionCall
}

// FindTurn returns the turn that an invocation began, or nil. An answer, too, may begin a task: that of a
// client that has waited for the question without one.
func FindTurn(events []*session.Event, invocation string) *Turn {
	events = listRecorded(events)
	start := slices.IndexFunc(events, func(ev *session.Event) bool { return ev.InvocationID == invocation && ev.IsFromUser() })
	if start < 0 {
		return nil
	}
	t := newTurn(events, start)
	t.addPending(runtime.Pending(events))
	return t
}

// ListTurns returns the turns that messages began, the oldest first.
func ListTurns(events []*session.Event) []*Turn {
	events = listRecorded(events)
	pending := runtime.Pending(events)
	var all []*Turn
	for i, ev := range events {
		if beginsTurn(ev) {
			t := newTurn(events, i)
			t.addPending(pending)
			all = append(all, t)
		}
	}
	return all
}

// findTurnWith returns the turn with an event of an invocation, or nil.
func findTurnWith(events []*session.Event, invocation string) *Turn {
	for _, turn := range slices.Backward(ListTurns(events)) {
		if slices.ContainsFunc(turn.Events, func(ev *session.Event) bool { return ev.InvocationID == invocation }) {
			return turn
		}
	}
	return nil
}

// listRecorded returns the recorded events without those in which a client only writes the state, such as a
// title: they belong to no turn.
func listRecorded(events []*session.Event) []*session.Event {
	onlyWrites := func(ev *session.Event) bool { return ev.IsFromUser() && ev.Content == nil }
	events = session.Recorded(events)
	if !slices.ContainsFunc(events, onlyWrites) {
		return events
	}
	return slices.DeleteFunc(slices.Clone(events), onlyWrites)
}

// newTurn returns the turn that begins at an event.
func newTurn(events []*session.Event, start int) *Turn {
	end := start + 1
	for end < len(events) && !beginsTurn(events[end]) {
		end++
	}
	return &Turn{Events: events[start:end], IsLast: end == len(events)}
}

func (t *Turn) addPending(all []runtime.PendingCalls) {
	for _, w := range all {
		if slices.Contains(t.Events, w.Event) {
			for _, open := range w.Calls {
				t.Pending = append(t.Pending, PendingCall{w.Event.ID, open})
			}
		}
	}
}

// beginsTurn reports whether an event has a user's message, and not the answer to a call.
func beginsTurn(ev *session.Event) bool { return ev.IsFromUser() && len(ev.Responses()) == 0 }

// Answer returns the agent's events after the user's last message or answer.
func (t *Turn) Answer() []*session.Event {
	for i, ev := range slices.Backward(t.Events) {
		if ev.IsFromUser() {
			return t.Events[i+1:]
		}
	}
	return nil
}

// Began returns the time of the message.
func (t *Turn) Began() time.Time { return t.Events[0].Timestamp.UTC() }

// Updated returns the time of the last event.
func (t *Turn) Updated() time.Time { return t.lastEvent().Timestamp.UTC() }

func (t *Turn) lastEvent() *session.Event { return t.Events[len(t.Events)-1] }

// IsCanceled reports that the turn ended because it was canceled.
func (t *Turn) IsCanceled() bool {
	last := t.lastEvent()
	return last.ErrorCode == runtime.CodeAborted || slices.ContainsFunc(last.Responses(), func(f *genai.FunctionResponse) bool {
		return f.Response["error"] == runtime.AbortedCallText
	})
}

// failureKey marks the event with the reason for which a run failed, in its metadata.
const failureKey = "agenthost:task_failed"

// findFailure returns why the turn's run failed, if an event that was stored for the task has the reason.
func (t *Turn) findFailure() string {
	if t.lastEvent().CustomMetadata[failureKey] != true {
		return ""
	}
	return t.lastEvent().ErrorMessage
}

// hasEnded reports that the last event ends the turn, with an answer or an error.
func (t *Turn) hasEnded() bool {
	last := t.lastEvent()
	return !last.IsFromUser() && (last.ErrorCode != "" || last.IsFinal() && !t.isResumable())
}

// isResumable reports that the invocation was interrupted, and that any replica can continue it.
func (t *Turn) isResumable() bool { return runtime.ResumableInvocation(t.Events) != "" }
