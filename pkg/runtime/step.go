package runtime

import (
	"context"
	"slices"

	"google.golang.org/genai"

	"agenthost/pkg/model"
	"agenthost/pkg/session"
	"agenthost/pkg/tool"
)

// A step is one call of an agent's model and the tool calls of its response.
// An agent runs one step after the other.
type step struct {
	inv *Invocation
	// agent is nil in a ToolNode.
	agent *LLMAgent
	sink  func(*session.Event, error) bool
	// decided has the decisions of a person, by call ID.
	decided map[string]*decision
	// state is nil until a value is stored, which most steps do not need.
	state *stepState
	// id is the ID of the events with the model response; last is the latest
	// event that is not partial.
	id   string
	last *session.Event
	// guard wraps the model's stream.
	guard panicGuard[*model.Response]
	// emitted reports whether the agent has yielded an event in this run; done
	// reports that the run must end, after an error or because the consumer
	// stopped.
	emitted, done bool
}

// emitEvent yields an event, and returns whether the agent's run continues.
func (s *step) emitEvent(ev *session.Event, err error) bool {
	if f := s.inv.frame; f != nil && ev != nil && ev.NodePath == f.path {
		f.trackPending(ev)
	}
	s.emitted = true
	s.done = s.done || !s.sink(ev, err) || err != nil
	return !s.done
}

// stepState is the state that a step keeps between the responses of a stream.
type stepState struct {
	// ids are the IDs assigned to calls without one: the partial responses and
	// the whole response contain the same call.
	ids map[*genai.FunctionCall]string
	// callbackContext is the context of model callbacks; nil until one is
	// called.
	callbackContext *CallbackContext
}

func (s *step) ensureState() *stepState {
	if s.state == nil {
		s.state = &stepState{}
	}
	return s.state
}

// runOnce runs the step, and returns whether another one must follow.
func (s *step) runOnce(ctx context.Context) bool {
	s.decided, s.state, s.last = nil, nil, nil
	s.inv.compactBefore(ctx)
	req, err := s.inv.buildRequest(ctx, s.agent)
	whole := false
	if err == nil {
		whole, err = s.callModel(ctx, req, s.agent.opts.Planner.separatePlan(func(resp *model.Response, err error) bool {
			return s.handleResponse(ctx, resp, err)
		}))
	}
	if err != nil {
		s.emitEvent(nil, err)
		return false
	}
	return whole && s.last != nil && !s.last.IsFinal()
}

// handleResponse yields a response of the model, and returns whether the step
// continues.
func (s *step) handleResponse(ctx context.Context, resp *model.Response, err error) bool {
	if err != nil {
		s.handleModelError(err)
		return false
	}
	if !isMeaningful(resp) {
		return true
	}
	if upTo, code := s.findCode(resp); upTo != nil {
		return s.emitAndRunCode(ctx, resp, upTo, code)
	}
	ev := s.newModelEvent(resp)
	if !s.emitAnswer(ev) {
		return false
	}
	if ev.Partial {
		return true
	}
	s.last = ev
	if calls := ev.Calls(); len(calls) > 0 {
		answer, ok := s.answerCalls(ctx, calls)
		if answer != nil {
			s.last = answer
		}
		return ok
	}
	return true
}

// isMeaningful reports whether a response has content; others are dropped
// (adk-python base_llm_flow.py).
func isMeaningful(r *model.Response) bool {
	return r.Content != nil || r.ErrorCode != "" || r.Interrupted || r.GroundingMetadata != nil
}

// newModelEvent returns the event of a model response. The partial responses
// of a stream and the whole response share one ID.
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
		k := s.ensureState()
		call.ID = k.ids[p.FunctionCall]
		if call.ID == "" {
			call.ID = ownIDPrefix + s.inv.run.host.newID()
			if k.ids == nil {
				k.ids = map[*genai.FunctionCall]string{}
			}
			k.ids[p.FunctionCall] = call.ID
		}
		q := *p
		q.FunctionCall = &call
		parts[i] = &q
	}
	return &genai.Content{Role: c.Role, Parts: parts}
}

func (s *step) longRunningIDs(calls []*genai.FunctionCall) []string {
	ids := []string{}
	for _, c := range calls {
		if t := s.inv.activeToolbox().byName[c.Name]; t != nil && tool.CapabilitiesOf(t).LongRunning {
			ids = append(ids, c.ID)
		}
	}
	return ids
}

// answerCalls executes the calls of an event, yields requests for human input
// and the merged result, and transfers to another agent if a call requests it.
// It returns the result, which is nil when every call is answered later, and
// false when the agent's run is over.
func (s *step) answerCalls(ctx context.Context, calls []*genai.FunctionCall) (*session.Event, bool) {
	answer, failed, err := s.runCalls(ctx, calls)
	if answer != nil && (!s.emitHumanRequests(answer, calls) || !s.emitEvent(answer, nil)) {
		return nil, false
	}
	if err != nil {
		if failed == nil || s.emitEvent(failed, nil) {
			s.emitEvent(nil, err)
		}
		return nil, false
	}
	if answer == nil {
		return nil, true
	}
	if to := answer.Actions.TransferToAgent; to != "" {
		s.transferTo(ctx, to)
		return nil, false
	}
	return s.emitStructuredOutput(answer)
}

// transferTo runs another agent within this agent's run. This agent does not
// continue after it.
func (s *step) transferTo(ctx context.Context, name string) {
	i := slices.IndexFunc(s.inv.node.transferTargets, func(n *node) bool { return n.agent.Name() == name })
	target := s.inv.run.app.findNode(name)
	if i >= 0 {
		target = s.inv.node.transferTargets[i]
	}
	if target == nil {
		s.emitEvent(nil, failf(CodeTransferFailed, nil, "Agent %s not found in the agent tree.", name))
		return
	}
	to := s.inv.newChildInvocation(target, s.inv.branch, 1)
	to.endsRun = s.inv.endsRun && s.inv.endsWithAgent()
	to.runAgent(ctx, s.emitEvent)
}

// handleModelError yields an event with the model's error, and ends the run.
func (s *step) handleModelError(err error) {
	if hookErr, ok := asHookError(err); ok {
		s.emitEvent(nil, hookErr)
		return
	}
	failure := modelFailure(s.inv.node.llm.Name(), err)
	if failure.Code != CodeCanceled {
		ev := s.inv.NewEvent()
		ev.ErrorCode, ev.ErrorMessage = failure.Code, failure.Message
		s.attachCallbackActions(ev)
		if !s.emitEvent(ev, nil) {
			return
		}
	}
	s.emitEvent(nil, failure)
}
