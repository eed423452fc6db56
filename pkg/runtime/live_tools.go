package runtime

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"google.golang.org/genai"

	"agenthost/internal/safe"
	"agenthost/pkg/model"
	"agenthost/pkg/session"
	"agenthost/pkg/tool"
	"agenthost/wing/live"
)

const (
	// liveCallGrace is how long the loop waits for the calls of a message before it handles
	// what follows them: responses of fast tools are stored before the end of the turn, as in
	// adk-python, which waits for all tools.
	liveCallGrace = 20 * time.Millisecond
	// liveToolsTimeout is how long the end of a conversation waits for canceled tools.
	liveToolsTimeout = 2 * time.Second
)

// The responses of canceled calls, which are stored and not sent.
const (
	callInterruptedText = "This call was canceled because the user interrupted."
	callEndedText       = "This call was canceled because the live conversation ended."
)

var errCallInterrupted = errors.New("the model canceled the call")

// liveTools runs the calls of a live conversation while it continues. The loop starts calls and
// receives their results; only it uses the fields.
type liveTools struct {
	ctx   context.Context //nolint:containedctx // of the conversation, which owns this value
	agent *liveAgent
	// results has the calls of one message when all of them have ended.
	results chan *liveCalls
	streams *liveStreams
	// batches are the calls that run.
	batches map[*liveCalls]bool
	running sync.WaitGroup
}

// liveCalls are the calls of one message of the model, or those that a person has decided.
type liveCalls struct {
	step      *step
	calls     []*genai.FunctionCall
	answers   []*callResult
	order     *callOrder
	ctxs      []context.Context
	cancels   []context.CancelCauseFunc
	sessionID string
	// background reports a call that the model does not wait for: its result is stored and
	// not yielded (adk-python flows/llm_flows/functions.py).
	background bool
}

func newLiveTools(ctx context.Context, a *liveAgent) *liveTools {
	limit := a.config.maxFunctionCalls()
	return &liveTools{
		ctx: ctx, agent: a, results: make(chan *liveCalls, limit), batches: map[*liveCalls]bool{},
		streams: newLiveStreams(ctx),
	}
}

func (t *liveTools) areRunning() bool { return len(t.batches) > 0 }

// countRunning returns the number of calls and streams that have not ended.
func (t *liveTools) countRunning() int {
	n := t.streams.countOpen()
	for b := range t.batches {
		n += len(b.calls)
	}
	return n
}

// runningIDs returns the IDs of the calls that have not ended.
func (t *liveTools) runningIDs() map[string]bool {
	ids := map[string]bool{}
	for b := range t.batches {
		for _, c := range b.calls {
			ids[c.ID] = true
		}
	}
	return ids
}

// startCalls runs calls on goroutines of their own.
func (t *liveTools) startCalls(b *liveCalls) {
	b.answers, b.order = make([]*callResult, len(b.calls)), newCallOrder(len(b.calls))
	for range b.calls {
		ctx, cancel := context.WithCancelCause(t.ctx)
		b.ctxs, b.cancels = append(b.ctxs, ctx), append(b.cancels, cancel)
	}
	t.batches[b] = true
	t.running.Add(1)
	run := t.agent.liveRun.run
	go func() {
		defer t.running.Done()
		defer func() { t.results <- b }()
		defer safe.Recover(func(p *safe.Panic) { p.Log(run.logger(), "tool calls panicked") })
		run.host.workers.runBatch(len(b.calls), run.config.maxToolWorkers(), b.runOne)
	}()
}

// runOne runs one call. The panic of a tool is the error of its call.
func (b *liveCalls) runOne(i int) {
	run := b.step.inv.run
	defer func() { b.order.turns[i].endCall(b.answers[i]) }()
	defer safe.Recover(func(p *safe.Panic) {
		p.Log(run.logger(), "tool call panicked", "tool", b.calls[i].Name)
		b.answers[i] = &callResult{}
		b.answers[i].setResponse(b.calls[i], map[string]any{"error": errPanicked.Error()})
	})
	if b.ctxs[i].Err() != nil {
		b.answers[i] = &callResult{err: AsRunError(b.ctxs[i].Err())}
		return
	}
	b.answers[i] = b.step.runCall(b.ctxs[i], b.calls[i], b.order.turns[i])
}

// cancelCalls cancels the calls with these ids, and their streams.
func (t *liveTools) cancelCalls(ids []string) {
	for _, id := range ids {
		t.streams.cancelStreams(func(st *liveStream) bool { return st.call.ID == id }, errCallInterrupted)
		for b := range t.batches {
			if i := slices.IndexFunc(b.calls, func(c *genai.FunctionCall) bool { return c.ID == id }); i >= 0 {
				b.cancels[i](errCallInterrupted)
			}
		}
	}
}

// emitCalls yields the calls of a response, starts them, and waits a moment for their
// results.
func (a *liveAgent) emitCalls(ctx context.Context, response *model.Response) bool {
	ev := a.newLiveEvent(response)
	ev.Content = a.assignCallIDs(ev.Content)
	calls, repeated := a.skipAnswered(ev)
	a.called = true
	if len(calls)+len(repeated) == 0 {
		return true
	}
	if len(calls) > 0 {
		ev.LongRunningToolIDs = a.longRunningIDs(calls)
		if !a.emitAnswer(ctx, ev) {
			return false
		}
	}
	attempts := map[string]string{}
	for _, c := range repeated {
		attempts[c.ID] = a.earlier[c.ID].invocation
		delete(a.earlier, c.ID)
	}
	waiting := &liveCalls{step: a.newCallStep(), sessionID: response.LiveSessionID}
	waiting.step.attempts = attempts
	for _, c := range append(calls, repeated...) {
		if a.runsInBackground(c) {
			b := &liveCalls{step: a.newCallStep(), calls: []*genai.FunctionCall{c}, background: true}
			b.step.attempts = attempts
			a.startCalls(ctx, b)
		} else {
			waiting.calls = append(waiting.calls, c)
		}
	}
	if len(waiting.calls) > 0 {
		a.startCalls(ctx, waiting)
	}
	return !a.hasEnded() || !a.done && a.target == "" && !a.completed
}

// newCallStep returns the step of calls.
func (a *liveAgent) newCallStep() *step {
	return &step{inv: a.inv, agent: a.agent, streams: a.tools.streams}
}

// runsInBackground reports whether the model continues without the response to a call.
func (a *liveAgent) runsInBackground(c *genai.FunctionCall) bool {
	t := a.inv.activeToolbox().byName[c.Name]
	if t == nil || a.traits.NoAsyncCalls {
		return false
	}
	traits := tool.CapabilitiesOf(t)
	return traits.Scheduling != "" && traits.Stream == nil
}

// startCalls starts calls and waits a moment for their results.
func (a *liveAgent) startCalls(ctx context.Context, b *liveCalls) {
	if limit := a.config.maxFunctionCalls(); a.tools.countRunning()+len(b.calls) > limit {
		a.rejectLiveCalls(b, limit)
		a.receiveResults(ctx, b)
		return
	}
	a.tools.startCalls(b)
	if b.background {
		return
	}
	grace := time.NewTimer(liveCallGrace)
	defer grace.Stop()
	for a.tools.batches[b] && !a.done {
		select {
		case result := <-a.tools.results:
			a.receiveResults(ctx, result)
		case item := <-a.tools.streams.items:
			a.receiveItem(ctx, item)
		case <-grace.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// rejectLiveCalls answers too many calls with an error.
func (a *liveAgent) rejectLiveCalls(b *liveCalls, limit int) {
	failure := failf(CodeToolCallsLimit, errTooManyCalls, "%d function calls of agent %s at the same time exceed the limit of %d (run_config: max_function_calls)",
		a.tools.countRunning()+len(b.calls), a.inv.node.agent.Name(), limit)
	for _, c := range b.calls {
		answer := &callResult{}
		answer.setResponse(c, errorResponse(failure))
		b.answers = append(b.answers, answer)
		b.ctxs = append(b.ctxs, a.tools.ctx)
	}
}

// skipAnswered removes the calls that the model repeats from an event, and returns the others.
// After a reconnect, a model may repeat a call; its answer is on the way, and the tool is not
// called again. Repeated calls of another run are returned if they have no answer. A second
// call with the ID of one that runs is dropped: their responses would be alike.
func (a *liveAgent) skipAnswered(ev *session.Event) (calls, repeated []*genai.FunctionCall) {
	parts := ev.Content.Parts[:0:0]
	running := a.tools.runningIDs()
	for _, p := range ev.Content.Parts {
		if p.FunctionCall != nil && a.wasMade(p.FunctionCall) {
			if a.repeatCall(p.FunctionCall) {
				repeated = append(repeated, p.FunctionCall)
			} else {
				a.responding = true
			}
			continue
		}
		if c := p.FunctionCall; c != nil {
			if running[c.ID] {
				a.logger().Warn("the live model repeated the ID of a call", "agent", a.inv.node.agent.Name(), "tool", c.Name)
				continue
			}
			running[c.ID] = true
		}
		parts = append(parts, p)
	}
	ev.Content = &genai.Content{Role: ev.Content.Role, Parts: parts}
	calls = ev.Calls()
	for _, c := range calls {
		a.made[c.ID] = madeCall{c, a.connections, a.conversation}
	}
	return calls, repeated
}

// A madeCall is a call of the model, with the numbers of the connection and the conversation.
type madeCall struct {
	call                     *genai.FunctionCall
	connection, conversation int
}

// wasMade reports whether a call was made on an earlier connection of this conversation.
func (a *liveAgent) wasMade(c *genai.FunctionCall) bool {
	before, ok := a.made[c.ID]
	return ok && before.connection != a.connections && before.call.Name == c.Name && sameJSON(cloneArgs(before.call.Args), cloneArgs(c.Args))
}

// receiveResults yields the results of calls, and sends them to the model.
func (a *liveAgent) receiveResults(ctx context.Context, b *liveCalls) {
	delete(a.tools.batches, b)
	for i := range b.answers {
		b.resolveAnswer(i, callEndedText)
	}
	answer := b.step.mergeAnswers(b.answers)
	failure := firstFailure(b.answers)
	var failed *session.Event
	if failure != nil {
		failed = b.step.newFailureEvent(b.calls, b.answers, AsRunError(failure))
	}
	a.host.endCallSpans(b.answers, answer)
	b.cancelAll()
	if answer != nil && !a.emitResults(ctx, b, answer) {
		return
	}
	if failure != nil {
		if failed == nil || a.emitEvent(failed, nil) {
			a.emitEvent(nil, failure)
		}
		return
	}
	if answer == nil {
		return
	}
	a.sendResponses(b)
	if a.emitStructured(ctx, answer) {
		a.followActions(answer)
	}
}

// emitResults yields the event of the results. That of a call in the background is stored
// only, unless it waits for a person.
func (a *liveAgent) emitResults(ctx context.Context, b *liveCalls, answer *session.Event) bool {
	for _, r := range answer.Responses() {
		r.Scheduling = a.schedulingOf(r.Name)
	}
	if b.background && !requestsInput(&answer.Actions) {
		err := a.storeEvent(ctx, answer)
		if err != nil {
			a.emitEvent(nil, err)
		}
		return err == nil
	}
	answer.LiveSessionID = b.sessionID
	a.finishTransfer(answer)
	_, ok := a.step.emitResults(answer, b.calls)
	return ok
}

// resolveAnswer makes sure that a call has a result: a call that was canceled has one that
// states that.
func (b *liveCalls) resolveAnswer(i int, ended string) {
	if b.answers[i] == nil {
		b.answers[i] = &callResult{err: AsRunError(context.Canceled)}
	}
	answer := b.answers[i]
	if answer.err == nil || b.ctxs[i].Err() == nil {
		return
	}
	text := ended
	if errors.Is(context.Cause(b.ctxs[i]), errCallInterrupted) {
		text = callInterruptedText
	}
	answer.err = nil
	answer.setResponse(b.calls[i], map[string]any{"error": text})
}

func (b *liveCalls) cancelAll() {
	for _, cancel := range b.cancels {
		cancel(nil)
	}
}

// sendResponses sends the results of calls to the model. Calls that the model has canceled,
// and calls that wait for a person, have none.
func (a *liveAgent) sendResponses(b *liveCalls) {
	var responses []*genai.FunctionResponse
	for i, answer := range b.answers {
		if answer.part == nil || requestsInput(&answer.actions) || errors.Is(context.Cause(b.ctxs[i]), errCallInterrupted) {
			continue
		}
		if response := answer.part.FunctionResponse; a.isOpenCall(response.ID) {
			responses = append(responses, response)
		} else {
			a.sendText(fmt.Sprintf("The call of %s has ended with this result: %s", response.Name, jsonText(response.Response)))
		}
	}
	if len(responses) > 0 {
		a.pushResponses(responses...)
	}
}

// pushResponses sends responses. The model answers them, unless all are silent.
func (a *liveAgent) pushResponses(responses ...*genai.FunctionResponse) {
	if slices.ContainsFunc(responses, func(r *genai.FunctionResponse) bool { return r.Scheduling != genai.FunctionResponseSchedulingSilent }) {
		a.turnOpen, a.responding = true, true
	}
	a.out.Push(&model.LiveFrame{Responses: responses}, true, time.Now())
}

// isOpenCall reports whether the model's conversation has a call with this id. A conversation
// that began after the call does not: the service would refuse a response to it.
func (a *liveAgent) isOpenCall(id string) bool {
	made, ok := a.made[id]
	return ok && made.conversation == a.conversation || !ok && a.conversation == 0
}

// sendText sends text that completes a turn of the user, and is not stored.
func (a *liveAgent) sendText(text string) {
	a.turnOpen = true
	frame := &model.LiveFrame{Turns: []*genai.Content{model.UserText(text)}, TurnComplete: true}
	if a.traits.RealtimeText {
		frame = &model.LiveFrame{Text: text}
	}
	a.out.Push(frame, true, time.Now())
}

// emitStructured yields the answer of the response tool as an event of the model.
func (a *liveAgent) emitStructured(ctx context.Context, answer *session.Event) bool {
	_, ok := a.emitStructuredOutput(ctx, answer)
	return ok
}

// finishTransfer replaces a transfer to an agent that may not take over by an error for the
// model.
func (a *liveAgent) finishTransfer(answer *session.Event) {
	to := answer.Actions.TransferToAgent
	_, refused := a.inv.node.findTransferTarget(to)
	switch {
	case to == "":
		return
	case refused != nil:
	case !a.reconnects.HasBudget(time.Now()):
		refused = failf(CodeTransferFailed, nil, "too many transfers: at most %d a minute, continue the conversation yourself", live.MaxConnectsPerMinute)
	default:
		return
	}
	answer.Actions.TransferToAgent = ""
	for _, r := range answer.Responses() {
		if r.Name == "transfer_to_agent" {
			r.Response = errorResponse(refused)
		}
	}
}

// followActions ends the conversation of this agent if its tools ask for it.
func (a *liveAgent) followActions(answer *session.Event) {
	a.target = answer.Actions.TransferToAgent
	if first := answer.Responses(); len(first) > 0 && first[0].Name == TaskCompleted && a.inv.inSequence() {
		a.completed = true
	}
}

// endTools cancels the calls that run, and stores their results, so that no call stays open.
func (a *liveAgent) endTools(ctx context.Context) {
	limit := time.NewTimer(liveToolsTimeout)
	defer limit.Stop()
	for waiting := true; waiting && a.tools.areRunning(); {
		select {
		case b := <-a.tools.results:
			a.storeEnded(ctx, b)
		case <-limit.C:
			waiting = false
		}
	}
	for b := range a.tools.batches {
		// The tool does not react. Its own result is dropped when it comes.
		left := &liveCalls{step: b.step, calls: b.calls, ctxs: b.ctxs, answers: make([]*callResult, len(b.calls)), sessionID: b.sessionID}
		delete(a.tools.batches, b)
		a.storeEnded(ctx, left)
	}
}

// storeEnded stores the results of calls that the end of the conversation has canceled.
func (a *liveAgent) storeEnded(ctx context.Context, b *liveCalls) {
	delete(a.tools.batches, b)
	for i := range b.calls {
		b.resolveAnswer(i, callEndedText)
	}
	answer := b.step.mergeAnswers(b.answers)
	a.host.endCallSpans(b.answers, answer)
	if answer == nil {
		return
	}
	answer.Actions.TransferToAgent = ""
	answer.LiveSessionID = b.sessionID
	if !a.done && ctx.Err() == nil {
		a.emitEvent(answer, nil)
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), liveToolsTimeout)
	defer cancel()
	if err := a.storeEvent(ctx, answer); err != nil {
		a.logger().Warn("storing the results of canceled calls failed", "error", err)
	}
}
