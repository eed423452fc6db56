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
	to    func(*session.Event, error) bool
	// decided has what a person said, by the id of the call.
	decided map[string]*decision
	// kept is nil until there is something to keep: most steps have nothing.
	kept *kept
	// id is that of the events which hold the model's answer, and last the
	// latest event that is whole.
	id   string
	last *session.Event
	// heard stands between the model and whoever hears it.
	heard shield[*model.Response]
	// spoke says that the agent has said something in this run, and over that
	// it has to end: it failed, or nobody wants more.
	spoke, over bool
}

// yield passes an event on, and says whether the agent's run goes on.
func (s *step) yield(ev *session.Event, err error) bool {
	if f := s.inv.frame; f != nil && ev != nil && ev.NodePath == f.path {
		f.watch(ev)
	}
	s.spoke = true
	s.over = s.over || !s.to(ev, err) || err != nil
	return !s.over
}

// kept is what a step keeps from one answer of its model to the next.
type kept struct {
	// ids are the ids made for calls that came without: the pieces of a stream
	// and the whole answer hold the same call.
	ids map[*genai.FunctionCall]string
	// moment is what callbacks of the model see; nil until one is asked.
	moment *Moment
}

func (s *step) keep() *kept {
	if s.kept == nil {
		s.kept = &kept{}
	}
	return s.kept
}

// take carries the step out, and says whether another one has to follow.
func (s *step) take(ctx context.Context) bool {
	s.decided, s.kept, s.last = nil, nil, nil
	s.inv.compactBefore(ctx)
	req, err := s.inv.request(ctx, s.agent)
	whole := false
	if err == nil {
		whole, err = s.ask(ctx, req, s.agent.opts.Planner.review(func(resp *model.Response, err error) bool {
			return s.hear(ctx, resp, err)
		}))
	}
	if err != nil {
		s.yield(nil, err)
		return false
	}
	return whole && s.last != nil && !s.last.IsFinal()
}

// hear yields what the model answers, and says whether the step goes on.
func (s *step) hear(ctx context.Context, resp *model.Response, err error) bool {
	if err != nil {
		s.modelFailed(err)
		return false
	}
	if !says(resp) {
		return true
	}
	if said, code := s.codeIn(resp); said != nil {
		return s.sayCode(ctx, resp, said, code)
	}
	ev := s.event(resp)
	if !s.say(ev) {
		return false
	}
	if ev.Partial {
		return true
	}
	s.last = ev
	if calls := ev.Calls(); len(calls) > 0 {
		answer, ok := s.answer(ctx, calls)
		if answer != nil {
			s.last = answer
		}
		return ok
	}
	return true
}

// says drops answers that hold nothing (adk-python base_llm_flow.py).
func says(r *model.Response) bool {
	return r.Content != nil || r.ErrorCode != "" || r.Interrupted || r.GroundingMetadata != nil
}

// event makes the model's answer an event of the agent. The pieces of a stream
// and the whole answer share one id.
func (s *step) event(resp *model.Response) *session.Event {
	ev := s.inv.eventOf(s.id)
	ev.Response = *resp
	s.ride(ev)
	if calls := ev.Calls(); len(calls) > 0 {
		ev.Content = s.withIDs(ev.Content)
		ev.LongRunningToolIDs = s.longRunning(ev.Calls())
	}
	return ev
}

// withIDs gives ids to the calls that the model sent without.
func (s *step) withIDs(c *genai.Content) *genai.Content {
	parts := slices.Clone(c.Parts)
	for i, p := range parts {
		if p.FunctionCall == nil || p.FunctionCall.ID != "" {
			continue
		}
		call := *p.FunctionCall
		k := s.keep()
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

func (s *step) longRunning(calls []*genai.FunctionCall) []string {
	ids := []string{}
	for _, c := range calls {
		if t := s.inv.tools().byName[c.Name]; t != nil && tool.CapabilitiesOf(t).LongRunning {
			ids = append(ids, c.ID)
		}
	}
	return ids
}

// answer carries out the calls of an event, yields what they ask of a person
// and their merged answer, and hands over when a call asks for it. It returns
// the answer, which is nil when every call is answered later, and false when
// the agent's run is over.
func (s *step) answer(ctx context.Context, calls []*genai.FunctionCall) (*session.Event, bool) {
	answer, failed, err := s.runCalls(ctx, calls)
	if answer != nil && (!s.askPerson(answer, calls) || !s.yield(answer, nil)) {
		return nil, false
	}
	if err != nil {
		if failed == nil || s.yield(failed, nil) {
			s.yield(nil, err)
		}
		return nil, false
	}
	if answer == nil {
		return nil, true
	}
	if to := answer.Actions.TransferToAgent; to != "" {
		s.transfer(ctx, to)
		return nil, false
	}
	return s.settle(answer)
}

// transfer runs the agent that takes over, inside this one's run. Nothing of
// this agent follows.
func (s *step) transfer(ctx context.Context, name string) {
	i := slices.IndexFunc(s.inv.node.targets, func(n *node) bool { return n.agent.Name() == name })
	target := s.inv.run.app.find(name)
	if i >= 0 {
		target = s.inv.node.targets[i]
	}
	if target == nil {
		s.yield(nil, failf(CodeTransferFailed, nil, "Agent %s not found in the agent tree.", name))
		return
	}
	to := s.inv.enter(target, s.inv.branch, 1)
	to.endsRun = s.inv.endsRun && s.inv.endsWithAgent()
	to.runAgent(ctx, s.yield)
}

// modelFailed tells the history that the model failed, and ends the run.
func (s *step) modelFailed(err error) {
	if told, ok := asHookFailure(err); ok {
		s.yield(nil, told)
		return
	}
	failure := modelFailure(s.inv.node.llm.Name(), err)
	if failure.Code != CodeCanceled {
		ev := s.inv.NewEvent()
		ev.ErrorCode, ev.ErrorMessage = failure.Code, failure.Message
		s.ride(ev)
		if !s.yield(ev, nil) {
			return
		}
	}
	s.yield(nil, failure)
}
