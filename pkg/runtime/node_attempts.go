package runtime

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"agenthost/internal/safe"
	"agenthost/pkg/session"
)

// CodeNodeTimeout is the error code for a node that exceeds its time limit.
const CodeNodeTimeout = "NODE_TIMEOUT"

// finalCodes are the errors that another attempt would repeat, or that end the run.
var finalCodes = []string{
	CodeInvalidRequest, CodeForbidden, CodeMissingValue, CodeLLMCallsLimit, CodeCostLimit, CodeToolCallsLimit, CodeNodeRunsLimit,
	CodeEventRefused, CodeCanceled, CodeSessionNotFound, CodeSessionBusy, CodeSessionTaken,
}

// SetAttempts sets the agent's attempts as a [Workflow] node, before it becomes part of an app.
// Elsewhere they have no effect.
func (b *Base) SetAttempts(a Attempts) { b.attempts = a }

var errNodeTimeout = errors.New("the time of the node is over")

func (a *Attempts) isSet() bool { return a.Timeout > 0 || a.Max > 1 }

// nodeAttempts runs one workflow task, again if it fails. fresh returns the invocation for another
// attempt.
type nodeAttempts struct {
	*Attempts
	sink  func(*session.Event, error) bool
	fresh func() *Invocation
}

// runAttempts runs the node until an attempt does not fail, or the failure is final. It returns the
// last attempt's invocation. Each attempt that is repeated has an event with its failure.
func (n *nodeAttempts) runAttempts(ctx context.Context, child *Invocation) *Invocation {
	delay := float64(n.Initial)
	for attempt := 1; ; attempt++ {
		failure, reported := n.runAttempt(ctx, child)
		if failure == nil {
			return child
		}
		retries := !slices.Contains(finalCodes, failure.Code) && (n.Codes == nil || slices.Contains(n.Codes, failure.Code))
		if attempt >= n.Max || ctx.Err() != nil || !retries {
			n.sink(nil, failure)
			return child
		}
		if !reported {
			ev := child.NewEvent()
			ev.ErrorCode, ev.ErrorMessage = failure.Code, failure.Message
			if !n.sink(ev, nil) {
				return child
			}
		}
		wait := min(delay, float64(n.Longest))
		wait += wait * n.Jitter * (2*rand.Float64() - 1)
		timer := time.NewTimer(time.Duration(max(0, min(wait, float64(n.Longest)))))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			n.sink(nil, AsRunError(ctx.Err()))
			return child
		}
		delay *= n.Backoff
		child = n.fresh()
	}
}

// runAttempt runs the node once, and returns its failure. It reports whether a node event has that
// failure.
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
