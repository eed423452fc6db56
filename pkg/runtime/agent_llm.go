package runtime

import (
	"context"
	"maps"
	"slices"
	"strings"

	"google.golang.org/genai"

	"agenthost/pkg/model"
	"agenthost/pkg/session"
	"agenthost/pkg/tool"
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
	compaction{s.inv}.compactBefore(ctx)
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
		s.reached = s.emitAndRunCode(ctx, resp, upTo, code)
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

// newModelEvent returns the event for a model response. A stream's partial responses and its whole
// response share one ID.
func (s *step) newModelEvent(resp *model.Response) *session.Event {
	ev := s.inv.newEventWithID(s.id)
	ev.Response = *resp
	s.attachCallbackActions(ev)
	if calls := ev.Calls(); len(calls) > 0 {
		ev.Content = s.assignCallIDs(ev.Content)
		ev.LongRunningToolIDs = s.longRunningIDs(ev.Calls())
	}
	return ev
}

// assignCallIDs assigns IDs to calls that the model sent without one.
func (s *step) assignCallIDs(c *genai.Content) *genai.Content {
	parts := slices.Clone(c.Parts)
	for i, p := range parts {
		if p.FunctionCall == nil || p.FunctionCall.ID != "" {
			continue
		}
		call := *p.FunctionCall
		call.ID = s.assigned[p.FunctionCall]
		if call.ID == "" {
			call.ID = ownIDPrefix + s.inv.run.host.newID()
			if s.assigned == nil {
				s.assigned = map[*genai.FunctionCall]string{}
			}
			s.assigned[p.FunctionCall] = call.ID
		}
		q := *p
		q.FunctionCall = &call
		parts[i] = &q
	}
	return &genai.Content{Role: c.Role, Parts: parts}
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

func (inv *Invocation) runBeforeModel(ctx context.Context, m *CallbackContext, req *model.Request) (*model.Response, error) {
	return firstAnswer(ctx, inv, "before_model", inv.node.hooks.beforeModel, func(f BeforeModelFunc) (*model.Response, error) {
		return f(ctx, m, req)
	})
}

// withModelCallbacks wraps yield with the callbacks after the model: those for a failed call, unless
// the run was canceled, then those for a response. The error stays if none answers.
func (s *step) withModelCallbacks(ctx context.Context, req *model.Request, yield responseFunc) responseFunc {
	hooks := s.inv.node.hooks
	return func(resp *model.Response, err error) bool {
		if failure := err; err != nil && ctx.Err() == nil {
			resp, err = firstAnswer(ctx, s.inv, "on_model_error", hooks.onModelError, func(f ModelErrorFunc) (*model.Response, error) {
				return f(ctx, s.modelCallbackContext(), req, failure)
			})
			if resp == nil && err == nil {
				err = failure
			}
		}
		if err == nil {
			given, answer := resp, (*model.Response)(nil)
			answer, err = firstAnswer(ctx, s.inv, "after_model", hooks.afterModel, func(f AfterModelFunc) (*model.Response, error) {
				return f(ctx, s.modelCallbackContext(), given)
			})
			if answer != nil {
				resp = answer
			}
		}
		return yield(resp, err) && err == nil
	}
}

// modelCallbackContext returns the context that the model's callbacks share
// until an event takes their writes.
func (s *step) modelCallbackContext() *CallbackContext {
	if s.callbackContext == nil {
		s.callbackContext = s.inv.newCallbackContext(&session.Actions{})
	}
	return s.callbackContext
}

// attachCallbackActions adds the model callbacks' writes to an event. A partial event gets a copy;
// the whole response takes them.
func (s *step) attachCallbackActions(ev *session.Event) {
	if s.callbackContext == nil {
		return
	}
	ev.Actions = *s.callbackContext.Actions
	if ev.Partial {
		ev.Actions.StateDelta = maps.Clone(ev.Actions.StateDelta)
		ev.Actions.ArtifactDelta = maps.Clone(ev.Actions.ArtifactDelta)
		return
	}
	s.callbackContext = nil
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

// emitAnswer stores an event's output and yields the event. An answer that does not match the
// schema is stored and ends the run.
func (s *step) emitAnswer(ctx context.Context, ev *session.Event) outcome {
	var failure *RunError
	if !ev.Partial {
		failure = s.agent.storeOutput(ctx, s.inv.run.app.state, ev)
	}
	if failure == nil && s.inv.onLastEvent != nil && s.inv.endsWithAgent() && !ev.Partial && ev.IsFinal() && len(ev.Calls()) == 0 {
		s.inv.onLastEvent()
	}
	proceed := s.emitEvent(ev, nil)
	if proceed && failure != nil {
		return failWith(failure)
	}
	return stopUnless(proceed)
}

// storeOutput sets the agent's output key to a final event's text, so that both are stored together
// (adk-python llm_agent.py __maybe_save_output_to_state). With an output schema it sets the decoded
// value. Text that does not match the schema makes ev an error event.
func (a *LLMAgent) storeOutput(ctx context.Context, s *tool.StateSchema, ev *session.Event) *RunError {
	if a.opts.OutputKey == "" || a.opts.Mode == ModeTask || !ev.IsFinal() || ev.Content == nil {
		return nil
	}
	isOutputText := func(p *genai.Part) bool { return p.Text != "" && !p.Thought }
	if !slices.ContainsFunc(ev.Content.Parts, isOutputText) {
		return nil
	}
	text := model.TextOf(ev.Content)
	if a.opts.OutputSchema == nil {
		return a.storeOutputValue(s, ev, text)
	}
	if strings.TrimSpace(text) == "" {
		return nil
	}
	v, err := a.opts.OutputSchema.Parse(ctx, text)
	if err != nil {
		return rejectOutput(ev, err, "the answer of agent %s does not match its output_schema: %s", a.AgentName, err)
	}
	return a.storeOutputValue(s, ev, v)
}
