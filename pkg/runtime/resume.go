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

// resumed finds the invocation that a request goes on with and what it did
// before: the one that it names, or that of the call which its message answers
// (adk-python runners.py _resolve_invocation_id). Any other request begins a
// new one.
func (r *run) resumed(req *RunRequest, events []*session.Event) error {
	if req.InvocationID != "" && !r.app.Resumable {
		return refused("app %s cannot resume the invocation %s: set resumability_config: {is_resumable: true} in its app.yaml", r.app.Name, req.InvocationID)
	}
	if !r.app.Resumable {
		return nil
	}
	events = session.Recorded(events)
	id := req.InvocationID
	if req.Message != nil {
		answered := answeredIn(events, model.ResponsesOf(r.user))
		switch {
		case answered != "":
			if id != "" && id != answered {
				r.log().Warn("the message answers a call of another invocation than the request names: that one is resumed",
					"named", id, "answered", answered)
			}
			id = answered
		case id != "":
			return refused("a message beside invocationId has to answer a function call of that invocation; leave invocationId out to say something new")
		}
	}
	if id == "" {
		return nil
	}
	rec := newRecord(events, id)
	if len(rec.users)+len(rec.events) == 0 {
		if req.Message != nil {
			return nil
		}
		return failf(CodeInvalidRequest, session.ErrNotFound, "Invocation ID not found: %s", id)
	}
	return r.goOnWith(rec, id, req)
}

// goOnWith makes the run one of an earlier invocation. A message for one that
// has ended, or that began when the app was not resumable, is a new invocation.
func (r *run) goOnWith(rec *record, id string, req *RunRequest) error {
	if req.Message != nil && (rec.root() == "" || rec.at(rec.root()).hasEnded()) {
		return nil
	}
	if req.Message == nil {
		if len(rec.users) == 0 {
			return refused("the invocation %s has no message of the user to resume with", id)
		}
		r.user = rec.users[0].Content
		if last := rec.users[len(rec.users)-1]; len(last.Responses()) > 0 {
			r.user = last.Content
		}
		r.userText = model.TextOf(r.user)
		r.turn = countTurns(r.sess.History)
	}
	r.id, r.record = id, rec
	r.budget.used.Store(int64(rec.modelAnswers(r.app)))
	return nil
}

// answeredIn is the invocation with a call that is answered.
func answeredIn(events []*session.Event, answers []*genai.FunctionResponse) string {
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

// Unfinished is the last invocation that can be resumed: one of a resumable app
// that was cut off, or that waits for somebody. It is empty when the session's
// last invocation has ended or cannot be resumed.
func Unfinished(events []*session.Event) string {
	events = session.Recorded(events)
	for _, ev := range slices.Backward(events) {
		if ev.Actions.Compaction != nil {
			continue
		}
		rec := newRecord(events, ev.InvocationID)
		if ev.NodePath == "" && ev.Author != session.UserAuthor || rec.at(rec.root()).hasEnded() {
			return ""
		}
		return ev.InvocationID
	}
	return ""
}

// root is the invocation's first agent: that of its record, or a choice.
func (r *run) root() (*Invocation, error) {
	if !r.app.Resumable {
		return r.picked(), nil
	}
	path := r.record.root()
	if path == "" {
		inv := r.picked()
		inv.frame = &frame{path: inv.node.agent.Name() + "@1"}
		return inv, nil
	}
	name, first := strings.CutSuffix(path, "@1")
	n := r.app.find(name)
	switch {
	case !first:
		return nil, refused("the invocation cannot be resumed: its node path must begin with an agent's name and @1, got %.60q", path)
	case n == nil:
		return nil, refused("the invocation cannot be resumed: agent %s, which began it, is no longer part of the app; begin a new one", name)
	}
	return &Invocation{run: r, node: n, frame: &frame{path: path, past: r.record.at(path)}}, nil
}

// restoreCredentials gives a resumed run what the user's message gave before:
// temp: keys are not stored.
func (r *run) restoreCredentials() {
	if r.decisions != nil && len(r.decisions.credentials) > 0 {
		r.sess.State.Apply(r.decisions.credentials)
	}
}

// watch notes the calls that somebody answers later. One whose own answer is a
// failure is none: it was not carried out, or a person is asked about it by a
// request, which is a call of its own.
func (f *frame) watch(ev *session.Event) {
	if f == nil || ev == nil || ev.Partial {
		return
	}
	for _, r := range ev.Responses() {
		if _, later := f.waiting[r.ID]; later {
			f.waiting[r.ID] = !isFailure(r.Response)
		}
	}
	for _, id := range ev.LongRunningToolIDs {
		if f.waiting == nil {
			f.waiting = map[string]bool{}
		}
		f.waiting[id] = true
	}
}

// recall finds the calls that still wait for an answer when the agent is taken
// up again.
func (f *frame) recall(rec *record) {
	for _, ev := range f.past.all() {
		f.watch(ev)
	}
	for id := range f.waiting {
		if rec.answered(id) {
			delete(f.waiting, id)
		}
	}
}

// rest pauses an LLM agent that waits for somebody, and tells so once. It is
// false when there is nothing to wait for.
func (s *step) rest() bool {
	f := s.inv.frame
	if !s.waits() {
		return false
	}
	f.pause()
	if events := f.past.all(); len(events) > 0 && events[len(events)-1].Actions.AgentState != nil && !s.spoke {
		return true
	}
	ids := []any{}
	for _, id := range slices.Sorted(maps.Keys(f.waiting)) {
		if f.waiting[id] {
			ids = append(ids, id)
		}
	}
	s.yield(s.inv.Checkpoint(map[string]any{waitingKey: ids}), nil)
	return true
}

// takeUp goes on where the agent was when its invocation was cut off or paused,
// and says whether a model call has to follow.
func (s *step) takeUp(ctx context.Context) bool {
	f := s.inv.frame
	f.recall(s.inv.run.record)
	later, err := s.inv.waitingFor()
	if err != nil {
		s.yield(nil, err)
		return false
	}
	if d := s.inv.run.decisions; d != nil && f.made(d) && !d.done.Load() && len(d.open) > 0 {
		if !s.resume(ctx) {
			return false
		}
		return !s.waits()
	}
	if calls := s.unanswered(later); len(calls) > 0 {
		answer, ok := s.answer(ctx, calls)
		return ok && answer != nil && !answer.IsFinal() && !s.waits()
	}
	if s.waits() {
		return false
	}
	last := f.past.last()
	if code := s.openCode(last); code != "" {
		return s.carryOut(ctx, code)
	}
	switch {
	case last == nil || last.ErrorCode != "":
		return true
	case last.Actions.AgentState != nil:
		return true // all that it waited for is there
	case last.Actions.TransferToAgent != "":
		s.transfer(ctx, last.Actions.TransferToAgent)
		return false
	case len(last.Calls()) > 0:
		return true // the user has answered them
	case len(last.Responses()) == 0:
		return !last.IsFinal()
	}
	last, ok := s.settle(last)
	return ok && !last.IsFinal()
}

func (s *step) waits() bool {
	if s.inv.frame != nil {
		for _, waits := range s.inv.frame.waiting {
			if waits {
				return true
			}
		}
	}
	return false
}

// made says whether the calls that a person decided on are this frame's.
func (f *frame) made(d *decisions) bool {
	for _, ev := range f.past.all() {
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

// unanswered are the calls of the model's last answer that were made and not
// carried out, or ended the run: no answer of theirs was stored. Those of later
// are answered later.
func (s *step) unanswered(later map[string]bool) []*genai.FunctionCall {
	var calls []*genai.FunctionCall
	done := map[string]bool{}
	for _, ev := range s.inv.frame.past.all() {
		if made := ev.Calls(); len(made) > 0 && !IsRequest(ev, made[0]) {
			calls = made
		}
		for _, f := range ev.Responses() {
			done[f.ID] = done[f.ID] || !failsCalls(ev)
		}
	}
	var open []*genai.FunctionCall
	for _, c := range calls {
		if !done[c.ID] && !later[c.ID] && !s.inv.run.record.answered(c.ID) {
			open = append(open, c)
		}
	}
	return open
}

// asked says whether a person was asked about a call before the invocation was
// cut off: asking again would ask twice.
func (s *step) asked(request, call string) bool {
	if s.inv.frame == nil {
		return false
	}
	for _, ev := range s.inv.frame.past.all() {
		for _, c := range ev.Calls() {
			if c.Name == request && IsRequest(ev, c) && requestedCall(c) == call {
				return true
			}
		}
	}
	return false
}

// last is the last event that is the agent's own.
func (p *past) last() *session.Event {
	if events := p.all(); len(events) > 0 {
		return events[len(events)-1]
	}
	return nil
}
