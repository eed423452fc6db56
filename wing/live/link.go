package live

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/genai"

	"agenthost/internal/safe"
	"agenthost/internal/textlive"
	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
)

// liveConnectTimeout bounds one attempt to connect.
const liveConnectTimeout = 30 * time.Second

// A liveLink is how an agent reaches its model: the connection, or how it gets the next one.
type liveLink struct {
	llm    model.LiveLLM
	traits model.LiveTraits
	// setup is what every connection's setup shares: all but the handle and the history.
	setup *model.LiveSetup
	// answer is a callback's answer, which replaces the conversation; nil without one.
	answer *model.Response
	// conn is nil while there is no connection.
	conn     *liveConn
	receiver *Receiver
	// connecting receives the running attempt's result; nil if there is no attempt.
	connecting    chan liveConnected
	cancelConnect context.CancelFunc
	// retry fires when the next attempt is due; nil if none waits.
	retry *time.Timer
	// handle is the newest state that a connection can resume; empty if there is none.
	handle string
	// goAway fires when the model's service is about to end the connection; nil if it is
	// not. swapping reports that an attempt replaces a connection that still works.
	goAway   *time.Timer
	swapping bool
	// connSpan is the connection's span.
	connSpan liveSpan
	// attempt is the connection that is being opened.
	attempt liveAttempt
	// conversation counts the model's conversations: those that no handle resumed.
	conversation int
}

// A liveAttempt is an attempt to connect.
type liveAttempt struct {
	handle string
	// history begins a new conversation; nil when a handle resumes one.
	history []*genai.Content
	// speak reports that the model is to speak first; waits that a person has to answer calls
	// before it continues.
	speak, waits bool
}

// liveConnected is an attempt's result.
type liveConnected struct {
	conn model.LiveConn
	err  error
}

// prepareLink resolves the model and its connections' setup.
func (a *liveAgent) prepareLink(ctx context.Context) error {
	llm := model.LiveOf(a.AgentModel())
	if llm == nil {
		llm = textlive.OverText(a.AgentModel(), nil)
	}
	a.llm = llm
	a.traits = llm.LiveTraits("")
	if err := a.LoadTools(ctx); err != nil {
		return err
	}
	if a.InSequence() {
		if err := a.addTaskCompleted(); err != nil {
			return err
		}
	}
	return a.addStopStreaming()
}

// connectFresh begins a new conversation with the session's history. Speak asks the model to answer
// it.
func (a *liveAgent) connectFresh(ctx context.Context, speak bool) {
	if a.planFresh(ctx, speak) {
		a.openConn(ctx)
	}
}

// planFresh prepares an attempt to begin a new conversation.
func (a *liveAgent) planFresh(ctx context.Context, speak bool) bool {
	a.emitHeldInput(ctx)
	history, err := a.buildSetup(ctx)
	if err != nil {
		a.Fail(err)
		return false
	}
	if a.answer != nil {
		a.CommitAnswer(ctx, a.NewAnswer(a.answer))
		return false
	}
	a.handle = ""
	a.conversation++
	a.out.Restart(a.traits.CanReplay, time.Now())
	a.attempt = liveAttempt{history: history, speak: speak, waits: len(runtime.Pending(a.Session().Events())) > 0}
	return true
}

// planResume prepares an attempt to resume the conversation.
func (a *liveAgent) planResume() {
	a.out.Resume(a.traits.CanReplay, time.Now())
	a.attempt = liveAttempt{handle: a.handle}
}

// openConn starts an attempt.
func (a *liveAgent) openConn(ctx context.Context) {
	stopTimer(a.retry)
	a.retry = nil
	setup := a.attemptSetup()
	ctx, cancel := context.WithTimeout(ctx, liveConnectTimeout)
	result := make(chan liveConnected, 1)
	a.connecting, a.cancelConnect = result, cancel
	a.reconnects.Opened(time.Now())
	llm, log := a.llm, a.RunLogger()
	go func() {
		defer safe.Recover(func(p *safe.Panic) { result <- liveConnected{err: logPanic(log, p)} })
		conn, err := llm.ConnectLive(ctx, setup)
		result <- liveConnected{conn, err}
	}()
}

// receiveConnection takes over a new connection, or handles that there is none.
func (a *liveAgent) receiveConnection(ctx context.Context, connected liveConnected) {
	a.connecting = nil
	a.cancelConnect()
	if connected.err != nil {
		a.receiveRefusal(ctx, connected.err)
		return
	}
	if a.swapping {
		a.flushResponses(ctx)
		a.dropConn()
		a.planResume()
	}
	a.swapping = false
	a.out.Unpause()
	a.connections++
	a.beginConnSpan(ctx)
	a.conn = startLiveConn(ctx, connected.conn, a.RunLogger())
	a.receiver = NewReceiver(a.traits, a.modelName(), connected.conn.SessionID())
	a.sendHistory()
	a.conn.startSending(ctx, a.out)
}

// receiveRefusal handles an attempt that failed.
func (a *liveAgent) receiveRefusal(ctx context.Context, err error) {
	a.reconnects.Ended(0, false)
	a.RunLogger().Warn("connecting to the live model failed", "agent", a.Agent().Name(), "resumed", a.attempt.handle != "", "error", err)
	if a.swapping { // the old connection still works
		a.swapping = false
		a.out.Unpause()
		return
	}
	if a.attempt.handle != "" && RefusesHandle(err) {
		a.connectFresh(ctx, a.turnOpen)
		return
	}
	a.reconnectOrFail(ctx, err)
}

// receiveEnd handles a connection that the model's side has ended.
func (a *liveAgent) receiveEnd(ctx context.Context, err error) {
	a.RunLogger().Info("live connection ended", "agent", a.Agent().Name(), "error", err)
	useful := a.conn.useful
	a.reconnects.Ended(time.Since(a.conn.opened), useful)
	a.endConnSpan(err)
	a.flushResponses(ctx)
	a.dropConn()
	if a.IsDone() {
		return
	}
	if a.swapping { // an attempt is under way
		a.swapping = false
		a.planResume()
		return
	}
	if a.attempt.handle != "" && !useful && RefusesHandle(err) { // or what belongs to its state
		a.connectFresh(ctx, a.turnOpen)
		return
	}
	a.reconnectOrFail(ctx, err)
}

// reconnectOrFail plans the next attempt, or ends the run.
func (a *liveAgent) reconnectOrFail(ctx context.Context, err error) {
	if !IsRecoverable(err) || !a.mayReconnect() {
		a.failDisconnected(ctx, err)
		return
	}
	delay, ok := a.reconnects.Next(time.Now())
	if !ok {
		a.failDisconnected(ctx, fmt.Errorf("%d attempts to reconnect failed, the last with: %w", MaxFailedConnects, err))
		return
	}
	if a.handle != "" {
		a.planResume()
	} else if !a.planFresh(ctx, a.turnOpen) {
		return
	}
	a.retry = time.NewTimer(delay)
}

// mayReconnect reports whether the run continues after a connection has ended: the config
// asks for it, or there is a state to resume.
func (a *liveAgent) mayReconnect() bool {
	return a.handle != "" || a.config.SessionResumption != nil
}

// failDisconnected ends the run.
func (a *liveAgent) failDisconnected(ctx context.Context, err error) {
	a.emitHeldInput(ctx)
	failure := runtime.NewModelError(a.modelName(), err)
	if failure.Code == runtime.CodeModelFailed {
		failure.Code = runtime.CodeLiveDisconnected
	}
	a.Fail(failure)
}

// storeHandle keeps the newest state that can be resumed. A state that cannot be resumed does
// not replace an older one that can.
func (a *liveAgent) storeHandle(r *model.LiveResumption) {
	if !r.Resumable || r.NewHandle == "" || a.swapping {
		return
	}
	a.handle = r.NewHandle
	a.out.Confirm(r.LastConsumedClientMessageIndex)
}

// dropConn ends the connection, if there is one.
func (a *liveAgent) dropConn() {
	if a.conn == nil {
		return
	}
	a.conn.closeConn()
	a.endConnSpan(nil)
	a.conn, a.receiver, a.speaking, a.called = nil, nil, false, false
	stopTimer(a.goAway)
	a.goAway = nil
}

// endLink ends the connection, and an attempt that is under way.
func (a *liveAgent) endLink() {
	stopTimer(a.retry)
	if a.connecting != nil {
		a.cancelConnect()
		if connected := <-a.connecting; connected.conn != nil {
			connected.conn.Close()
		}
	}
	a.dropConn()
}

// stopTimer stops a timer that may be nil.
func stopTimer(t *time.Timer) {
	if t != nil {
		t.Stop()
	}
}
