package live

import (
	"context"
	"slices"
	"time"

	"google.golang.org/genai"

	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
)

// The loop is the only goroutine of a live agent that writes the session, yields events and
// decides what the model is sent. It takes one thing at a time and handles it to the end:
//
//	a client's request    check, store, push frames          handle_requests.go, sender.go
//	a model's message     convert, store, yield, start calls  receiver.go, calls.go
//	results and streams   store, yield, push responses        calls.go, streams.go
//	a connection          opened, refused, ended, leaving     link.go, goaway.go, reconnect.go
//	drain, limit, cancel  finish the turn, or fail the run    limits.go
//
// Client, model and tools act at any time, but the session needs one order of events, and
// most decisions (Is the turn open? Which frames does the next connection get?) depend on all
// three. A goroutine for each direction, like adk-python's two tasks, would have to lock all of
// that state, and a reconnect would have to stop them both. Here only bytes wait elsewhere:
// connecting, reading, writing and tools report over channels.
//
// Invariants:
//   - Stored before seen: the loop stores whole texts and responses before it pushes their frames,
//     and final events before it yields them. After a crash in between, the next run sends what
//     the model has not answered (resume.go).
//   - The loop never waits for the model. Frames wait in the bounded [Outbox]; while it is full,
//     the loop takes no requests and no stream results, but still the model's messages, so that
//     a slow model slows down the client and no two sides wait for each other.
//   - A sent frame is kept until the model has confirmed or answered it, or the replay bounds
//     drop it: the next connection gets it again, and no answer is given twice.
//   - Every stored call gets a stored response, also if the model cancels it or the conversation
//     ends first (endTools). Only pending calls stay open: long-running ones, and those that
//     wait for a person.

// runLoop runs the loop that [liveAgent] describes until the agent has ended. When an agent
// continues another one's conversation, its model speaks first.
func (a *liveAgent) runLoop(ctx context.Context) {
	ctx, cancel := context.WithCancelCause(ctx)
	a.tools = newLiveTools(ctx, a)
	defer a.endLink()
	defer a.endTools(ctx)
	defer cancel(errLiveEnded)
	a.Intercept = a.interceptCall
	a.openFirst(ctx)
	for !a.hasEnded() {
		a.receiveNext(ctx)
	}
	a.emitHeldInput(ctx)
	if !a.IsDone() {
		a.flushResponses(ctx)
		a.saveOpenRecordings(ctx)
	}
	if a.conn != nil && ctx.Err() == nil && !a.IsDone() {
		a.conn.flushFrames(ctx, a.out)
	}
}

// receiveNext waits for the next thing that happens, and handles it.
func (a *liveAgent) receiveNext(ctx context.Context) {
	requests, space, items := a.req.Requests.Ready(), (<-chan struct{})(nil), a.tools.streams.items
	if !a.out.HasSpace() {
		requests, space, items = nil, a.out.Space(), nil
	}
	drain := a.req.Drain
	if a.draining {
		drain = nil
	}
	var messages <-chan liveReceived
	if a.conn != nil {
		messages = a.conn.messages
	}
	var retry, leave <-chan time.Time
	if a.retry != nil {
		retry = a.retry.C
	}
	if a.goAway != nil {
		leave = a.goAway.C
	}
	select { // a nil channel is never ready
	case <-requests:
		a.receiveRequest(ctx)
	case <-space:
	case received := <-messages:
		a.receiveMessage(ctx, received)
	case result := <-a.tools.results:
		a.receiveResults(ctx, result)
	case item := <-items:
		a.receiveItem(ctx, item)
	case <-retry:
		a.openConn(ctx)
	case <-leave:
		a.swapConn(ctx)
	case connected := <-a.connecting:
		a.receiveConnection(ctx, connected)
	case <-drain:
		a.draining = true
	case <-a.limiter.timer.C:
		if err := a.limiter.checkTime(); err != nil {
			a.Fail(err)
		}
	case <-ctx.Done():
		a.Fail(runtime.AsRunError(context.Cause(ctx)))
	}
}

// receiveMessage handles a model message, or the connection's end.
func (a *liveAgent) receiveMessage(ctx context.Context, received liveReceived) {
	if received.err != nil {
		a.receiveEnd(ctx, received.err)
		return
	}
	m := received.message
	a.limiter.recordActivity()
	a.dropForgedResponses(m)
	a.beginSpeech(m)
	for _, response := range a.receiver.Receive(m) {
		if !a.emitResponse(ctx, response) {
			return
		}
	}
	if m.Resumption != nil {
		a.storeHandle(m.Resumption)
	}
	a.tools.cancelCalls(m.CanceledCalls)
	if (m.TurnComplete || m.GenerationComplete) && !a.called {
		a.out.CompleteTurn()
	}
	if m.TurnComplete {
		a.turnOpen, a.speaking, a.called = a.responding, false, false
		a.conn.useful = true
	}
	if m.GoAway != nil {
		a.receiveGoAway(ctx, *m.GoAway)
	}
	a.swapIfIdle(ctx)
}

// beginSpeech records that an answer begins: a turn's, or the one to responses.
func (a *liveAgent) beginSpeech(m *model.LiveMessage) {
	if !isSpeech(m) || a.speaking && (!a.responding || len(m.Calls) > 0) {
		return
	}
	if !a.speaking {
		a.connSpan.first = a.ReadClock()
	}
	a.called = a.called && !a.responding
	a.turnOpen, a.speaking, a.responding = true, true, false
	a.out.BeginTurn()
}

// dropForgedResponses removes function responses from a message: a model makes calls, and only
// tools and the user answer them.
func (a *liveAgent) dropForgedResponses(m *model.LiveMessage) {
	if len(model.ResponsesOf(m.Content)) == 0 {
		return
	}
	a.RunLogger().Warn("the live model sent a function response, which was dropped", "agent", a.Agent().Name())
	parts := slices.DeleteFunc(slices.Clone(m.Content.Parts), func(p *genai.Part) bool { return p.FunctionResponse != nil })
	m.Content = &genai.Content{Role: m.Content.Role, Parts: parts}
}

// isSpeech reports whether a message belongs to the model's answer.
func isSpeech(m *model.LiveMessage) bool {
	return m.Content != nil || m.OutputTranscription != nil || len(m.Calls) > 0 || m.TurnComplete || m.Interrupted || m.GenerationComplete
}

// emitResponse yields a model response as an event, and starts its calls.
func (a *liveAgent) emitResponse(ctx context.Context, response *model.Response) bool {
	if calls := model.CallsOf(response.Content); len(calls) > 0 {
		return a.emitCalls(ctx, response)
	}
	if a.recorder != nil && response.Content != nil {
		for _, p := range response.Content.Parts {
			a.recorder.AddOutput(p.InlineData, a.ReadClock())
		}
	}
	a.locateTranscript(response)
	if response.InputTranscription != nil {
		a.heldInput = nil
	}
	if !a.saveRecordings(ctx, response) {
		return false
	}
	if !a.CommitAnswer(ctx, a.NewAnswer(response)) {
		return false
	}
	if t := response.InputTranscription; t != nil && !response.Partial {
		a.SetInput(t.Text)
	}
	if response.UsageMetadata == nil {
		return true
	}
	a.measureTurn(response)
	err := a.AddCost(response)
	if err == nil {
		err = a.limiter.addTokens(response)
	}
	if err != nil {
		a.Fail(err)
	}
	return !a.IsDone()
}

// flushResponses yields what the model has not completed, as interrupted. Calls that wait for a
// turn's end are dropped: no resumable state has them, so the model makes them again.
func (a *liveAgent) flushResponses(ctx context.Context) {
	if a.receiver == nil {
		return
	}
	for _, response := range a.receiver.Flush() {
		if len(model.CallsOf(response.Content)) > 0 {
			continue
		}
		if response.InputTranscription != nil && a.handle != "" && a.traits.CanReplay && !a.hasEnded() {
			a.heldInput = response
			continue
		}
		if response.TurnComplete {
			a.turnOpen = false
		}
		if !a.emitResponse(ctx, response) {
			return
		}
	}
}

// emitHeldInput yields the held transcript if its audio is not sent again after all.
func (a *liveAgent) emitHeldInput(ctx context.Context) {
	if held := a.heldInput; held != nil && !a.IsDone() {
		a.emitResponse(ctx, held)
	}
}
