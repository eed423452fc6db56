package live

import (
	"context"
	"time"
)

// liveSwapTime is how long before a connection ends the next one is opened, even if the model is
// speaking.
const liveSwapTime = 5 * time.Second

// receiveGoAway prepares to replace the connection: the next one is opened when the turn is over,
// or shortly before the time has passed.
func (a *liveAgent) receiveGoAway(_ context.Context, left time.Duration) {
	if a.goAway == nil && !a.swapping {
		a.goAway = time.NewTimer(max(0, left-liveSwapTime))
	}
}

// swapIfIdle replaces a connection that is about to end, if it is idle.
func (a *liveAgent) swapIfIdle(ctx context.Context) {
	if a.goAway != nil && !a.turnOpen && !a.tools.areRunning() && !a.hasEnded() {
		a.swapConn(ctx)
	}
}

// swapConn replaces the connection. With a handle, the next one is opened while this one is still
// there; frames wait in the meantime. Without one, the session's history begins a new conversation.
func (a *liveAgent) swapConn(ctx context.Context) {
	if a.conn == nil || a.swapping {
		return
	}
	stopTimer(a.goAway)
	a.goAway = nil
	if !a.reconnects.HasBudget(time.Now()) {
		a.RunLogger().Warn("the live model asks too often for another connection", "agent", a.Agent().Name())
		return // until the connection ends
	}
	if a.handle == "" {
		a.flushResponses(ctx)
		a.dropConn()
		a.connectFresh(ctx, a.turnOpen)
		return
	}
	a.out.Pause()
	a.swapping = true
	a.attempt = liveAttempt{handle: a.handle}
	a.openConn(ctx)
}
