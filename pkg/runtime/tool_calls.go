package runtime

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"

	"google.golang.org/genai"

	"agenthost/internal/limit"
	"agenthost/internal/safe"
	"agenthost/pkg/connection"
	"agenthost/pkg/session"
	"agenthost/pkg/tool"
)

// One call passes these steps, each of which may answer instead of the next:
//
//	runCall               waits for its turn (call_order.go), finds the tool, reads the decision
//	runToolTraced         a span
//	runToolWithCallbacks  before_tool; after_tool or on_tool_error
//	invokeTool            the timeout; a panic becomes an error; a replay
//	runApproved           the confirmation; interceptors
//	runTool               sub-agents, finish_task, tools of the runtime, other tools
//
// An error is for the model, which can correct it, or ends the run (findFatal). Every call has a response
// in the history, also when the run ends: models reject a conversation with an open call. Therefore
// newFailureEvent answers the calls that have no result, and a result that the store would reject
// becomes an error text (setResponse, mergeAnswers) before it is part of an event.
//
// Calls run concurrently, and their results are merged in the order of the calls: the same history
// follows from the same answers, whichever tool was faster.

func (s *step) longRunningIDs(calls []*genai.FunctionCall) []string {
	ids := []string{}
	for _, c := range calls {
		if t := s.inv.activeToolbox().byName[c.Name]; t != nil && tool.CapabilitiesOf(t).LongRunning {
			ids = append(ids, c.ID)
		}
	}
	return ids
}

// executeCalls executes the calls in an event, yields the merged result and requests for human
// input, and runs the tasks that the calls delegate.
func (s *step) executeCalls(ctx context.Context, calls []*genai.FunctionCall) outcome {
	others := calls
	isTask := func(c *genai.FunctionCall) bool { return s.inv.node.findTaskNode(c) != nil }
	if s.inv.run.twoWay == nil && slices.ContainsFunc(calls, isTask) {
		others = slices.DeleteFunc(slices.Clone(calls), isTask)
	}
	if len(others) > 0 {
		o := s.executeToolCalls(ctx, others)
		if o.endsAgent() || len(others) == len(calls) {
			return o
		}
	}
	return s.dispatchTasks(ctx)
}

// executeToolCalls does the work of executeCalls for calls other than task calls.
func (s *step) executeToolCalls(ctx context.Context, calls []*genai.FunctionCall) outcome {
	results := s.runCallsOrDelegate(ctx, calls)
	switch results.outcome.kind {
	case outcomeStopped:
		return results.outcome
	case outcomeFinished:
		return s.finishTask(results.merged, results.outcome.value)
	}
	last, ok := s.emitResults(results.merged, calls)
	if !ok {
		return outcome{kind: outcomeStopped}
	}
	switch results.outcome.kind {
	case outcomeFailed:
		if results.failed != nil && !s.emitEvent(results.failed, nil) {
			return outcome{kind: outcomeStopped}
		}
		return results.outcome
	case outcomePaused:
		return results.outcome
	}
	if results.merged == nil {
		return outcome{kind: outcomeAnswered}
	}
	if to := results.merged.Actions.TransferToAgent; to != "" {
		return outcome{kind: outcomeTransferred, to: to}
	}
	if answer, o := s.emitStructuredOutput(ctx, results.merged); answer != nil {
		return o
	}
	return answerWith(last)
}

// mergedCalls are the results for the calls in one event.
type mergedCalls struct {
	// merged has the results in call order; nil when every result comes later.
	merged *session.Event
	// failed reports the error after which the run ends; nil if it was canceled from outside.
	failed  *session.Event
	outcome outcome
}

// runCalls executes the calls in one event concurrently and merges their results. It executes none
// if there are too many.
func (s *callRunner) runCalls(ctx context.Context, calls []*genai.FunctionCall) (r mergedCalls) {
	answers := make([]*callResult, len(calls))
	if limit := s.inv.run.config.maxFunctionCalls(); len(calls) > limit {
		failure := failf(CodeToolCallsLimit, errTooManyCalls, "%d function calls in one answer of agent %s exceed the limit of %d (run_config: max_function_calls)",
			len(calls), s.inv.node.agent.Name(), limit)
		for i := range answers {
			answers[i] = &callResult{outcome: failWith(failure)}
		}
		return mergedCalls{failed: s.newFailureEvent(calls, answers, failure), outcome: failWith(failure)}
	}
	if err := s.inv.loadToolsets(ctx); err != nil {
		return mergedCalls{outcome: failWith(err)}
	}
	if failure := s.limitCalls(calls, answers); failure != nil {
		return mergedCalls{failed: s.newFailureEvent(calls, answers, failure), outcome: failWith(failure)}
	}
	if len(calls) == 1 {
		if answers[0] == nil {
			answers[0] = s.runCall(ctx, calls[0], nil)
		}
	} else {
		s.runConcurrently(ctx, calls, answers)
	}
	r.merged, r.outcome = s.mergeAnswers(answers), mergeOutcomes(answers)
	if r.outcome.kind == outcomeFailed {
		r.failed = s.newFailureEvent(calls, answers, AsRunError(r.outcome.err))
	}
	s.inv.run.host.endCallSpans(answers, cmp.Or(r.merged, r.failed))
	return r
}

// limitCalls answers the calls beyond [RunRequest.MaxToolCalls], the last ones in their order. It returns
// an error if a model repeats them. A ToolNode's call is none of a model.
func (s *callRunner) limitCalls(calls []*genai.FunctionCall, answers []*callResult) *RunError {
	run := s.inv.run
	if run.limits.budget.toolLimit == 0 || s.agent == nil {
		return nil
	}
	counted := []int{}
	for i, c := range calls {
		if run.isCounted(c.Name) {
			counted = append(counted, i)
		}
	}
	allowed, isRepeated := run.limits.budget.reserveToolCalls(len(counted))
	isRepeated = isRepeated && len(counted) == len(calls)
	failure := failf(CodeToolCallsLimit, errTooManyCalls, "the limit of %d tool calls for this request is reached: answer without tools", run.limits.budget.toolLimit)
	for _, i := range counted[allowed:] {
		answers[i] = &callResult{}
		if isRepeated {
			answers[i].outcome = failWith(failure)
			continue
		}
		answers[i].setResponse(calls[i], tool.ErrorResponse(failure))
	}
	if isRepeated {
		return failure
	}
	return nil
}

// isCounted reports whether a tool counts for [RunRequest.MaxToolCalls]: not a client's, and no transfer.
func (r *run) isCounted(name string) bool {
	isClient := func(t tool.Tool) bool { return t.Declaration().Name == name }
	return name != tool.TransferToAgent && !slices.ContainsFunc(r.clientTools, isClient)
}

// runConcurrently executes the calls on the host's workers, besides those that have an answer.
func (s *callRunner) runConcurrently(ctx context.Context, calls []*genai.FunctionCall, answers []*callResult) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	run, order := s.inv.run, newCallOrder(len(calls))
	run.host.workers.runBatch(len(calls), run.config.maxToolWorkers(), func(i int) {
		defer func() { order.turns[i].endCall(answers[i]) }()
		defer safe.Recover(func(p *safe.Panic) {
			agent := s.inv.node.agent.Name()
			p.Log(run.logger(), "tool call panicked", "tool", calls[i].Name, "agent", agent)
			answers[i] = &callResult{outcome: failWith(failf(CodeToolFailed, errPanicked, "tool %s of agent %s panicked", calls[i].Name, agent))}
			cancel()
		})
		if answers[i] != nil {
			return
		}
		if err := ctx.Err(); err != nil {
			answers[i] = &callResult{outcome: failWith(AsRunError(err))}
			return
		}
		answers[i] = s.runCall(ctx, calls[i], order.turns[i])
		if answers[i].outcome.kind == outcomeFailed {
			cancel()
		}
	})
}

// mergeAnswers merges the available results into one event. A response that is too large together
// with those before it becomes an error.
func (s *callRunner) mergeAnswers(answers []*callResult) *session.Event {
	var merged *session.Event
	values := 0
	for _, a := range answers {
		if a.part == nil {
			continue
		}
		if err := limit.ToolResult.CheckCount(values + a.values); err != nil {
			f := *a.part.FunctionResponse
			f.Response = tool.ErrorResponse(fmt.Errorf("the response of tool %s cannot be stored: together with those of the other calls, %w", f.Name, err))
			a.part = &genai.Part{FunctionResponse: &f}
		} else {
			values += a.values
		}
		if merged == nil {
			merged = s.inv.NewEvent()
			merged.Content = &genai.Content{Role: genai.RoleUser}
			merged.Actions = a.actions
			merged.Actions.StateUpdates = slices.Clip(a.actions.StateUpdates) // later calls' updates are appended
		} else {
			mergeCallActions(&merged.Actions, &a.actions, a.replacedKeys())
		}
		merged.Content.Parts = append(merged.Content.Parts, a.part)
		merged.CustomMetadata = a.withEdited(merged.CustomMetadata)
	}
	return merged
}

// mergeOutcomes returns the outcome of all calls in a response, in their order: the last task
// output, else the first error, else a pause. Cancellations that only follow from another error do
// not count.
func mergeOutcomes(answers []*callResult) (all outcome) {
	for _, a := range answers {
		o := a.outcome
		onlyCanceled := all.kind == outcomeFailed && AsRunError(all.err).Code == CodeCanceled
		if o.kind > all.kind || o.kind == all.kind && (o.kind == outcomeFinished || onlyCanceled) {
			all = o
		}
	}
	return all
}

// callStoppedText is the result for a call that was canceled because of another.
const callStoppedText = "This call was canceled because another call ended the run."

// newFailureEvent returns the event for an error that ends the run. It answers the calls that have
// no result, so that no call stays open in the history. It is nil for a run that was canceled from
// outside.
func (s *callRunner) newFailureEvent(calls []*genai.FunctionCall, answers []*callResult, failure *RunError) *session.Event {
	if failure.Code == CodeCanceled {
		return nil
	}
	ev := s.inv.NewEvent()
	ev.ErrorCode, ev.ErrorMessage = failure.Code, failure.Message
	ev.Content = &genai.Content{Role: genai.RoleUser}
	for i, a := range answers {
		if a.outcome.kind != outcomeFailed {
			continue
		}
		runErr := AsRunError(a.outcome.err)
		if runErr.Code == CodeCanceled {
			runErr = &RunError{Message: callStoppedText}
		}
		a.setResponse(calls[i], tool.ErrorResponse(runErr))
		ev.Content.Parts = append(ev.Content.Parts, a.part)
	}
	return ev
}

// runCall executes one call when its turn begins; turn is nil for a call without others.
func (s *callRunner) runCall(ctx context.Context, fc *genai.FunctionCall, turn *callTurn) *callResult {
	a := &callResult{turn: turn}
	if err := turn.waitToBegin(ctx); err != nil {
		a.outcome = failWith(AsRunError(err))
		return a
	}
	a.state = s.inv.newCallState(&a.actions)
	a.state.turn = turn
	t := s.inv.activeToolbox().byName[fc.Name]
	if t == nil {
		s.answerUnknownTool(ctx, fc, a)
		return a
	}
	call := s.inv.newToolCall(fc, a.state)
	if first := s.attempts[fc.ID]; first != "" {
		call.IdempotencyKey = idempotencyKey(first, fc.ID)
	}
	d := s.decided[fc.ID]
	if d != nil {
		// The key is the first attempt's, so that a service executes the operation only once.
		call.Confirmation, call.Requested = d.confirmation, d.requested
		call.IdempotencyKey, call.Origin.UserText = idempotencyKey(d.invocation, d.call.ID), d.userText
	}
	s.setInterim(call, t)
	var result *tool.Result
	var err error
	if d != nil {
		err = s.applyEdits(ctx, t, call, d, a)
	}
	if err == nil {
		result, err = s.runToolTraced(ctx, t, call, a)
	}
	if requestsInput(&a.actions) {
		result, err = s.setPendingResult(a, result, err)
	}
	if err == nil {
		err = s.checkWrites(&a.actions)
	}
	var refused error // the model reads it (adk-python since 2.10)
	if to := a.actions.TransferToAgent; to != "" {
		if _, refused = s.inv.node.findTransferTarget(to); refused != nil {
			a.actions.TransferToAgent = ""
		}
	}
	if err != nil {
		if errors.Is(err, errSuspended) {
			a.outcome = outcome{kind: outcomePaused}
		} else if fatal := s.findFatal(ctx, err, t); fatal != nil {
			a.outcome = failWith(fatal)
		} else {
			a.setResponse(fc, tool.ErrorResponse(err))
		}
		return a
	}
	switch {
	case refused != nil:
		a.setResponse(fc, tool.ErrorResponse(refused))
	case tool.CapabilitiesOf(t).LongRunning && (result == nil || len(result.Response) == 0):
		if d != nil { // its confirmation had a preliminary result, which this one replaces
			a.setResponse(fc, map[string]any{"status": "pending"})
			a.actions.SkipSummarization = true
		}
	case result == nil || result.Response == nil:
		a.setResponse(fc, map[string]any{"result": nil})
	default:
		a.setResponse(fc, result.Response)
	}
	return a
}

var _ invocationTool = (*boundAgentTool)(nil)

// invokeTool runs one tool within its timeout. A tool panic is an error in this call and does not
// stop the host.
func (s *callRunner) invokeTool(ctx context.Context, t tool.Tool, call *tool.Call, a *callResult) (result *tool.Result, err error) {
	traits := tool.CapabilitiesOf(t)
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
	approved := func(ctx context.Context) (*tool.Result, error) { return s.runApproved(ctx, t, call, a) }
	if replay := s.inv.run.host.replay; replay != nil {
		return replay.RunTool(ctx, &tool.Execution{Tool: t, Call: call, Tools: s.inv.activeToolbox().listTools(), Run: approved})
	}
	return approved(ctx)
}

// runApproved runs a tool if a person has approved it, or none has to.
func (s *callRunner) runApproved(ctx context.Context, t tool.Tool, call *tool.Call, a *callResult) (*tool.Result, error) {
	if traits := tool.CapabilitiesOf(t); traits.Confirm != nil || call.Confirmation != nil {
		if result, err := s.checkApproval(ctx, call, traits); result != nil || err != nil {
			return result, err
		}
	}
	run := func(ctx context.Context) (*tool.Result, error) {
		if s.intercept != nil {
			if result := s.intercept(ctx, t, call); result != nil {
				return result, nil
			}
		}
		return s.runTool(ctx, t, call, a)
	}
	intercept := s.inv.run.host.runTool
	if intercept == nil {
		return run(ctx)
	}
	return intercept(ctx, &tool.Execution{Tool: t, Call: call, Tools: s.inv.activeToolbox().listTools(), Run: run})
}

func (s *callRunner) runTool(ctx context.Context, t tool.Tool, call *tool.Call, a *callResult) (*tool.Result, error) {
	if sub, ok := t.(*delegateTool); ok {
		return s.runDelegate(ctx, sub, call)
	}
	if finish, ok := t.(*finishTool); ok {
		value, err := finish.checkOutput(ctx, call.Args)
		if err != nil {
			return nil, err
		}
		a.outcome = outcome{kind: outcomeFinished, value: value}
		return &tool.Result{Response: map[string]any{"result": finishText}}, nil
	}
	if own, ok := t.(invocationTool); ok {
		return own.runInInvocation(ctx, s.inv, call)
	}
	result, err := t.Run(ctx, call)
	missing := (*connection.ConsentError)(nil)
	if !errors.As(err, &missing) {
		return result, err
	}
	// The user has not authorized the tool's connection.
	if s.inv.run.inner {
		return nil, errNoHuman
	}
	config, err := missing.Request(ctx, call.Origin.SessionID, call.ID)
	if err != nil {
		return nil, fmt.Errorf("tool %s: %w", call.Name, err)
	}
	call.RequestCredential(config)
	return nil, nil
}

// findFatal returns the error that ends the run after a tool has failed with err, or nil. The model reads
// other errors, and can correct invalid arguments.
func (s *callRunner) findFatal(ctx context.Context, err error, t tool.Tool) error {
	var args *tool.ArgsError
	var end *tool.EndError
	hookErr, fromHook := asHookError(err)
	switch {
	case errors.Is(err, errBudget):
		return err
	case fromHook:
		return hookErr
	case ctx.Err() != nil:
		return AsRunError(ctx.Err())
	case errors.As(err, &end) || tool.CapabilitiesOf(t).FailOnError && (s.agent == nil || !errors.As(err, &args)): // no model corrects a node's
		name := t.Declaration().Name
		return failf(CodeToolFailed, err, "tool %s of agent %s failed: %s", name, s.inv.node.agent.Name(), err)
	}
	return nil
}

// noHooks are the hooks for an agent without callbacks.
var noHooks hooks

// runToolWithCallbacks runs one tool with its callbacks (adk-python
// flows/llm_flows/functions.py).
func (s *callRunner) runToolWithCallbacks(ctx context.Context, t tool.Tool, call *tool.Call, traits tool.Capabilities, a *callResult) (*tool.Result, error) {
	h := s.inv.node.hooks
	if h == nil {
		h = &noHooks
	}
	result, err := firstAnswer(ctx, s.inv, "before_tool", h.beforeTool, func(f BeforeToolFunc) (*tool.Result, error) {
		return f(ctx, t, call)
	})
	if !traits.WritesState {
		a.turn.allowNext(a.state)
	}
	if result == nil && err == nil {
		if result, err = s.invokeTool(ctx, t, call, a); err != nil {
			result, err = s.recoverToolError(ctx, t, call, err, a.turn)
		}
	}
	a.turn.allowNext(a.state)
	if err != nil {
		return nil, err
	}
	if s.agent == nil && requestsInput(call.Actions) { // as in ADK's ToolNode
		return result, nil
	}
	if len(h.afterTool) == 0 {
		return result, nil
	}
	a.turn.waitForEarlier(ctx)
	replaced, err := firstAnswer(ctx, s.inv, "after_tool", h.afterTool, func(f AfterToolFunc) (*tool.Result, error) {
		return f(ctx, t, call, result)
	})
	if replaced != nil {
		result = replaced
	}
	return result, err
}

// recoverToolError calls the callbacks for a failed tool, and returns the
// error if none answers. Errors that end the run are not passed to them.
func (s *callRunner) recoverToolError(ctx context.Context, t tool.Tool, call *tool.Call, failure error, turn *callTurn) (*tool.Result, error) {
	if s.inv.node.hooks == nil || len(s.inv.node.hooks.onToolError) == 0 {
		return nil, failure
	}
	turn.waitForEarlier(ctx)
	var end *tool.EndError
	if ctx.Err() != nil || errors.Is(failure, errBudget) || errors.Is(failure, errSuspended) || errors.As(failure, &end) {
		return nil, failure
	}
	answer, err := firstAnswer(ctx, s.inv, "on_tool_error", s.inv.node.hooks.onToolError, func(f ToolErrorFunc) (*tool.Result, error) {
		return f(ctx, t, call, failure)
	})
	if answer == nil && err == nil {
		err = failure
	}
	return answer, err
}

// answerUnknownTool answers a call to an unknown tool.
func (s *callRunner) answerUnknownTool(ctx context.Context, fc *genai.FunctionCall, a *callResult) {
	err := fmt.Errorf("tool %q not found: the available tools are %s", fc.Name, cmp.Or(strings.Join(s.inv.activeToolbox().names, ", "), "none"))
	if s.inv.node.hooks == nil {
		a.setResponse(fc, tool.ErrorResponse(err))
		return
	}
	result, err := s.recoverToolError(ctx, missingTool{fc.Name}, s.inv.newToolCall(fc, a.state), err, a.turn)
	hookErr, failed := asHookError(err)
	switch {
	case failed:
		a.outcome = failWith(hookErr)
	case ctx.Err() != nil:
		a.outcome = failWith(AsRunError(ctx.Err()))
	case err != nil:
		a.setResponse(fc, tool.ErrorResponse(err))
	default:
		a.setResponse(fc, result.Response)
	}
}

// missingTool represents an unknown tool.
type missingTool struct{ name string }

func (t missingTool) Declaration() *genai.FunctionDeclaration {
	return &genai.FunctionDeclaration{Name: t.name, Description: "Tool not found"}
}

func (t missingTool) Run(context.Context, *tool.Call) (*tool.Result, error) {
	return nil, fmt.Errorf("tool %q not found", t.name)
}
