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

// An invocation of a resumable app that was interrupted, or paused for pending calls, is resumed
// from its stored events alone:
//
//	resolveInvocation    the invocation that the request names, or that of the
//	   │                 call which its message answers
//	newInvocationRecord  the events of each frame: the run of one agent
//	   │
//	initRootInvocation   the agent that began the invocation
//	   │
//	runFrame             each agent of the tree, from the root on:
//
//	   new ──── beginAgent ───▶ begun ──── runAfterAgent ───▶ ended
//	    │                       │   ▲                           ▲
//	    │ condition is false,   │   │ the user has answered     │
//	    │ or a callback answers ▼   │ all of its calls          │
//	    │                      paused: a checkpoint lists       │
//	    │                      the pending calls                │
//	    └───────────────────────────────────────────────────────┘
//
// An ended agent is skipped. The checkpoint of a begun agent with sub-agents records which one
// comes next (checkpoint.go). A begun LLM agent or ToolNode continues at its resume point, see
// resumePoint.
//
// Two rules make this repeatable. A part is complete when its last event is stored, and not before: the
// point at which a process died does not matter, only the last event (resume_test.go cuts a run off after
// each one). And nothing decides by time or by a field of the old process: the frame, the record and the
// checkpoints hold all that is needed, so another replica can continue.
//
// A call that was executed and whose result was not stored is executed again, with the idempotency key of
// the first attempt.
//
// Without resumability, only confirmations and credentials continue an agent:
// its run begins with executeDecisions, and all other answers begin a new turn.

// resolveInvocation finds the invocation that a request resumes: the one that it names, the
// invocation with the call which its message answers (adk-python runners.py
// _resolve_invocation_id), or with the task which its message joins. Any other request starts a new
// invocation, and so does a message for one that has ended, or that started when the app was not
// resumable. The record is nil for a new one.
func (r *run) resolveInvocation(req *RunRequest, events []*session.Event) (id string, rec *invocationRecord, err error) {
	if !r.app.resumable {
		if req.InvocationID != "" {
			err = invalidRequest("app %s cannot resume the invocation %s: set resumability_config: {is_resumable: true} in its app.yaml", r.app.name, req.InvocationID)
		}
		return "", nil, err
	}
	id = req.InvocationID
	if req.Message != nil {
		answered := r.calls.findAnsweredInvocation(model.ResponsesOf(r.message.content))
		switch {
		case answered != "":
			if id != "" && id != answered {
				r.logger().Warn("message answers a call of a different invocation than requested; resuming the invocation of the call",
					"named", id, "answered", answered)
			}
			id = answered
		case req.joined.invocation != "":
			id = req.joined.invocation
		case id != "":
			return "", nil, invalidRequest("a message sent with invocationId must answer a function call of that invocation; omit invocationId to start a new one")
		}
	}
	if id == "" {
		return "", nil, nil
	}
	rec = newInvocationRecord(session.Recorded(events), id)
	switch {
	case req.Message != nil && (rec.rootPath() == "" || rec.frameAt(rec.rootPath()).hasEnded()):
		return "", nil, nil
	case len(rec.users)+len(rec.events) == 0:
		return "", nil, failf(CodeInvalidRequest, session.ErrNotFound, "Invocation ID not found: %s", id)
	case req.Message == nil && len(rec.users) == 0:
		return "", nil, invalidRequest("cannot resume invocation %s: it has no user message", id)
	}
	return id, rec, nil
}

// initRootInvocation initializes inv as the first agent's invocation: the recorded one, or the one that
// chooseAgent returns.
func (r *run) initRootInvocation(inv *Invocation) error {
	path := r.record.rootPath()
	if !r.app.resumable || path == "" {
		r.initTurnInvocation(inv)
		if r.app.resumable {
			inv.frame = &frame{path: inv.path}
		}
		return nil
	}
	name, first := strings.CutSuffix(path, "@1")
	n := r.app.findNode(name)
	switch {
	case !first:
		return invalidRequest("the invocation cannot be resumed: its node path must begin with an agent's name and @1, got %.60q", path)
	case n == nil:
		return invalidRequest("the invocation cannot be resumed: agent %s, which started it, is no longer part of the app; start a new one", name)
	}
	inv.run, inv.node, inv.path = r, n, path
	inv.frame = &frame{path: path, prior: r.record.frameAt(path)}
	return nil
}

// newInvocationRecord collects one invocation's events.
func newInvocationRecord(events []*session.Event, invocation string) *invocationRecord {
	rec := &invocationRecord{frames: map[string]*frameRecord{}, starts: map[string]bool{}}
	for _, ev := range events {
		switch {
		case ev.InvocationID != invocation:
		case ev.IsFromUser():
			rec.users = append(rec.users, ev)
		case framePathOf(ev) != "":
			rec.addEvent(ev)
		}
	}
	return rec
}

func (rec *invocationRecord) addEvent(ev *session.Event) {
	rec.events = append(rec.events, ev)
	for i, c := range ev.NodePath {
		if c == '/' {
			rec.starts[ev.NodePath[:i]] = true
		}
	}
	rec.starts[ev.NodePath] = true
	p := rec.frames[ev.NodePath]
	if p == nil {
		p = &frameRecord{}
		rec.frames[ev.NodePath] = p
	}
	p.events = append(p.events, ev)
	if ev.Actions.AgentState != nil {
		p.state = ev.Actions.AgentState
	}
	p.ended = p.ended || ev.Actions.EndOfAgent
}

// countModelAnswers counts the model calls that events show. Nodes without a model do not count.
func (rec *invocationRecord) countModelAnswers(app *App) int {
	n := 0
	for _, ev := range rec.events {
		if at := app.findNode(ev.NodeName()); at != nil {
			switch at.agent.(type) {
			case *ToolNode, *FunctionNode:
				continue
			}
		}
		notModel := strings.HasSuffix(ev.NodePath, ")") || isCodeResult(ev.Content) || ev.Actions.SetModelResponse != nil && len(ev.Responses()) == 0
		if !notModel && (ev.Content != nil && ev.Content.Role != "user" || ev.ErrorCode != "" && !isCallFailure(ev)) {
			n++
		}
	}
	return n
}

// countToolCalls counts the results of calls that count for [RunRequest.MaxToolCalls].
func (r *run) countToolCalls(events []*session.Event) (n int) {
	for _, ev := range events {
		for _, f := range ev.Responses() {
			if !ev.IsFromUser() && r.isCounted(f.Name) {
				n++
			}
		}
	}
	return n
}

// runFrame runs a resumable app's agent with its callbacks, continues where it was interrupted, and
// yields an event that marks its end. Completed work is not repeated.
func (inv *Invocation) runFrame(ctx context.Context, yield func(*session.Event, error) bool) bool {
	if inv.frame.prior.hasEnded() {
		return true
	}
	proceed, ok := inv.beginAgent(ctx, yield)
	if ok && proceed {
		ok = inv.runAgentBody(ctx, yield)
		if h := inv.node.hooks; ok && h != nil && !inv.Paused() && !inv.hasEnded() && len(inv.hookEvents(hookPathAfterAgent)) == 0 {
			_, ok = inv.atHook(hookPathAfterAgent).runAgentCallbacks(ctx, hookAfterAgent, h.afterAgent, yield)
		}
	}
	if _, join := inv.node.agent.(*JoinNode); !ok || join || inv.Paused() {
		return ok
	}
	ev := inv.NewEvent()
	ev.Actions.EndOfAgent = true
	return yield(ev, nil)
}

// beginAgent evaluates the agent's condition and calls its callbacks, unless
// the agent has started before. proceed is false when the agent must not run,
// ok is false when the run is over.
func (inv *Invocation) beginAgent(ctx context.Context, yield func(*session.Event, error) bool) (proceed, ok bool) {
	if len(inv.hookEvents(hookPathWhen)) > 0 {
		return false, true
	}
	for _, ev := range inv.hookEvents(hookPathBeforeAgent) {
		if ev.Content != nil {
			return false, true
		}
	}
	if inv.run.record.hasBegun(inv.frame.path) {
		return true, true
	}
	if when := inv.node.when; when != nil {
		holds, err := when.evaluateFor(ctx, inv, "when")
		if err != nil {
			yield(nil, err)
			return false, false
		}
		if !holds {
			return false, yield(inv.atHook(hookPathWhen).newSkippedEvent("when: "+when.source), nil)
		}
	}
	if inv.node.hooks == nil {
		return true, true
	}
	answered, ok := inv.atHook(hookPathBeforeAgent).runAgentCallbacks(ctx, "before_agent", inv.node.hooks.beforeAgent, yield)
	return !answered, ok
}

// A resumePoint is where an agent that was interrupted or paused continues.
type resumePoint string

const (
	atDecisions    resumePoint = "decisions"     // the user has decided on its calls: execute them
	atCalls        resumePoint = "calls"         // calls in the last response have no result: execute them
	atPendingCalls resumePoint = "pending calls" // calls wait for the user: pause
	atCode         resumePoint = "code"          // code in the last response has no result: run it
	atTransfer     resumePoint = "transfer"      // the last event transfers to another agent: run that one
	atResults      resumePoint = "results"       // all results are stored: one may be the final answer
	atModelCall    resumePoint = "model call"    // nothing is left from the last step: call the model
	atEnd          resumePoint = "end"           // the last event is the final answer
)

// findResumePoint returns where the agent continues. The first case that holds
// decides. Calls in later were pending at the last checkpoint.
func (s *step) findResumePoint(later map[string]bool) resumePoint {
	d, last := s.inv.run.decisions, s.inv.frame.prior.lastEvent()
	isOwn := func(one *decision) bool { // about a call in this agent's run
		return slices.ContainsFunc(s.inv.run.calls.findCalls(one.call.ID), func(site indexedCall) bool { return s.inv.hasRecorded(site.event) })
	}
	switch {
	case d != nil && !d.consumed.Load() && slices.ContainsFunc(d.open, isOwn):
		return atDecisions
	case len(s.inv.unansweredCalls(later)) > 0:
		return atCalls
	case s.hasPendingCalls():
		return atPendingCalls
	case s.pendingCode(last) != "":
		return atCode
	case last == nil || last.ErrorCode != "":
		return atModelCall
	case last.Actions.AgentState != nil:
		return atModelCall // all calls in the checkpoint are answered
	case last.Actions.TransferToAgent != "":
		return atTransfer
	case len(last.Calls()) > 0:
		return atModelCall // the user has answered them
	case isTaskFinish(last):
		return atEnd
	case len(last.Responses()) > 0:
		return atResults
	case s.inv.node.isTaskNode() && s.inv.hasNewMessage(last):
		return atModelCall
	case last.IsFinal():
		return atEnd
	}
	return atModelCall
}

// resumeAgent continues an agent whose invocation was interrupted or paused.
func (s *step) resumeAgent(ctx context.Context) outcome {
	f := s.inv.frame
	for _, ev := range f.prior.allEvents() {
		f.trackPending(ev)
	}
	for id := range f.pending {
		if s.inv.run.calls.isAnswered(id, s.inv.run.id) {
			delete(f.pending, id)
		}
	}
	later, err := s.inv.readPendingCalls()
	if err != nil {
		return failWith(err)
	}
	if !s.emitMissingRequests() {
		return outcome{kind: outcomeStopped}
	}
	last := f.prior.lastEvent()
	switch s.findResumePoint(later) {
	case atDecisions:
		return s.executeDecisions(ctx)
	case atCalls:
		return s.executeCalls(ctx, s.inv.unansweredCalls(later))
	case atPendingCalls:
		return outcome{kind: outcomePaused}
	case atCode:
		return s.runCode(ctx, s.pendingCode(last))
	case atTransfer:
		return outcome{kind: outcomeTransferred, to: last.Actions.TransferToAgent}
	case atResults:
		if answer, o := s.emitStructuredOutput(ctx, last); answer != nil {
			return o
		}
		return answerWith(last)
	case atModelCall:
		return outcome{}
	}
	return outcome{kind: outcomeAnswered}
}

// executeDecisions executes the calls of this agent that the user's message
// decides on.
func (s *step) executeDecisions(ctx context.Context) outcome {
	d := s.inv.run.decisions
	switch {
	case d.author != s.inv.node.agent.Name() || !d.consumed.CompareAndSwap(false, true):
		return outcome{}
	case len(d.open) == 0 && d.finished:
		return outcome{kind: outcomeAnswered}
	case len(d.open) == 0:
		return outcome{}
	}
	var calls []*genai.FunctionCall
	s.decided = map[string]*decision{}
	for _, one := range d.open {
		calls = append(calls, one.call)
		s.decided[one.call.ID] = one
	}
	return s.executeCalls(ctx, append(calls, s.findUnexecutedSiblings(calls)...))
}

// findUnexecutedSiblings returns the other calls in the response with the decided calls that were
// never executed, because the run was interrupted (adk-python since 2.11). They keep their
// idempotency keys.
func (s *step) findUnexecutedSiblings(decided []*genai.FunctionCall) []*genai.FunctionCall {
	x := s.inv.run.calls
	sites := x.findCalls(decided[0].ID)
	i := slices.IndexFunc(sites, func(site indexedCall) bool { return site.call == decided[0] })
	if i < 0 {
		return nil
	}
	site := sites[i]
	var open []*genai.FunctionCall
	for _, c := range site.event.Calls() {
		isDecided := slices.ContainsFunc(decided, func(d *genai.FunctionCall) bool { return d.ID == c.ID })
		hasResult := func(r indexedResponse) bool {
			return r.at > site.at && !(isCallFailure(r.event) && s.inv.hasRecorded(r.event)) && !isInterim(r)
		}
		later := slices.Contains(site.event.LongRunningToolIDs, c.ID) || len(x.findRequests(c.ID)) > 0 || s.inv.node.findTaskNode(c) != nil || s.inv.callsDelegate(c)
		if !isDecided && !later && !slices.ContainsFunc(x.findResponses(c.ID), hasResult) {
			open = append(open, c)
			if s.attempts == nil {
				s.attempts = map[string]string{}
			}
			s.attempts[c.ID] = site.event.InvocationID
		}
	}
	return open
}

// pauseIfPending pauses an LLM agent with pending calls, and yields a
// checkpoint once. It returns false when the consumer stops.
func (s *step) pauseIfPending() bool {
	f := s.inv.frame
	if !s.hasPendingCalls() {
		return true
	}
	f.markPaused()
	if events := f.prior.allEvents(); len(events) > 0 && events[len(events)-1].Actions.AgentState != nil && !f.yielded {
		return true
	}
	ids := []any{}
	for _, id := range slices.Sorted(maps.Keys(f.pending)) {
		if f.pending[id] {
			ids = append(ids, id)
		}
	}
	return s.emitEvent(s.inv.Checkpoint(map[string]any{PendingCallsKey: ids}), nil)
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

// unansweredCalls returns the calls in the last model response that have no stored result: they
// were not executed, or ended the run. Calls in later are omitted, they are answered later.
func (inv *Invocation) unansweredCalls(later map[string]bool) []*genai.FunctionCall {
	hasResult := func(r indexedResponse) bool {
		return inv.hasRecorded(r.event) && !isCallFailure(r.event) && !isInterim(r)
	}
	var open []*genai.FunctionCall
	for _, c := range inv.lastModelCalls() {
		if !later[c.ID] && !slices.ContainsFunc(inv.run.calls.findResponses(c.ID), hasResult) && !inv.run.calls.isAnswered(c.ID, inv.run.id) {
			open = append(open, c)
		}
	}
	return open
}

// lastModelCalls returns the calls in the last response with calls.
func (inv *Invocation) lastModelCalls() []*genai.FunctionCall {
	for _, ev := range slices.Backward(inv.frame.prior.allEvents()) {
		if calls := ev.Calls(); len(calls) > 0 && !IsRequest(ev, calls[0]) {
			return calls
		}
	}
	return nil
}

// ResumableInvocation returns a session's last invocation if it can be resumed: a resumable app's
// invocation that was interrupted or has pending calls. It is empty if the last invocation has
// ended or cannot be resumed.
func ResumableInvocation(events []*session.Event) string {
	events = session.Recorded(events)
	for _, ev := range slices.Backward(events) {
		if ev.Actions.Compaction != nil {
			continue
		}
		rec := newInvocationRecord(events, ev.InvocationID)
		if framePathOf(ev) == "" && !ev.IsFromUser() || rec.frameAt(rec.rootPath()).hasEnded() {
			return ""
		}
		return ev.InvocationID
	}
	return ""
}
