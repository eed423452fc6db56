package runtime

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"agenthost/internal/safe"
	"agenthost/pkg/session"
)

// CodeNodeTimeout is the error code of a node that exceeds its time limit.
const CodeNodeTimeout = "NODE_TIMEOUT"

// finalCodes are the errors that another attempt would repeat, or that end the run.
var finalCodes = []string{
	CodeInvalidRequest, CodeForbidden, CodeMissingValue, CodeLLMCallsLimit, CodeCostLimit, CodeToolCallsLimit, CodeNodeRunsLimit,
	CodeEventRefused, CodeCanceled, CodeSessionNotFound, CodeSessionBusy, CodeSessionTaken,
}

// SetAttempts sets the attempts of the agent as a node of a [Workflow], before it becomes part of
// an app. Elsewhere they have no effect.
func (b *Base) SetAttempts(a Attempts) { b.attempts = a }

// allowsRetry reports whether an error is retried.
func (a *Attempts) allowsRetry(err *RunError) bool {
	return !slices.Contains(finalCodes, err.Code) && (a.Codes == nil || slices.Contains(a.Codes, err.Code))
}

// delayBefore returns the delay before an attempt; the second one is 2.
func (a *Attempts) delayBefore(attempt int) time.Duration {
	delay := float64(a.Initial) * math.Pow(a.Backoff, float64(attempt-2))
	delay = min(delay, float64(a.Longest))
	delay += delay * a.Jitter * (2*rand.Float64() - 1)
	return time.Duration(max(0, min(delay, float64(a.Longest))))
}

var errNodeTimeout = errors.New("the time of the node is over")

func (a *Attempts) isSet() bool { return a.Timeout > 0 || a.Max > 1 }

// nodeAttempts runs one task of a workflow, again if it fails. fresh returns the invocation of
// another attempt.
type nodeAttempts struct {
	*Attempts
	sink  func(*session.Event, error) bool
	fresh func() *Invocation
}

// runAttempts runs the node until an attempt does not fail, or the failure is final. It returns
// the invocation of the last attempt.
func (n *nodeAttempts) runAttempts(ctx context.Context, child *Invocation) *Invocation {
	for attempt := 1; ; attempt++ {
		failure, reported := n.runAttempt(ctx, child)
		switch {
		case failure == nil:
			return child
		case attempt >= n.Max || ctx.Err() != nil || !n.allowsRetry(failure):
			n.sink(nil, failure)
			return child
		case !reported && !n.sink(newFailedAttempt(child, failure), nil):
			return child
		}
		if !sleepUntil(ctx, n.delayBefore(attempt+1)) {
			n.sink(nil, AsRunError(ctx.Err()))
			return child
		}
		child = n.fresh()
	}
}

// newFailedAttempt returns the event of an attempt that is repeated.
func newFailedAttempt(child *Invocation, failure *RunError) *session.Event {
	ev := child.NewEvent()
	ev.ErrorCode, ev.ErrorMessage = failure.Code, failure.Message
	return ev
}

// runAttempt runs the node once, and returns its failure. It reports whether an event of the node
// has that failure.
func (n *nodeAttempts) runAttempt(ctx context.Context, child *Invocation) (failure *RunError, reported bool) {
	limited, cancel := ctx, context.CancelFunc(func() {})
	if n.Timeout > 0 {
		limited, cancel = context.WithTimeoutCause(ctx, n.Timeout, errNodeTimeout)
	}
	defer cancel()
	defer safe.Recover(func(p *safe.Panic) { failure = AsRunError(child.panicFailure(p)) })
	child.runAgent(limited, func(ev *session.Event, err error) bool {
		if err != nil {
			failure = AsRunError(err)
			return false
		}
		reported = ev.ErrorCode != ""
		return n.sink(ev, nil)
	})
	if errors.Is(context.Cause(limited), errNodeTimeout) && ctx.Err() == nil {
		return failf(CodeNodeTimeout, errNodeTimeout, "node %s did not end within %s", child.node.agent.Name(), n.Timeout), false
	}
	return failure, reported && failure != nil
}

// sleepUntil waits for a delay, and returns false if the context ends before.
func sleepUntil(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
