package runtime

import (
	"context"
	"slices"

	"agenthost/pkg/model"
	"agenthost/pkg/session"
)

// Run executes steps until one ends with a final event.
func (a *LLMAgent) Run(ctx context.Context, inv *Invocation) Events {
	return streamEvents(ctx, a, inv)
}

// An LLM agent is a loop of steps. A step builds a request from the history, calls the model, and yields
// its responses; calls in a response are executed while the stream is open, because a live model sends
// more than one whole response. The next step reads the results from the history, not from memory: each
// event is stored when yield returns.
//
// The loop ends with an answer, a pause, a transfer or an error (outcome). Before its first step an agent
// may have old work: the rest of an interrupted step, decided calls, a sub-agent whose call the user has
// answered, open tasks. They come in this order, since each may make the next one needless. Pending calls
// end the loop although their outcome is next: the model must not see a call without its result.
//
// Partial events carry the ID of their response and are not stored. The last event of
// a turn is announced before it is yielded (onLastEvent), so only where nothing can follow it.

// run continues an interrupted agent where it was, and runs steps while they lead to another one. It
// also ends with a step that has pending calls.
func (a *LLMAgent) run(ctx context.Context, inv *Invocation, yield func(*session.Event, error) bool) bool {
	s := &step{callRunner: callRunner{inv: inv, agent: a}, sink: yield}
	if err := s.addGenerator(); err != nil {
		yield(nil, err)
		return false
	}
	defer s.closeGenerator()
	var o outcome
	switch {
	case inv.frame != nil:
		o = s.resumeAgent(ctx)
	case inv.run.decisions != nil:
		o = s.executeDecisions(ctx)
	}
	if o.kind == outcomeNext && inv.frame == nil {
		o = s.continueDelegate(ctx)
	}
	if o.kind == outcomeNext && !s.hasPendingCalls() {
		o = s.dispatchTasks(ctx)
	}
	for o.kind == outcomeNext && !s.hasPendingCalls() && !inv.hasEnded() {
		o = s.runStep(ctx)
	}
	if o.kind == outcomeTransferred {
		o = s.transferTo(ctx, o.to)
	}
	switch o.kind {
	case outcomeFailed:
		yield(nil, o.err)
		return false
	case outcomeStopped:
		return false
	}
	if !s.pauseIfPending() {
		return false
	}
	// A task that is a node of a workflow has no output yet: it pauses until the user's next message.
	if o.kind != outcomeFinished && inv.frame != nil && inv.node.isTaskNode() && !inv.hasEnded() && !slices.ContainsFunc(inv.frame.prior.allEvents(), isTaskFinish) {
		inv.frame.markPaused()
	}
	return true
}

// runStep runs the next step: it builds a request, calls the model, and executes the calls in each
// whole response while the stream lasts.
func (s *step) runStep(ctx context.Context) outcome {
	s.decided, s.modelAnswer = nil, modelAnswer{reached: outcome{kind: outcomeAnswered}}
	if c := s.inv.run.app.compactor; c != nil && s.inv.branch == "" { // on a parallel branch, other agents write at the same time
		compaction{s.inv}.compactTokens(ctx, max(c.EventRetention, 1)) // the model answers the last event
	}
	req, err := s.inv.buildRequest(ctx, s.agent)
	if err == nil {
		plan := s.agent.opts.Planner.newPlanText()
		err = s.callModel(ctx, req, func(resp *model.Response, err error) bool {
			return s.handleResponse(ctx, plan.separatePlan(rejectEmptyAnswer(resp, err)), err)
		})
	}
	if err != nil {
		return failWith(err)
	}
	return s.reached
}

// handleResponse yields a model response and executes its calls. It keeps what the response leads
// to, and returns whether the step takes more responses.
func (s *step) handleResponse(ctx context.Context, resp *model.Response, err error) bool {
	if err != nil {
		s.reached = s.handleModelError(err)
		return false
	}
	if resp.Content == nil && resp.ErrorCode == "" && !resp.Interrupted && resp.GroundingMetadata == nil {
		return true // it has nothing for an event (adk-python base_llm_flow.py)
	}
	if upTo, code := s.findCode(resp); upTo != nil {
		shown := resp.Clone() // the response up to its code is not a final answer
		shown.Content = upTo
		s.reached = outcome{kind: outcomeStopped}
		if s.emitEvent(s.newModelEvent(shown), nil) {
			s.reached = s.runCode(ctx, code)
		}
		return !s.reached.endsAgent()
	}
	ev := s.newModelEvent(resp)
	o := s.emitAnswer(ctx, ev)
	switch {
	case o.endsAgent():
	case ev.Partial:
		return true
	default:
		if calls := ev.Calls(); len(calls) > 0 {
			o = s.executeCalls(ctx, calls)
		} else {
			o = answerWith(ev)
		}
	}
	s.reached = o
	return !o.endsAgent()
}

// handleModelError yields an event with the model's error, which ends the run.
func (s *step) handleModelError(err error) outcome {
	if hookErr, ok := asHookError(err); ok {
		return failWith(hookErr)
	}
	failure := s.inv.ModelError(err)
	if failure.Code != CodeCanceled {
		s.inv.run.logger().Warn("model call failed", "agent", s.inv.node.agent.Name(), "error", err)
		ev := s.inv.NewEvent()
		ev.ErrorCode, ev.ErrorMessage = failure.Code, failure.Message
		s.attachCallbackActions(ev)
		if !s.emitEvent(ev, nil) {
			return outcome{kind: outcomeStopped}
		}
	}
	return failWith(failure)
}

// callModel calls the model with its callbacks. Only a real model call is counted. The error is one
// that occurred before the call; yield receives the call's errors.
func (s *step) callModel(ctx context.Context, req *model.Request, yield responseFunc) error {
	host, hooked := s.inv.run.host, s.inv.node.hooks != nil
	if hooked {
		answer, err := s.inv.runBeforeModel(ctx, s.modelCallbackContext(), req)
		if err != nil {
			return err
		}
		if answer != nil {
			s.id = host.newID()
			s.inv.run.traceCallbackAnswer(ctx, req, "before_model", s.id)
			yield(answer, nil)
			return nil
		}
	}
	if err := s.inv.run.limits.budget.spendCall(); err != nil {
		return err
	}
	s.id = host.newID()
	if hooked {
		yield = s.withModelCallbacks(ctx, req, yield)
	}
	if budget := s.inv.run.limits.budget; budget.maxCost > 0 {
		yield = budget.countCost(yield)
	}
	if host.isObserved() {
		s.inv.run.traceModelCall(ctx, req, s.id, s.streamModel, yield)
	} else {
		s.streamModel(ctx, req, yield) // avoids allocating a method value
	}
	return nil
}

// streamModel calls the agent's model. A model panic is a failed call.
func (s *step) streamModel(ctx context.Context, req *model.Request, yield responseFunc) {
	s.guard = panicGuard[*model.Response]{onPanic: (*Invocation).modelPanicked, inv: s.inv, yield: yield}
	defer s.guard.recoverPanic()
	if replay := s.inv.run.host.replay; replay != nil {
		notes := append(s.inv.hostNotes(s.agent), req.Notes...)
		replay.CallModel(ctx, &ModelCall{Model: s.inv.node.llm, Request: req, Notes: notes})(s.guard.forwardValue)
		return
	}
	llm := s.inv.node.llm
	if s.generator != nil {
		llm = s.generator
	}
	llm.Generate(ctx, req)(s.guard.forwardValue)
}
