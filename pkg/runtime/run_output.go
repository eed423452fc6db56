package runtime

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/genai"

	"agenthost/internal/safe"
	"agenthost/pkg/model"
	"agenthost/pkg/session"
	"agenthost/pkg/store"
	"agenthost/pkg/template"
)

// A runOutput passes a run's events to the consumer of [Host.Run]:
//
//	agent ── commitThenYield ──▶ deliverEvent ──▶ consumer
//	         store first         replace an error by its cause
//
// It keeps how the run ends: with an error, because the consumer left, or neither. Plugins, a
// compaction and the record of an abort follow the run and decide by that.
//
// Invariants: an event is stored before it is delivered, and after the consumer has left nothing is
// delivered. One value does this for the whole run: a function around each other function would
// allocate for each.
type runOutput struct {
	// guard keeps a panic in the run apart from one in the consumer. Its yield is the consumer.
	guard panicGuard[*session.Event]
	// span is the run's span; nil if it is not observed.
	span *runSpan
	// ctx is the run's context; nil until the run has its session.
	ctx context.Context
	// failure is the first error; timeLimit is that of a run that exceeded its time.
	failure   error
	timeLimit *RunError
	// final reports that the last event ends its agent's turn.
	final bool
}

// A runRoom is a run with what it needs once, in one allocation.
type runRoom struct {
	run
	root        Invocation
	output      runOutput
	budget      callBudget
	counter     turnCounter
	expressions template.Budget
}

// newRunRoom returns a run that has neither an app nor a session yet. Its output is passed to yield.
func (h *Host) newRunRoom(key session.Key, span *runSpan, yield func(*session.Event, error) bool) *runRoom {
	room := &runRoom{}
	room.run.host, room.run.key, room.root.run = h, key, &room.run
	room.output.span = span
	room.output.guard = panicGuard[*session.Event]{onPanic: (*Invocation).runPanicked, inv: &room.root, yield: yield}
	return room
}

// runPanicked logs a panic outside all agents, and returns the error for the client.
func (inv *Invocation) runPanicked(p *safe.Panic) error {
	key := inv.run.key
	p.Log(inv.run.host.logger, "run panicked", "app", key.App, "session", key.ID)
	return AsRunError(errPanicked)
}

// commitThenYield is the yield function for the root agent: an event is stored before it is delivered,
// and the agent continues after that.
func (room *runRoom) commitThenYield(ev *session.Event, err error) bool {
	r, ctx := &room.run, room.output.ctx
	if err == nil {
		if err = r.storeEvent(ctx, ev); err == nil {
			return room.deliverEvent(ev, nil)
		}
		if errors.Is(err, session.ErrInvalid) { // the agent's error, not the request's
			err = failf(CodeEventRefused, nil, "an event of agent %s cannot be stored: %s", ev.Author, err)
		} else {
			err = storeFailure(r.key, err)
		}
		if refusal := r.storeRefusal(ctx, ev, err); refusal != nil && !room.deliverEvent(refusal, nil) {
			return false
		}
	}
	room.deliverEvent(nil, err)
	return false
}

// storeEvent commits one event. Partial events are not stored.
func (r *run) storeEvent(ctx context.Context, ev *session.Event) error {
	if !ev.Partial {
		r.countEvent(ev)
	}
	r.stampMetadata(ev)
	if ev.Partial {
		return nil
	}
	// Audio, video and images from a live model are yielded and not stored (adk-python runners.py
	// _is_live_model_audio_event_with_inline_data).
	if r.twoWay != nil && ev.Author != session.UserAuthor && ev.Content != nil &&
		slices.ContainsFunc(ev.Content.Parts, func(p *genai.Part) bool { return p.InlineData != nil }) {
		return nil
	}
	// Writes from tools and answers are checked earlier; this check is for callbacks and agents
	// written in Go.
	if ev.Author != session.UserAuthor {
		if err := r.app.state.CheckDelta(ev.Actions.StateDelta); err != nil {
			return fmt.Errorf("%w: %w", err, session.ErrInvalid)
		}
		for i, u := range ev.Actions.StateUpdates {
			ev.Actions.StateUpdates[i] = r.typeStateUpdate(u)
		}
	}
	return r.commitEvent(ctx, ev)
}

// stampMetadata adds the run's metadata and the app's revision to an event.
// The event's own metadata takes precedence.
func (r *run) stampMetadata(ev *session.Event) {
	ev.Provenance.Revision = r.app.revision
	ev.Provenance.Unresumable = !r.app.resumable && ev.NodePath != ""
	if given := r.config.CustomMetadata; len(ev.CustomMetadata) == 0 {
		ev.CustomMetadata = given // events share it: no one changes an event's map
	} else if len(given) > 0 {
		ev.CustomMetadata = mergeMaps(given, ev.CustomMetadata)
	}
}

// commitEvent stores an event. An inner run only adds it to its temporary session: the caller's event
// takes its updates to the store.
func (r *run) commitEvent(ctx context.Context, ev *session.Event) error {
	if !r.inner {
		r.encodeOutcome()
		return r.host.store.Sessions.Append(ctx, r.sess, ev)
	}
	for _, key := range ev.Actions.UpdatedKeys() {
		old, _ := r.sess.State.Get(key)
		v, _, err := ev.Actions.Updated(key, old)
		if err != nil {
			return err
		}
		defer r.sess.State.Apply(map[string]any{key: v})
	}
	r.sess.State.Apply(ev.Actions.StateDelta)
	ev.Actions.StateDelta = session.WithoutTemp(ev.Actions.StateDelta)
	r.sess.History.Append(ev)
	return nil
}

// storeRefusal stores the error event for an event that the store refused, so that the history
// shows why the run ended. It answers the calls that the refused event answered, because no later
// event does. It returns nil for any other error.
func (r *run) storeRefusal(ctx context.Context, refused *session.Event, err error) *session.Event {
	failure := AsRunError(err)
	if failure.Code != CodeEventRefused || r.inner {
		return nil
	}
	ev := &session.Event{
		ID: r.host.newID(), InvocationID: r.id, Author: refused.Author, Branch: refused.Branch,
		IsolationScope: refused.IsolationScope, NodePath: refused.NodePath, Timestamp: r.host.now(),
	}
	ev.ErrorCode, ev.ErrorMessage = failure.Code, failure.Message
	for _, response := range refused.Responses() {
		if ev.Content == nil {
			ev.Content = &genai.Content{Role: genai.RoleUser}
		}
		ev.Content.Parts = append(ev.Content.Parts, &genai.Part{FunctionResponse: &genai.FunctionResponse{
			ID: response.ID, Name: response.Name, Response: map[string]any{"error": failure.Message},
		}})
	}
	if err := r.storeEvent(ctx, ev); err != nil {
		r.logger().WarnContext(ctx, "storing the error event failed", "error", err)
		return nil
	}
	return ev
}

// deliverEvent passes an event or the run's error to the consumer, and returns whether it accepts more.
func (room *runRoom) deliverEvent(ev *session.Event, err error) bool {
	o := &room.output
	if err == nil {
		o.final = ev.IsFinal()
		return o.guard.forwardValue(ev, nil)
	}
	if o.ctx != nil && !room.inner { // the caller of an inner run delivers the error, too
		err = o.findCause(room.run.key, err)
	}
	o.failure = cmp.Or(o.failure, err)
	if o.span != nil {
		o.span.err = err
	}
	return o.guard.forwardValue(nil, err)
}

// findCause returns why the store or the caller ended the run, instead of the error that its agent
// saw; err for any other run.
func (o *runOutput) findCause(key session.Key, err error) error {
	cause := context.Cause(o.ctx)
	if errors.Is(cause, session.ErrFenced) || errors.Is(cause, session.ErrNotFound) {
		return storeFailure(key, cause)
	}
	if limit := (*RunError)(nil); errors.As(cause, &limit) && limit.Code == CodeTimeLimit && AsRunError(err).Code == CodeCanceled {
		o.timeLimit = limit
		return limit
	}
	return err
}

// isComplete reports that the run has no error, and that its consumer has not left.
func (o *runOutput) isComplete() bool { return o.failure == nil && !o.guard.stopped }

// isAbandoned reports that the run was canceled, or that its consumer did not want the events after
// an incomplete one.
func (o *runOutput) isAbandoned() bool {
	if o.failure != nil {
		return AsRunError(o.failure).Code == CodeCanceled
	}
	return o.guard.stopped && !o.final
}

// CodeAborted is the error code on the event that ends an invocation after its client left
// (adk-python since 2.11).
const CodeAborted = "INVOCATION_ABORTED"

// AbortedCallText is the error in the result for a call that was open when the client left.
const AbortedCallText = "This call was canceled because the client left."

// timedOutCallText is the one for a call that was open when the time was up.
const timedOutCallText = "This call was canceled because the turn exceeded its time limit."

// afterRunTimeout limits what plugins do after a run that failed or was stopped.
const afterRunTimeout = 5 * time.Second

// storeAbort stores how a run ended whose client left, that was stopped, or whose time was up, so that
// the session stays valid and its readers see the reason: a response for each open call, or else one
// event with CodeAborted. An event with CodeTimeLimit is always stored. clientLeft is [RunRequest.ClientLeft].
func (room *runRoom) storeAbort(clientLeft func() bool) {
	r, limit := &room.run, room.output.timeLimit
	wasStopped := errors.Is(context.Cause(room.output.ctx), store.ErrStopped)
	if limit == nil && (!room.output.isAbandoned() || !wasStopped && (clientLeft == nil || !clientLeft())) {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(room.output.ctx), afterRunTimeout)
	defer cancel()
	text := AbortedCallText
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
				answered[response.ID] = answered[response.ID] || !model.IsInterim(response)
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
