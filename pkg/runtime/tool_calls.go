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

// runCalls carries out the calls of one event side by side and merges their
// answers, in the order of the calls, into one event. It is nil when every
// answer comes later. An error is that of a call which ends the run, and
// failed is then the event that tells of it.
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
	run.host.workers.run(len(calls), run.config.maxToolWorkers(), func(i int) {
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

// errTooManyCalls is the cause of a run that ends with an answer of too many calls.
var errTooManyCalls = errors.New("too many function calls in one answer")

// rejectCalls ends the run with an event that answers each of too many calls.
func (s *step) rejectCalls(calls []*genai.FunctionCall, limit int) (failed *session.Event, err error) {
	failure := failf(CodeToolCallsLimit, errTooManyCalls, "%d function calls in one answer of agent %s exceed the limit of %d (run_config: max_function_calls)",
		len(calls), s.inv.node.agent.Name(), limit)
	answers := make([]*callResult, len(calls))
	for i := range answers {
		answers[i] = &callResult{err: failure}
	}
	return s.newFailureEvent(calls, answers, failure), failure
}

// mergeAnswers makes one event of the answers that there are.
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

// firstFailure is the first failure that ends the run, or nil; those that only
// follow from it do not count.
func firstFailure(answers []*callResult) (failure error) {
	for _, a := range answers {
		if a.err != nil && (failure == nil || AsRunError(failure).Code == CodeCanceled) {
			failure = a.err
		}
	}
	return failure
}

// callStoppedText is what the model is told of a call that another one ended.
const callStoppedText = "This call was stopped: another one ended the run."

// newFailureEvent is the event of a failure that ends the run: it answers the calls that
// have no other answer, so that none is left open in the history. A run that
// was stopped from outside has nobody to tell.
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
		told := AsRunError(a.err)
		if told.Code == CodeCanceled {
			told = &RunError{Message: callStoppedText}
		}
		a.setResponse(calls[i], errorResponse(told))
		ev.Content.Parts = append(ev.Content.Parts, a.part)
	}
	return ev
}

// isCallFailure says whether an event tells of a failure in the place of answers:
// a resumed run carries the calls out again.
func isCallFailure(ev *session.Event) bool { return ev.ErrorCode != "" && len(ev.Responses()) > 0 }

// callResult is what came of one call: a part for the model (nil when it comes
// later), the actions, or an error that ends the run.
type callResult struct {
	part    *genai.Part
	actions session.Actions
	err     error
	// span is nil where nobody observes.
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

// errorResponse is what the model gets of a failed call.
func errorResponse(err error) map[string]any {
	var answered *tool.AnswerError
	if errors.As(err, &answered) {
		return answered.Response
	}
	return map[string]any{"error": err.Error()}
}

// invocationTool is a tool of the runtime's own, which needs the invocation.
type invocationTool interface {
	runInInvocation(ctx context.Context, inv *Invocation, call *tool.Call) (*tool.Result, error)
}

// invokeTool runs one tool within its time. A panic of a tool is an error of that
// tool: one bad tool must not take the host down.
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

// isFatal says whether a tool's failure is more than the model's business. Wrong
// arguments are the model's own mistake.
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
	if told, ok := asHookError(err); ok {
		return told
	}
	if ctx.Err() != nil {
		return AsRunError(ctx.Err())
	}
	return failf(CodeToolFailed, err, "tool %s of agent %s failed: %s", name, s.inv.node.agent.Name(), err)
}
