package live

import (
	"context"
	"slices"

	"google.golang.org/genai"

	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
)

// runLoop runs the loop that [liveAgent] describes until the agent has ended. The model of an agent
// that continues the conversation of another one speaks first.
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
	select {
	case <-requests:
		a.receiveRequest(ctx)
	case <-space:
	case received := <-a.modelMessages():
		a.receiveMessage(ctx, received)
	case result := <-a.tools.results:
		a.receiveResults(ctx, result)
	case item := <-items:
		a.receiveItem(ctx, item)
	case <-a.retryTime():
		a.openConn(ctx)
	case <-a.leaveTime():
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

// receiveMessage handles a message of the model, or the end of the connection.
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

// beginSpeech records the beginning of an answer: that of a turn, or that to responses.
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

// isSpeech reports whether a message is a part of an answer of the model.
func isSpeech(m *model.LiveMessage) bool {
	return m.Content != nil || m.OutputTranscription != nil || len(m.Calls) > 0 || m.TurnComplete || m.Interrupted || m.GenerationComplete
}

// emitResponse yields a response of the model as an event, and starts its calls.
func (a *liveAgent) emitResponse(ctx context.Context, response *model.Response) bool {
	if calls := model.CallsOf(response.Content); len(calls) > 0 {
		return a.emitCalls(ctx, response)
	}
	a.recordOutput(response)
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

// flushResponses yields what the model has not completed, as interrupted. Calls that wait for
// the end of a turn are dropped: no state that can be resumed has them, so that the model
// makes them again.
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

// emitHeldInput yields the transcript of audio that is not sent again after all.
func (a *liveAgent) emitHeldInput(ctx context.Context) {
	if held := a.heldInput; held != nil && !a.IsDone() {
		a.emitResponse(ctx, held)
	}
}
