package runtime

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"google.golang.org/genai"

	"agenthost/internal/safe"
	"agenthost/pkg/session"
	"agenthost/pkg/tool"
)

// runCalls executes the calls of one event concurrently and merges their
// results, in the order of the calls, into one event, which is nil when every
// result comes later. If a call ends the run, it returns its error, and in
// failed the event that reports it.
func (s *step) runCalls(ctx context.Context, calls []*genai.FunctionCall) (merged, failed *session.Event, err error) {
	if limit := s.inv.run.config.maxFunctionCalls(); len(calls) > limit {
		failed, err = s.rejectCalls(calls, limit)
		return nil, failed, err
	}
	if err := s.inv.loadToolsets(ctx); err != nil {
		return nil, nil, err
	}
	answers := make([]*callResult, len(calls))
	if len(calls) == 1 {
		answers[0] = s.runCall(ctx, calls[0])
	} else {
		s.runConcurrently(ctx, calls, answers)
	}
	merged = s.mergeAnswers(answers)
	if err = firstFailure(answers); err != nil {
		failed = s.newFailureEvent(calls, answers, AsRunError(err))
	}
	reportCallSpans(answers, cmp.Or(merged, failed))
	return merged, failed, err
}

// runConcurrently executes the calls on the host's workers.
func (s *step) runConcurrently(ctx context.Context, calls []*genai.FunctionCall, answers []*callResult) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	run := s.inv.run
	run.host.workers.runBatch(len(calls), run.config.maxToolWorkers(), func(i int) {
		defer safe.Recover(func(p *safe.Panic) {
			agent := s.inv.node.agent.Name()
			p.Log(run.logger(), "tool call panicked", "tool", calls[i].Name, "agent", agent)
			answers[i] = &callResult{err: failf(CodeToolFailed, errPanicked, "tool %s of agent %s panicked", calls[i].Name, agent)}
			cancel()
		})
		if err := ctx.Err(); err != nil {
			answers[i] = &callResult{err: AsRunError(err)}
			return
		}
		answers[i] = s.runCall(ctx, calls[i])
		if answers[i].err != nil {
			cancel()
		}
	})
}

// errTooManyCalls is the cause of a run that exceeds max_function_calls.
var errTooManyCalls = errors.New("too many function calls in one answer")

// rejectCalls returns an event that answers each of too many calls with an
// error, and the error that ends the run.
func (s *step) rejectCalls(calls []*genai.FunctionCall, limit int) (failed *session.Event, err error) {
	failure := failf(CodeToolCallsLimit, errTooManyCalls, "%d function calls in one answer of agent %s exceed the limit of %d (run_config: max_function_calls)",
		len(calls), s.inv.node.agent.Name(), limit)
	answers := make([]*callResult, len(calls))
	for i := range answers {
		answers[i] = &callResult{err: failure}
	}
	return s.newFailureEvent(calls, answers, failure), failure
}

// mergeAnswers merges the available results into one event.
func (s *step) mergeAnswers(answers []*callResult) *session.Event {
	var merged *session.Event
	for _, a := range answers {
		if a.part == nil {
			continue
		}
		if merged == nil {
			merged = s.inv.NewEvent()
			merged.Content = &genai.Content{Role: genai.RoleUser}
			merged.Actions = a.actions
		} else {
			merged.Actions.Merge(&a.actions)
		}
		merged.Content.Parts = append(merged.Content.Parts, a.part)
	}
	return merged
}

// firstFailure returns the first error that ends the run, or nil.
// Cancellations that only follow from another error do not count.
func firstFailure(answers []*callResult) (failure error) {
	for _, a := range answers {
		if a.err != nil && (failure == nil || AsRunError(failure).Code == CodeCanceled) {
			failure = a.err
		}
	}
	return failure
}

// callStoppedText is the result of a call that was canceled because of
// another.
const callStoppedText = "This call was canceled because another call ended the run."

// newFailureEvent returns the event of an error that ends the run. It answers
// the calls that have no result, so that no call stays open in the history. It
// is nil for a run that was canceled from outside.
func (s *step) newFailureEvent(calls []*genai.FunctionCall, answers []*callResult, failure *RunError) *session.Event {
	if failure.Code == CodeCanceled {
		return nil
	}
	ev := s.inv.NewEvent()
	ev.ErrorCode, ev.ErrorMessage = failure.Code, failure.Message
	ev.Content = &genai.Content{Role: genai.RoleUser}
	for i, a := range answers {
		if a.err == nil {
			continue
		}
		runErr := AsRunError(a.err)
		if runErr.Code == CodeCanceled {
			runErr = &RunError{Message: callStoppedText}
		}
		a.setResponse(calls[i], errorResponse(runErr))
		ev.Content.Parts = append(ev.Content.Parts, a.part)
	}
	return ev
}

// isCallFailure reports whether an event has a failure instead of results: a
// resumed run executes its calls again.
func isCallFailure(ev *session.Event) bool { return ev.ErrorCode != "" && len(ev.Responses()) > 0 }

// callResult is the outcome of one call: a part for the model, which is nil
// when the result comes later, the actions, or an error that ends the run.
type callResult struct {
	part    *genai.Part
	actions session.Actions
	err     error
	// span is nil when spans are not observed.
	span *Span
}

func (s *step) runCall(ctx context.Context, fc *genai.FunctionCall) *callResult {
	a := &callResult{}
	t := s.inv.activeToolbox().byName[fc.Name]
	if t == nil {
		s.answerUnknownTool(ctx, fc, a)
		return a
	}
	traits := tool.CapabilitiesOf(t)
	call := s.inv.newToolCall(fc, &a.actions)
	if d := s.decided[fc.ID]; d != nil {
		d.applyToCall(call)
	}
	result, err := s.runToolTraced(ctx, t, call, a)
	if requestsHuman(&a.actions) {
		result, err = s.resolveHumanRequest(a, result, err)
	}
	if err == nil {
		err = s.checkWrites(&a.actions)
	}
	switch {
	case err != nil && s.isFatal(ctx, err, traits):
		a.err = s.wrapToolError(ctx, fc.Name, err)
	case err != nil:
		a.setResponse(fc, errorResponse(err))
	case traits.LongRunning && (result == nil || len(result.Response) == 0):
		if s.decided[fc.ID] != nil {
			a.setPendingResponse(fc)
		}
	case result == nil || result.Response == nil:
		a.setResponse(fc, map[string]any{"result": nil})
	default:
		a.setResponse(fc, result.Response)
	}
	return a
}

func (a *callResult) setResponse(fc *genai.FunctionCall, response map[string]any) {
	a.part = &genai.Part{FunctionResponse: &genai.FunctionResponse{ID: fc.ID, Name: fc.Name, Response: response}}
}

// errorResponse returns the response to the model for a failed call.
func errorResponse(err error) map[string]any {
	var answered *tool.AnswerError
	if errors.As(err, &answered) {
		return answered.Response
	}
	return map[string]any{"error": err.Error()}
}

// invocationTool is a tool of the runtime that requires the invocation.
type invocationTool interface {
	runInInvocation(ctx context.Context, inv *Invocation, call *tool.Call) (*tool.Result, error)
}

// invokeTool runs one tool within its timeout. A panic of the tool is an error
// of this call and does not stop the host.
func (s *step) invokeTool(ctx context.Context, t tool.Tool, call *tool.Call, traits tool.Capabilities) (result *tool.Result, err error) {
	if traits.Timeout > 0 {
		limit, cancel := context.WithTimeoutCause(ctx, traits.Timeout, &tool.TimeoutError{Tool: call.Name, Timeout: traits.Timeout})
		defer cancel()
		outer := ctx
		defer func() {
			if err != nil && outer.Err() == nil && limit.Err() != nil {
				err = context.Cause(limit)
			}
		}()
		ctx = limit
	}
	defer func() {
		if p := recover(); p != nil {
			s.inv.run.logger().Error("tool panicked", "tool", call.Name, "agent", s.inv.node.agent.Name(),
				"panic", p, "stack", string(debug.Stack()))
			err = fmt.Errorf("tool %s panicked", call.Name)
		}
	}()
	if traits.Confirm != nil || call.Confirmation != nil {
		if result, err := s.checkApproval(ctx, call, traits); result != nil || err != nil {
			return result, err
		}
	}
	if own, ok := t.(invocationTool); ok {
		return own.runInInvocation(ctx, s.inv, call)
	}
	return t.Run(ctx, call)
}

// isFatal reports whether an error of a tool ends the run. Invalid arguments
// are returned to the model, which can correct them.
func (s *step) isFatal(ctx context.Context, err error, traits tool.Capabilities) bool {
	var args *tool.ArgsError
	var end *tool.EndError
	if _, ok := asHookError(err); ok || errors.As(err, &end) {
		return true
	}
	return traits.FailOnError && !errors.As(err, &args) || ctx.Err() != nil || errors.Is(err, errBudget)
}

func (s *step) wrapToolError(ctx context.Context, name string, err error) error {
	if errors.Is(err, errBudget) {
		return err
	}
	if runErr, ok := asHookError(err); ok {
		return runErr
	}
	if ctx.Err() != nil {
		return AsRunError(ctx.Err())
	}
	return failf(CodeToolFailed, err, "tool %s of agent %s failed: %s", name, s.inv.node.agent.Name(), err)
}
