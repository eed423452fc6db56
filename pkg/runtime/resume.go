package runtime

import (
	"context"
	"maps"
	"slices"
	"strings"

	"google.golang.org/genai"

	"agenthost/pkg/model"
	"agenthost/pkg/session"
)

// resolveInvocation finds the invocation that a request goes on with and what it did
// before: the one that it names, or that of the call which its message answers
// (adk-python runners.py _resolve_invocation_id). Any other request begins a
// new one.
func (r *run) resolveInvocation(req *RunRequest, events []*session.Event) error {
	if req.InvocationID != "" && !r.app.Resumable {
		return invalidRequest("app %s cannot resume the invocation %s: set resumability_config: {is_resumable: true} in its app.yaml", r.app.Name, req.InvocationID)
	}
	if !r.app.Resumable {
		return nil
	}
	events = session.Recorded(events)
	id := req.InvocationID
	if req.Message != nil {
		answered := findAnsweredInvocation(events, model.ResponsesOf(r.user))
		switch {
		case answered != "":
			if id != "" && id != answered {
				r.logger().Warn("the message answers a call of another invocation than the request names: that one is resumed",
					"named", id, "answered", answered)
			}
			id = answered
		case id != "":
			return invalidRequest("a message beside invocationId has to answer a function call of that invocation; leave invocationId out to say something new")
		}
	}
	if id == "" {
		return nil
	}
	rec := newInvocationRecord(events, id)
	if len(rec.users)+len(rec.events) == 0 {
		if req.Message != nil {
			return nil
		}
		return failf(CodeInvalidRequest, session.ErrNotFound, "Invocation ID not found: %s", id)
	}
	return r.resumeInvocation(rec, id, req)
}

// resumeInvocation makes the run one of an earlier invocation. A message for one that
// has ended, or that began when the app was not resumable, is a new invocation.
func (r *run) resumeInvocation(rec *invocationRecord, id string, req *RunRequest) error {
	if req.Message != nil && (rec.rootPath() == "" || rec.frameAt(rec.rootPath()).hasEnded()) {
		return nil
	}
	if req.Message == nil {
		if len(rec.users) == 0 {
			return invalidRequest("the invocation %s has no message of the user to resume with", id)
		}
		r.user = rec.users[0].Content
		if last := rec.users[len(rec.users)-1]; len(last.Responses()) > 0 {
			r.user = last.Content
		}
		r.userText = model.TextOf(r.user)
		r.turn = countTurns(r.sess.History)
	}
	r.id, r.record = id, rec
	r.budget.used.Store(int64(rec.countModelAnswers(r.app)))
	return nil
}

// findAnsweredInvocation is the invocation with a call that is answered.
func findAnsweredInvocation(events []*session.Event, answers []*genai.FunctionResponse) string {
	ids := map[string]bool{}
	for _, f := range answers {
		ids[f.ID] = true
	}
	if len(ids) == 0 {
		return ""
	}
	for _, ev := range slices.Backward(events) {
		for _, c := range ev.Calls() {
			if ids[c.ID] {
				return ev.InvocationID
			}
		}
	}
	return ""
}

// ResumableInvocation is the last invocation that can be resumed: one of a resumable app
// that was cut off, or that waits for somebody. It is empty when the session's
// last invocation has ended or cannot be resumed.
func ResumableInvocation(events []*session.Event) string {
	events = session.Recorded(events)
	for _, ev := range slices.Backward(events) {
		if ev.Actions.Compaction != nil {
			continue
		}
		rec := newInvocationRecord(events, ev.InvocationID)
		if ev.NodePath == "" && ev.Author != session.UserAuthor || rec.frameAt(rec.rootPath()).hasEnded() {
			return ""
		}
		return ev.InvocationID
	}
	return ""
}

// newRootInvocation is the invocation's first agent: that of its record, or a choice.
func (r *run) newRootInvocation() (*Invocation, error) {
	if !r.app.Resumable {
		return r.newTurnInvocation(), nil
	}
	path := r.record.rootPath()
	if path == "" {
		inv := r.newTurnInvocation()
		inv.frame = &frame{path: inv.node.agent.Name() + "@1"}
		return inv, nil
	}
	name, first := strings.CutSuffix(path, "@1")
	n := r.app.findNode(name)
	switch {
	case !first:
		return nil, invalidRequest("the invocation cannot be resumed: its node path must begin with an agent's name and @1, got %.60q", path)
	case n == nil:
		return nil, invalidRequest("the invocation cannot be resumed: agent %s, which began it, is no longer part of the app; begin a new one", name)
	}
	return &Invocation{run: r, node: n, frame: &frame{path: path, prior: r.record.frameAt(path)}}, nil
}

// restoreCredentials gives a resumed run what the user's message gave before:
// temp: keys are not stored.
func (r *run) restoreCredentials() {
	if r.decisions != nil && len(r.decisions.credentials) > 0 {
		r.sess.State.Apply(r.decisions.credentials)
	}
}

// trackPending notes the calls that somebody answers later. One whose own answer is a
// failure is none: it was not carried out, or a person is asked about it by a
// request, which is a call of its own.
func (f *frame) trackPending(ev *session.Event) {
	if f == nil || ev == nil || ev.Partial {
		return
	}
	for _, r := range ev.Responses() {
		if _, later := f.pending[r.ID]; later {
			f.pending[r.ID] = !isFailure(r.Response)
		}
	}
	for _, id := range ev.LongRunningToolIDs {
		if f.pending == nil {
			f.pending = map[string]bool{}
		}
		f.pending[id] = true
	}
}

// restorePending finds the calls that still wait for an answer when the agent is taken
// up again.
func (f *frame) restorePending(rec *invocationRecord) {
	for _, ev := range f.prior.allEvents() {
		f.trackPending(ev)
	}
	for id := range f.pending {
		if rec.isAnswered(id) {
			delete(f.pending, id)
		}
	}
}

// pauseIfPending pauses an LLM agent that waits for somebody, and tells so once. It is
// false when there is nothing to wait for.
func (s *step) pauseIfPending() bool {
	f := s.inv.frame
	if !s.hasPendingCalls() {
		return false
	}
	f.markPaused()
	if events := f.prior.allEvents(); len(events) > 0 && events[len(events)-1].Actions.AgentState != nil && !s.emitted {
		return true
	}
	ids := []any{}
	for _, id := range slices.Sorted(maps.Keys(f.pending)) {
		if f.pending[id] {
			ids = append(ids, id)
		}
	}
	s.emitEvent(s.inv.Checkpoint(map[string]any{pendingCallsKey: ids}), nil)
	return true
}

// resumeAgent goes on where the agent was when its invocation was cut off or paused,
// and says whether a model call has to follow.
func (s *step) resumeAgent(ctx context.Context) bool {
	f := s.inv.frame
	f.restorePending(s.inv.run.record)
	later, err := s.inv.readPendingCalls()
	if err != nil {
		s.emitEvent(nil, err)
		return false
	}
	if d := s.inv.run.decisions; d != nil && f.madeCalls(d) && !d.consumed.Load() && len(d.open) > 0 {
		if !s.executeDecisions(ctx) {
			return false
		}
		return !s.hasPendingCalls()
	}
	if calls := s.unansweredCalls(later); len(calls) > 0 {
		answer, ok := s.answerCalls(ctx, calls)
		return ok && answer != nil && !answer.IsFinal() && !s.hasPendingCalls()
	}
	if s.hasPendingCalls() {
		return false
	}
	last := f.prior.lastEvent()
	if code := s.pendingCode(last); code != "" {
		return s.runCode(ctx, code)
	}
	switch {
	case last == nil || last.ErrorCode != "":
		return true
	case last.Actions.AgentState != nil:
		return true // all that it waited for is there
	case last.Actions.TransferToAgent != "":
		s.transferTo(ctx, last.Actions.TransferToAgent)
		return false
	case len(last.Calls()) > 0:
		return true // the user has answered them
	case len(last.Responses()) == 0:
		return !last.IsFinal()
	}
	last, ok := s.emitStructuredOutput(last)
	return ok && !last.IsFinal()
}

func (s *step) hasPendingCalls() bool {
	if s.inv.frame != nil {
		for _, waits := range s.inv.frame.pending {
			if waits {
				return true
			}
		}
	}
	return false
}

// madeCalls says whether the calls that a person decided on are this frame's.
func (f *frame) madeCalls(d *decisions) bool {
	for _, ev := range f.prior.allEvents() {
		for _, c := range ev.Calls() {
			for _, one := range d.open {
				if one.call.ID == c.ID {
					return true
				}
			}
		}
	}
	return false
}

// unansweredCalls are the calls of the model's last answer that were made and not
// carried out, or ended the run: no answer of theirs was stored. Those of later
// are answered later.
func (s *step) unansweredCalls(later map[string]bool) []*genai.FunctionCall {
	var calls []*genai.FunctionCall
	done := map[string]bool{}
	for _, ev := range s.inv.frame.prior.allEvents() {
		if made := ev.Calls(); len(made) > 0 && !IsRequest(ev, made[0]) {
			calls = made
		}
		for _, f := range ev.Responses() {
			done[f.ID] = done[f.ID] || !isCallFailure(ev)
		}
	}
	var open []*genai.FunctionCall
	for _, c := range calls {
		if !done[c.ID] && !later[c.ID] && !s.inv.run.record.isAnswered(c.ID) {
			open = append(open, c)
		}
	}
	return open
}

// alreadyRequested says whether a person was asked about a call before the invocation was
// cut off: asking again would ask twice.
func (s *step) alreadyRequested(request, call string) bool {
	if s.inv.frame == nil {
		return false
	}
	for _, ev := range s.inv.frame.prior.allEvents() {
		for _, c := range ev.Calls() {
			if c.Name == request && IsRequest(ev, c) && requestedCall(c) == call {
				return true
			}
		}
	}
	return false
}

// lastEvent is the last event that is the agent's own.
func (p *frameRecord) lastEvent() *session.Event {
	if events := p.allEvents(); len(events) > 0 {
		return events[len(events)-1]
	}
	return nil
}
