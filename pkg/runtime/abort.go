package runtime

import (
	"context"
	"errors"
	"slices"

	"google.golang.org/genai"

	"agenthost/pkg/session"
)

// CodeAborted is the error code on the event that ends an invocation after its client left
// (adk-python since 2.11).
const CodeAborted = "INVOCATION_ABORTED"

// The results for calls that were open when the client left or the time was up.
const (
	abortedCallText  = "This call was canceled because the client left."
	timedOutCallText = "This call was canceled because the turn exceeded its time limit."
)

// timeLimitOf returns the error with which the caller limited the run's time, if that ended the
// context; otherwise nil.
func timeLimitOf(ctx context.Context) *RunError {
	var cause *RunError
	if errors.As(context.Cause(ctx), &cause) && cause.Code == CodeTimeLimit {
		return cause
	}
	return nil
}

// storeAbort stores how a run ended whose client left or whose time was up, so that the session stays
// valid and its readers see the reason: a response for each open call, or else one event with
// CodeAborted. An event with CodeTimeLimit is always stored. clientLeft is [RunRequest.ClientLeft].
func (room *runRoom) storeAbort(clientLeft func() bool) {
	r, limit := &room.run, room.output.timeLimit
	if limit == nil && (!room.output.isAbandoned() || clientLeft == nil || !clientLeft()) {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(room.output.ctx), afterRunTimeout)
	defer cancel()
	text := abortedCallText
	if limit != nil {
		text = timedOutCallText
	}
	events := room.root.answerOpenCalls(text)
	if len(events) == 0 || limit != nil {
		ev := (&Invocation{run: r, node: r.app.rootNode}).NewEvent()
		ev.ErrorCode, ev.ErrorMessage = CodeAborted, "The client left before the invocation ended."
		if limit != nil {
			ev.ErrorCode, ev.ErrorMessage = limit.Code, limit.Message
		}
		events = append(events, ev)
	}
	for _, ev := range events {
		if err := r.storeEvent(ctx, ev); err != nil {
			r.logger().WarnContext(ctx, "storing the abort of the invocation failed", "error", err)
			return
		}
	}
}

// answerOpenCalls returns an event with the error text for each event in the invocation whose calls
// have no response. Calls that wait for a person stay open, and so do tasks, which continue with the
// next message.
func (inv *Invocation) answerOpenCalls(text string) []*session.Event {
	r := inv.run
	var own, answers []*session.Event
	answered := map[string]bool{}
	for _, ev := range r.sess.Events() {
		if ev.InvocationID == r.id && !ev.IsFromUser() {
			own = append(own, ev)
			for _, response := range ev.Responses() {
				answered[response.ID] = true
			}
		}
	}
	for _, ev := range own {
		var answer *session.Event
		for _, call := range ev.Calls() {
			if answered[call.ID] || slices.Contains(ev.LongRunningToolIDs, call.ID) || r.isTaskCall(ev, call) {
				continue
			}
			if answer == nil {
				answer = inv.NewEvent()
				answer.Author, answer.Branch, answer.NodePath, answer.IsolationScope = ev.Author, ev.Branch, ev.NodePath, ev.IsolationScope
				answer.Content = &genai.Content{Role: genai.RoleUser}
				answers = append(answers, answer)
			}
			answer.Content.Parts = append(answer.Content.Parts, &genai.Part{FunctionResponse: &genai.FunctionResponse{
				ID: call.ID, Name: call.Name, Response: map[string]any{"error": text},
			}})
		}
	}
	return answers
}
