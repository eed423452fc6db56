package runtime

import (
	"context"
	"slices"

	"google.golang.org/genai"

	"agenthost/pkg/model"
	"agenthost/pkg/session"
	"agenthost/pkg/tool"
)

// A step is one call of an agent's model and the calls that the model makes. An
// agent takes one after the other.
type step struct {
	inv *Invocation
	// agent is nil where a ToolNode calls.
	agent *LLMAgent
	sink  func(*session.Event, error) bool
	// decided has what a person said, by the id of the call.
	decided map[string]*decision
	// state is nil until there is something to keep: most steps have nothing.
	state *stepState
	// id is that of the events which hold the model's answer, and last the
	// latest event that is whole.
	id   string
	last *session.Event
	// guard stands between the model and whoever hears it.
	guard panicGuard[*model.Response]
	// spoke says that the agent has said something in this run, and over that
	// it has to end: it failed, or nobody wants more.
	emitted, done bool
}

// emitEvent passes an event on, and says whether the agent's run goes on.
func (s *step) emitEvent(ev *session.Event, err error) bool {
	if f := s.inv.frame; f != nil && ev != nil && ev.NodePath == f.path {
		f.trackPending(ev)
	}
	s.emitted = true
	s.done = s.done || !s.sink(ev, err) || err != nil
	return !s.done
}

// stepState is what a step keeps from one answer of its model to the next.
type stepState struct {
	// ids are the ids made for calls that came without: the pieces of a stream
	// and the whole answer hold the same call.
	ids map[*genai.FunctionCall]string
	// callbackContext is what callbacks of the model see; nil until one is asked.
	callbackContext *CallbackContext
}

func (s *step) ensureState() *stepState {
	if s.state == nil {
		s.state = &stepState{}
	}
	return s.state
}

// runOnce carries the step out, and says whether another one has to follow.
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

// handleResponse yields what the model answers, and says whether the step goes on.
func (s *step) handleResponse(ctx context.Context, resp *model.Response, err error) bool {
	if err != nil {
		s.handleModelError(err)
		return false
	}
	if !isMeaningful(resp) {
		return true
	}
	if said, code := s.findCode(resp); said != nil {
		return s.emitAndRunCode(ctx, resp, said, code)
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

// isMeaningful drops answers that hold nothing (adk-python base_llm_flow.py).
func isMeaningful(r *model.Response) bool {
	return r.Content != nil || r.ErrorCode != "" || r.Interrupted || r.GroundingMetadata != nil
}

// newModelEvent makes the model's answer an event of the agent. The pieces of a stream
// and the whole answer share one id.
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

// assignCallIDs gives ids to the calls that the model sent without.
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

// answerCalls carries out the calls of an event, yields what they ask of a person
// and their merged answer, and hands over when a call asks for it. It returns
// the answer, which is nil when every call is answered later, and false when
// the agent's run is over.
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

// transferTo runs the agent that takes over, inside this one's run. Nothing of
// this agent follows.
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

// handleModelError tells the history that the model failed, and ends the run.
func (s *step) handleModelError(err error) {
	if told, ok := asHookError(err); ok {
		s.emitEvent(nil, told)
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
