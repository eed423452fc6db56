package live

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"agenthost/internal/safe"
	"agenthost/pkg/model"
)

// Live connection bounds.
const (
	// liveWriteTimeout is how long a model may refuse to read one frame.
	liveWriteTimeout = 10 * time.Second
	// liveFlushTimeout is how long the frames that wait are still sent before the host
	// closes a connection.
	liveFlushTimeout = 2 * time.Second
	// maxUnreadMessages is how many messages may wait for the loop; then the host stops reading,
	// and the model's service waits.
	maxUnreadMessages = 64
)

// A liveConn is one connection to a live model, with a goroutine that reads and one that writes.
// Only the run's loop uses it.
type liveConn struct {
	model.LiveConn
	opened time.Time
	// useful reports that a turn was completed.
	useful bool
	// messages has what the model sent, and last the error that ended the connection.
	messages chan liveReceived
	cancel   context.CancelFunc
	writing  context.CancelFunc
	running  sync.WaitGroup
	log      *slog.Logger
}

// liveReceived is a model message, or the error that ended the connection.
type liveReceived struct {
	message *model.LiveMessage
	err     error
}

// startLiveConn starts reading from a connection. Frames are sent from [liveConn.startSending]
// on.
func startLiveConn(ctx context.Context, conn model.LiveConn, log *slog.Logger) *liveConn {
	// When the run ends, the connection must not be cut before its close frame is sent.
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	c := &liveConn{LiveConn: conn, opened: time.Now(), messages: make(chan liveReceived, maxUnreadMessages), cancel: cancel, log: log}
	c.running.Add(1)
	go func() {
		defer c.running.Done()
		defer safe.Recover(func(p *safe.Panic) { c.deliverMessage(ctx, liveReceived{err: logPanic(log, p)}) })
		c.readMessages(ctx)
	}()
	return c
}

func logPanic(log *slog.Logger, p *safe.Panic) error {
	p.Log(log, "live model panicked")
	return errPanicked
}

func (c *liveConn) readMessages(ctx context.Context) {
	for {
		message, err := c.Receive(ctx)
		if !c.deliverMessage(ctx, liveReceived{message, err}) || err != nil {
			return
		}
	}
}

func (c *liveConn) deliverMessage(ctx context.Context, received liveReceived) bool {
	select {
	case c.messages <- received:
		return true
	case <-ctx.Done():
		return false
	}
}

// startSending sends the outbox's frames until the connection ends.
func (c *liveConn) startSending(ctx context.Context, out *Outbox) {
	ctx, c.writing = context.WithCancel(context.WithoutCancel(ctx))
	c.running.Add(1)
	go func() {
		defer c.running.Done()
		defer safe.Recover(func(p *safe.Panic) {
			_ = logPanic(c.log, p)
			c.Close()
		})
		if err := c.sendFrames(ctx, out); err != nil && ctx.Err() == nil {
			c.log.Warn("sending to the live model failed", "error", err)
			c.Close() // the reader reports the end
		}
	}()
}

func (c *liveConn) sendFrames(ctx context.Context, out *Outbox) error {
	for {
		frame := out.Next(time.Now())
		if frame == nil {
			select {
			case <-out.Ready():
				continue
			case <-ctx.Done():
				return nil
			}
		}
		if err := c.sendFrame(ctx, frame); err != nil {
			return err
		}
		out.Sent()
	}
}

var errSlowModel = errors.New("the live model did not read a frame within 10 seconds")

func (c *liveConn) sendFrame(ctx context.Context, frame *model.LiveFrame) error {
	ctx, cancel := context.WithTimeoutCause(ctx, liveWriteTimeout, errSlowModel)
	defer cancel()
	err := c.Send(ctx, frame)
	if err != nil && errors.Is(context.Cause(ctx), errSlowModel) {
		return errSlowModel
	}
	return err
}

// flushFrames waits until the outbox's frames are sent, or the connection is too slow or ends.
func (c *liveConn) flushFrames(ctx context.Context, out *Outbox) {
	limit := time.NewTimer(liveFlushTimeout)
	defer limit.Stop()
	for {
		select {
		case <-out.Idle():
			return
		case received := <-c.messages:
			if received.err != nil {
				return
			}
		case <-limit.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// closeConn closes the connection and waits for its goroutines.
func (c *liveConn) closeConn() {
	if c.writing != nil {
		c.writing()
	}
	func() {
		defer safe.Recover(func(p *safe.Panic) { _ = logPanic(c.log, p) })
		c.Close()
	}()
	c.cancel()
	c.running.Wait()
}
