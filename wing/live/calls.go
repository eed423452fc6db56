package live

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/genai"

	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
	"agenthost/pkg/tool"
)

const (
	// liveCallGrace is how long the loop waits for a message's calls before it handles what follows
	// them. Fast tools' responses are stored before the turn ends, as in adk-python, which waits
	// for all tools.
	liveCallGrace = 20 * time.Millisecond
	// liveToolsTimeout is how long an ending conversation waits for canceled tools.
	liveToolsTimeout = 2 * time.Second
)

// Responses to canceled calls are stored and not sent.
const (
	callInterruptedText = "This call was canceled because the user interrupted."
	callEndedText       = "This call was canceled because the live conversation ended."
)

var errCallInterrupted = errors.New("the model canceled the call")

// liveTools runs a live conversation's calls while it continues. The loop starts calls and receives
// their results; only it uses the fields.
type liveTools struct {
	ctx context.Context //nolint:containedctx // the conversation's, which owns this value
	// results receives a message's calls when all have ended.
	results chan *liveCalls
	streams *liveStreams
	// batches are the calls that run.
	batches map[*liveCalls]bool
}

// liveCalls are the calls in one model message, or those that a person has decided.
type liveCalls struct {
	*runtime.CallBatch
	sessionID string
	// background reports a call that the model does not wait for: its result is stored and
	// not yielded (adk-python flows/llm_flows/functions.py).
	background bool
}

func newLiveTools(ctx context.Context, a *liveAgent) *liveTools {
	return &liveTools{
		ctx: ctx, results: make(chan *liveCalls, a.CallLimit()), batches: map[*liveCalls]bool{},
		streams: &liveStreams{ctx: ctx, items: make(chan *streamItem), open: map[*liveStream]bool{}},
	}
}

func (t *liveTools) areRunning() bool { return len(t.batches) > 0 }

// startCalls runs each call on its own goroutine.
func (t *liveTools) startCalls(b *liveCalls) {
	t.batches[b] = true
	b.StartCalls(t.ctx, func() { t.results <- b })
}

// cancelCalls cancels the calls with these ids, and their streams.
func (t *liveTools) cancelCalls(ids []string) {
	for _, id := range ids {
		t.streams.cancelStreams(func(st *liveStream) bool { return st.call.ID == id }, errCallInterrupted)
		for b := range t.batches {
			if i := slices.IndexFunc(b.Calls, func(c *genai.FunctionCall) bool { return c.ID == id }); i >= 0 {
				b.Cancel(i, errCallInterrupted)
			}
		}
	}
}

// emitCalls yields a response's calls, starts them, and waits a moment for their results.
func (a *liveAgent) emitCalls(ctx context.Context, response *model.Response) bool {
	ev := a.NewAnswer(response)
	calls, repeated := a.skipAnswered(ev)
	a.called = true
	if len(calls)+len(repeated) == 0 {
		return true
	}
	if len(calls) > 0 {
		ev.LongRunningToolIDs = []string{}
		for _, c := range calls {
			if t := a.FindTool(c.Name); t != nil && tool.CapabilitiesOf(t).LongRunning {
				ev.LongRunningToolIDs = append(ev.LongRunningToolIDs, c.ID)
			}
		}
		if !a.CommitAnswer(ctx, ev) {
			return false
		}
	}
	attempts := map[string]string{}
	for _, c := range repeated {
		attempts[c.ID] = a.earlier[c.ID].invocation
		delete(a.earlier, c.ID)
	}
	waiting := &liveCalls{CallBatch: a.NewBatch(nil, attempts), sessionID: response.LiveSessionID}
	for _, c := range append(calls, repeated...) {
		if a.runsInBackground(c) {
			a.startCalls(ctx, &liveCalls{CallBatch: a.NewBatch([]*genai.FunctionCall{c}, attempts), background: true})
		} else {
			waiting.Calls = append(waiting.Calls, c)
		}
	}
	if len(waiting.Calls) > 0 {
		a.startCalls(ctx, waiting)
	}
	return !a.hasEnded() || !a.IsDone() && a.target == "" && !a.completed
}

// runsInBackground reports whether the model continues without the response to a call.
func (a *liveAgent) runsInBackground(c *genai.FunctionCall) bool {
	t := a.FindTool(c.Name)
	if t == nil || a.traits.NoAsyncCalls {
		return false
	}
	traits := tool.CapabilitiesOf(t)
	return traits.Scheduling != "" && traits.Stream == nil
}

// startCalls starts calls and waits a moment for their results.
func (a *liveAgent) startCalls(ctx context.Context, b *liveCalls) {
	running := a.tools.streams.countOpen()
	for open := range a.tools.batches {
		running += len(open.Calls)
	}
	if running+len(b.Calls) > a.CallLimit() {
		b.RejectAll(a.tools.ctx, running)
		a.receiveResults(ctx, b)
		return
	}
	a.tools.startCalls(b)
	if b.background {
		return
	}
	grace := time.NewTimer(liveCallGrace)
	defer grace.Stop()
	for a.tools.batches[b] && !a.IsDone() {
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

// skipAnswered removes the calls that the model repeats from an event, and returns the others.
// After a reconnect, a model may repeat a call; its answer is on the way, and the tool is not
// called again. Calls repeated from another run are returned if they have no answer. A second call
// with the ID of a running one is dropped, because their responses would be alike.
func (a *liveAgent) skipAnswered(ev *session.Event) (calls, repeated []*genai.FunctionCall) {
	parts := ev.Content.Parts[:0:0]
	running := map[string]bool{}
	for b := range a.tools.batches {
		for _, c := range b.Calls {
			running[c.ID] = true
		}
	}
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
				a.RunLogger().Warn("the live model repeated a call ID", "agent", a.Agent().Name(), "tool", c.Name)
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

// A madeCall is a model's call with its connection and conversation numbers.
type madeCall struct {
	call                     *genai.FunctionCall
	connection, conversation int
}

// wasMade reports whether a call was made on an earlier connection in this conversation.
func (a *liveAgent) wasMade(c *genai.FunctionCall) bool {
	before, ok := a.made[c.ID]
	return ok && before.connection != a.connections && before.call.Name == c.Name && sameArgs(before.call.Args, c.Args)
}

// sameArgs compares arguments by their JSON, because only one may have been decoded from a store.
func sameArgs(a, b map[string]any) bool {
	return len(a)+len(b) == 0 || encodeJSON(a) == encodeJSON(b)
}

// encodeJSON returns a value as JSON text.
func encodeJSON(v any) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return fmt.Sprint(v)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// explainCanceled returns the response to a canceled call. The model gets none for a call that it
// canceled itself.
func explainCanceled(cause error) (text string, silent bool) {
	if errors.Is(cause, errCallInterrupted) {
		return callInterruptedText, true
	}
	return callEndedText, false
}

// receiveResults yields call results, and sends them to the model.
func (a *liveAgent) receiveResults(ctx context.Context, b *liveCalls) {
	delete(a.tools.batches, b)
	results := b.Collect(explainCanceled)
	if results.Event != nil && !a.emitResults(ctx, b, results) {
		return
	}
	if results.Failure != nil {
		if results.Failed == nil || a.Commit(results.Failed) {
			a.Fail(results.Failure)
		}
		return
	}
	if results.Event == nil {
		return
	}
	a.sendResponses(results.Responses)
	if !a.CommitOutput(ctx, results.Event) {
		return
	}
	// Tools can end this agent's conversation.
	a.target = results.Event.Actions.TransferToAgent
	if first := results.Event.Responses(); len(first) > 0 && first[0].Name == TaskCompleted && a.InSequence() {
		a.completed = true
	}
}

// emitResults yields the result event. A background call's event is only stored, unless it waits
// for a person.
func (a *liveAgent) emitResults(ctx context.Context, b *liveCalls, results *runtime.CallResults) bool {
	answer := results.Event
	for _, r := range answer.Responses() {
		r.Scheduling = a.schedulingOf(r.Name)
	}
	if b.background && !results.RequestsInput() {
		err := a.StoreEvent(ctx, answer)
		if err != nil {
			a.Fail(err)
		}
		return err == nil
	}
	answer.LiveSessionID = b.sessionID
	a.finishTransfer(answer)
	return a.CommitResults(answer, b.Calls)
}

// sendResponses sends call results to the model.
func (a *liveAgent) sendResponses(all []*genai.FunctionResponse) {
	var responses []*genai.FunctionResponse
	for _, response := range all {
		if a.isOpenCall(response.ID) {
			responses = append(responses, response)
		} else {
			a.sendText(fmt.Sprintf("The call of %s has ended with this result: %s", response.Name, encodeJSON(response.Response)))
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

// sendText sends text that completes a user turn and is not stored.
func (a *liveAgent) sendText(text string) {
	a.turnOpen = true
	frame := &model.LiveFrame{Turns: []*genai.Content{model.UserText(text)}, TurnComplete: true}
	if a.traits.RealtimeText {
		frame = &model.LiveFrame{Text: text}
	}
	a.out.Push(frame, true, time.Now())
}

// finishTransfer replaces a transfer to an agent that may not take over by an error for the
// model.
func (a *liveAgent) finishTransfer(answer *session.Event) {
	to := answer.Actions.TransferToAgent
	refused := a.CheckTransfer(to)
	switch {
	case to == "":
		return
	case refused != nil:
	case !a.reconnects.HasBudget(time.Now()):
		refused = newRunError(runtime.CodeTransferFailed, nil, "too many transfers: at most %d a minute, continue the conversation yourself", MaxConnectsPerMinute)
	default:
		return
	}
	answer.Actions.TransferToAgent = ""
	for _, r := range answer.Responses() {
		if r.Name == "transfer_to_agent" {
			r.Response = tool.ErrorResponse(refused)
		}
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
		left := &liveCalls{CallBatch: b.Abandon(), sessionID: b.sessionID}
		delete(a.tools.batches, b)
		a.storeEnded(ctx, left)
	}
}

// storeEnded stores the results of calls that were canceled because the conversation ended.
func (a *liveAgent) storeEnded(ctx context.Context, b *liveCalls) {
	delete(a.tools.batches, b)
	answer := b.Collect(explainCanceled).Event
	if answer == nil {
		return
	}
	answer.Actions.TransferToAgent = ""
	answer.LiveSessionID = b.sessionID
	if !a.IsDone() && ctx.Err() == nil {
		a.Commit(answer)
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), liveToolsTimeout)
	defer cancel()
	if err := a.StoreEvent(ctx, answer); err != nil {
		a.RunLogger().Warn("storing the results of canceled calls failed", "error", err)
	}
}
