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

// abortRecorder stores how an invocation ended whose client left or whose time was up, so
// that the session stays valid and its readers see the reason.
type abortRecorder struct {
	inv *Invocation
	// clientLeft is [RunRequest.ClientLeft].
	clientLeft func() bool
	// timeLimit is the error of a run that exceeded its time; nil for any other.
	timeLimit *RunError
	// canceled is set by the error of a canceled run, stopped by a consumer that does not
	// want the events after an incomplete one.
	canceled, stopped bool
}

// watchEvents wraps yield to find out how the run ends.
func (a *abortRecorder) watchEvents(ctx context.Context, yield func(*session.Event, error) bool) func(*session.Event, error) bool {
	return func(ev *session.Event, err error) bool {
		if err != nil {
			a.canceled = AsRunError(err).Code == CodeCanceled
			if cause := timeLimitOf(ctx); a.canceled && cause != nil {
				a.timeLimit, err = cause, cause
			}
			return yield(nil, err)
		}
		final := ev.IsFinal()
		proceed := yield(ev, nil)
		a.stopped = !proceed && !final
		return proceed
	}
}

// timeLimitOf returns the error with which the caller limited the run's time, if that ended the
// context; otherwise nil.
func timeLimitOf(ctx context.Context) *RunError {
	var cause *RunError
	if errors.As(context.Cause(ctx), &cause) && cause.Code == CodeTimeLimit {
		return cause
	}
	return nil
}

// storeAbort stores a response for each open call, or else one event with CodeAborted. An
// event with CodeTimeLimit is always stored.
func (a *abortRecorder) storeAbort(ctx context.Context) {
	if a.timeLimit == nil && (!a.canceled && !a.stopped || a.clientLeft == nil || !a.clientLeft()) {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), afterRunTimeout)
	defer cancel()
	r := a.inv.run
	events := a.answerOpenCalls()
	if len(events) == 0 || a.timeLimit != nil {
		ev := (&Invocation{run: r, node: r.app.rootNode}).NewEvent()
		ev.ErrorCode, ev.ErrorMessage = CodeAborted, "The client left before the invocation ended."
		if a.timeLimit != nil {
			ev.ErrorCode, ev.ErrorMessage = a.timeLimit.Code, a.timeLimit.Message
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

// answerOpenCalls returns an event with error responses for each event in the invocation whose
// calls have none. Calls that wait for a person stay open, and so do tasks, which continue with the
// next message.
func (a *abortRecorder) answerOpenCalls() []*session.Event {
	r := a.inv.run
	var own, answers []*session.Event
	text := abortedCallText
	if a.timeLimit != nil {
		text = timedOutCallText
	}
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
				answer = a.inv.NewEvent()
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
