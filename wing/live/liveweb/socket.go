package liveweb

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/coder/websocket"
	"google.golang.org/genai"

	"agenthost/internal/buffers"
	"agenthost/internal/safe"
	"agenthost/pkg/runtime"
	"agenthost/pkg/server"
	"agenthost/pkg/session"
	"agenthost/wing/live"
)

// Limits for one live socket.
const (
	// liveBytesPerSecond and liveBurst limit what a client sends; a client that sends more
	// is read more slowly. Audio needs 45 kB a second, a camera frame 300 kB. Each frame
	// counts as at least minFrameBytes.
	liveBytesPerSecond = 1 << 20
	liveBurst          = 8 << 20
	minFrameBytes      = 4 << 10
	// liveFrameTimeout is how long a client may take to read a frame, and livePingEvery how
	// often a ping shows whether it is still there.
	liveFrameTimeout = 10 * time.Second
	livePingEvery    = 20 * time.Second
	// maxCloseReason is the longest reason in a close frame, in bytes (RFC 6455, 5.5).
	maxCloseReason = 123
	// maxErrorText is the longest message about an invalid frame in bytes.
	maxErrorText = 1000
)

// Reasons for closing a socket.
const (
	reasonSessionNotFound = "Session not found"
	reasonBusy            = "the session is in use by another run, try again later"
	reasonShutdown        = "the server is shutting down, connect again"
)

// handleRunLive upgrades to a WebSocket and holds a live conversation on it (adk-python
// cli/api_server.py run_live). Errors before the upgrade are HTTP errors. Without an
// upgrade, the response is 426 if a WebSocket would be accepted.
func (s *handlers) handleRunLive(w http.ResponseWriter, r *http.Request) error {
	q, r, err := s.readLiveRequest(r)
	if err != nil {
		return err
	}
	if s.Host().App(q.App) == nil {
		return server.NewError(http.StatusNotFound, "App not found: "+q.App)
	}
	return s.serveSocket(w, r, q, nil)
}

// runTalk serves a live conversation in a door's own form.
func (s *handlers) runTalk(w http.ResponseWriter, r *http.Request, t *server.Talk) error {
	return s.serveSocket(w, r, &live.RunRequest{App: t.Key.App, UserID: t.Key.User, SessionID: t.Key.ID, Protocol: t.Protocol}, t)
}

// serveSocket upgrades a request, and runs its conversation until it ends. The form is ADK's if talk
// is nil.
func (s *handlers) serveSocket(w http.ResponseWriter, r *http.Request, q *live.RunRequest, talk *server.Talk) error {
	if !isUpgrade(r) {
		return errUpgradeRequired
	}
	leave, refusal := s.enterLive(q.App, q.UserID)
	if refusal == nil {
		defer leave()
	}
	socket, conn, err := s.acceptLive(w, r)
	if err != nil {
		return nil // the library has responded
	}
	defer func() { _ = socket.CloseNow() }() // closeSocket has sent the reason
	if refusal != nil {
		// Browsers show pages a close frame's code, but not a handshake's status.
		reason := refusal.Error()
		if talk != nil {
			reason = talk.ExplainEnd(refusal)
		}
		closeLive(socket, conn, websocket.StatusTryAgainLater, reason)
		return nil
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	c := &liveSocket{server: s, request: r, socket: socket, conn: conn, app: q.App, talk: talk, queue: live.NewQueue(), cancel: cancel}
	q.Requests, q.Drain = c.queue, s.Stopping().Done()
	c.runConversation(ctx, q)
	return nil
}

func isUpgrade(r *http.Request) bool {
	return strings.EqualFold(r.Header.Get("Upgrade"), "websocket")
}

// enterLive counts a live run against the limits, and returns the function that ends it.
func (s *handlers) enterLive(app, user string) (leave func(), err error) {
	release, err := s.sockets.acquireSocket(user)
	if err != nil {
		return nil, err
	}
	if err := s.ReserveRun(app, user); err != nil {
		release()
		return nil, err
	}
	end, err := s.TrackRun()
	if err != nil {
		release()
		return nil, err
	}
	return func() { end(); release() }, nil
}

// A liveSocket is one client's connection. One goroutine reads it; the request's goroutine runs the
// conversation and writes the events.
type liveSocket struct {
	server  *handlers
	request *http.Request
	socket  *websocket.Conn
	conn    *liveConn
	app     string
	// talk has the form of frames; nil is ADK's.
	talk   *server.Talk
	queue  *live.Queue
	cancel context.CancelFunc
	// farewell sends the shutdown notice, once and before the close.
	farewell sync.Once
}

// runConversation runs the conversation until it ends or the client leaves.
func (c *liveSocket) runConversation(ctx context.Context, q *live.RunRequest) {
	c.server.metrics.sockets.Inc()
	defer c.server.metrics.sockets.Dec()
	forget := context.AfterFunc(c.server.Stopping(), func() {
		defer safe.Recover(func(*safe.Panic) { c.cancel() })
		c.sendFarewell()
	})
	defer forget()
	ping := c.startPing(ctx)
	defer ping.Stop()
	done := make(chan struct{})
	defer func() { <-done }() // the reader uses the request, which ends with the handler
	defer func() { _ = c.socket.CloseNow() }()
	go func() {
		defer close(done)
		defer safe.Recover(func(p *safe.Panic) {
			p.Log(c.server.Logger(), "reading a live socket panicked", "app", c.app)
			c.cancel()
		})
		c.readRequests(ctx)
	}()
	err := c.writeEvents(ctx, q)
	c.queue.Close()
	if c.server.Stopping().Err() != nil {
		c.sendFarewell() // the run may have ended first
	}
	c.closeSocket(q, err)
}

// startPing asks the client regularly whether it is there, so that a run releases the session when
// the client is gone.
func (c *liveSocket) startPing(ctx context.Context) *time.Timer {
	var timer *time.Timer
	ready := make(chan struct{})
	timer = time.AfterFunc(livePingEvery, func() {
		defer safe.Recover(func(*safe.Panic) { c.cancel() })
		<-ready
		limited, cancel := context.WithTimeout(ctx, livePingEvery)
		defer cancel()
		if c.socket.Ping(limited) != nil {
			c.cancel()
			return
		}
		timer.Reset(livePingEvery)
	})
	close(ready)
	return timer
}

// writeEvents sends the run's events. The error is the run's; nil if the client has left.
func (c *liveSocket) writeEvents(ctx context.Context, q *live.RunRequest) error {
	for ev, err := range live.Run(ctx, c.server.Host(), q) {
		if err != nil {
			if ctx.Err() != nil && c.server.Stopping().Err() == nil && errors.Is(context.Cause(ctx), context.Canceled) {
				return nil
			}
			return server.WrapRunError(session.Key{App: q.App, User: q.UserID, ID: q.SessionID}, err)
		}
		if left, err := c.writeEvent(ctx, ev); left || err != nil {
			return err
		}
	}
	return nil
}

// writeEvent sends an event. Left reports that the client has left, or does not read.
func (c *liveSocket) writeEvent(ctx context.Context, ev *session.Event) (left bool, err error) {
	if c.talk != nil {
		for _, text := range c.talk.WriteEvent(ev) {
			if c.writeText(ctx, text) != nil {
				return true, nil
			}
		}
		return false, nil
	}
	buffer := buffers.Take()
	defer buffers.Return(buffer)
	if *buffer, err = (session.Form{}).AppendEvent(*buffer, ev); err != nil {
		return false, err
	}
	return c.writeText(ctx, *buffer) != nil, nil
}

func (c *liveSocket) writeText(ctx context.Context, text []byte) error {
	ctx, cancel := context.WithTimeout(ctx, liveFrameTimeout)
	defer cancel()
	c.server.metrics.sent().countFrame(len(text))
	return c.socket.Write(ctx, websocket.MessageText, text)
}

// sendFarewell announces the server's shutdown, so that clients connect to another replica after
// the current turn. ADK's clients ignore it.
func (c *liveSocket) sendFarewell() {
	c.farewell.Do(func() {
		_ = c.writeText(context.WithoutCancel(c.request.Context()), []byte(`{"goAway":{"timeLeft":"10s"}}`)) // the client may be gone
	})
}

// readRequests passes the client's requests to the run until the client leaves, which ends
// the run.
func (c *liveSocket) readRequests(ctx context.Context) {
	defer c.cancel()
	for {
		kind, r, err := c.socket.Reader(ctx)
		if err != nil || !c.readRequest(ctx, kind, r) {
			return
		}
	}
}

// readRequest reads a frame and passes it to the run. It returns false when the client or the
// run has ended.
func (c *liveSocket) readRequest(ctx context.Context, kind websocket.MessageType, r io.Reader) bool {
	buffer := buffers.Take()
	defer buffers.Return(buffer)
	if buffers.ReadAll(buffer, r) != nil {
		return false
	}
	c.server.metrics.received().countFrame(len(*buffer))
	if c.conn.chargeFrame(len(*buffer)) != nil {
		return false
	}
	err := c.passRequest(ctx, kind, *buffer)
	return err == nil || !errors.Is(err, live.ErrQueueClosed) && ctx.Err() == nil && c.writeError(ctx, err) == nil
}

// passRequest decodes a frame and adds it to the queue. Binary frames are audio, as in
// adk-go.
func (c *liveSocket) passRequest(ctx context.Context, kind websocket.MessageType, text []byte) error {
	if kind == websocket.MessageBinary {
		if len(text) == 0 || len(text)%2 != 0 {
			return errors.New("a binary frame must have 16-bit audio samples at 16 kHz: the number of bytes is odd or 0")
		}
		return c.queue.Send(ctx, &live.Request{Blob: &genai.Blob{MIMEType: "audio/pcm;rate=16000", Data: bytes.Clone(text)}})
	}
	if c.talk != nil {
		content, reply, err := c.talk.ReadFrame(ctx, text)
		if err != nil {
			return err
		}
		if content != nil {
			if err = c.queue.Send(ctx, live.NewContentRequest(content, len(text))); err == nil && reply != nil {
				_ = c.writeText(ctx, reply) // a client that is gone ends the reading
			}
			return err
		}
	}
	req, err := live.DecodeRequest(text)
	if err != nil {
		return err
	}
	if c.talk != nil && !isPlainAudio(req) {
		return errAudioOnly
	}
	if err := c.server.AuthorizeWrites(c.request, c.app, req.StateDelta); err != nil {
		return err
	}
	return c.queue.Send(ctx, req)
}

// isPlainAudio reports whether a request has nothing but what a door's client may send: audio and signals.
func isPlainAudio(r *live.Request) bool {
	return r.Content == nil && r.StateDelta == nil && (r.Blob == nil || strings.HasPrefix(r.Blob.MIMEType, "audio/"))
}

// writeError reports a frame that is invalid. The conversation continues (adk-java sends
// the same keys).
func (c *liveSocket) writeError(ctx context.Context, err error) error {
	if c.talk != nil {
		return c.writeText(ctx, c.talk.ExplainFrame(err))
	}
	message := truncateText("Invalid live request: "+err.Error(), maxErrorText) // it may quote keys
	text, _ := json.Marshal(map[string]string{"error": message})
	return c.writeText(ctx, text)
}

// closeSocket closes the socket with the code that ADK uses, and a reason if something
// failed. ADK's web client shows any reason as an error.
func (c *liveSocket) closeSocket(q *live.RunRequest, err error) {
	code, reason := websocket.StatusNormalClosure, ""
	failure := runtime.AsRunError(err)
	switch {
	case err == nil && c.server.Stopping().Err() != nil:
		code, reason = websocket.StatusServiceRestart, reasonShutdown
	case err == nil:
	case failure.Code == runtime.CodeSessionNotFound:
		code, reason = websocket.StatusProtocolError, reasonSessionNotFound
	case failure.Code == runtime.CodeSessionBusy:
		code, reason = websocket.StatusTryAgainLater, reasonBusy
	case failure.Code == runtime.CodeLiveLimit, failure.Code == runtime.CodeInvalidRequest:
		code, reason = websocket.StatusPolicyViolation, failure.Message
	default:
		code = websocket.StatusInternalError
		reason = c.server.LogError(c.request, err).Detail
	}
	if c.talk != nil && err != nil {
		reason = c.talk.ExplainEnd(err)
	}
	c.server.RefundMissing(q.App, err)
	closeLive(c.socket, c.conn, code, reason)
}

// truncateText truncates a string to a byte limit without splitting a character.
func truncateText(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most]
}
