package runtime

import (
	"cmp"
	"context"
	"errors"

	"agenthost/internal/safe"
	"agenthost/pkg/session"
)

// A runOutput passes a run's events to the consumer of [Host.Run]:
//
//	agent ── commitThenYield ──▶ deliverEvent ──▶ consumer
//	         store first         replace an error by its cause
//
// It keeps how the run ends: with an error, because the consumer left, or neither. What follows the run,
// such as plugins, a compaction and the record of an abort, decides by that.
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
		err = eventFailure(r.key, ev.Author, err)
		if refusal := r.storeRefusal(ctx, ev, err); refusal != nil && !room.deliverEvent(refusal, nil) {
			return false
		}
	}
	room.deliverEvent(nil, err)
	return false
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
	if limit := timeLimitOf(o.ctx); limit != nil && AsRunError(err).Code == CodeCanceled {
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
