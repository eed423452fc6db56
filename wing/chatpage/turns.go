package chatpage

import (
	"context"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/genai"

	"agenthost/internal/safe"
	"agenthost/pkg/runtime"
	"agenthost/pkg/server"
	"agenthost/pkg/session"
	"agenthost/pkg/store"
)

// A turn continues when its browser leaves: a page that reloads, or a telephone that sleeps, finds
// the answer. So the run is detached from the request, and only a stop request, the host's limits
// or a shutdown end it. The page finds a running turn by a follow request, on any replica: it reads
// the store, where each event is before a browser sees it.

// A messageRequest is a user's message.
type messageRequest struct {
	Text  string       `json:"text"`
	Files []sentUpload `json:"files"`
}

type sentUpload struct {
	Name string `json:"name"`
	Type string `json:"type"`
	// Data is base64 in JSON.
	Data []byte `json:"data"`
}

// Limits for messages.
const (
	maxText    = 100_000
	maxUploads = 10
)

// readMessage validates a message. The types of files are limited to those that the app takes: the
// page filters them too, for the user's sake.
func (q *messageRequest) readMessage(chat *Settings) (*genai.Content, error) {
	invalid := func(format string, args ...any) error {
		return server.NewError(http.StatusUnprocessableEntity, fmt.Sprintf(format, args...))
	}
	switch {
	case strings.TrimSpace(q.Text) == "" && len(q.Files) == 0:
		return nil, invalid("text is required")
	case utf8.RuneCountInString(q.Text) > maxText:
		return nil, server.NewError(http.StatusRequestEntityTooLarge, fmt.Sprintf("text exceeds the limit of %d characters", maxText))
	case len(q.Files) > maxUploads:
		return nil, invalid("files exceed the limit of %d", maxUploads)
	}
	content := &genai.Content{Role: genai.RoleUser}
	for _, f := range q.Files {
		kind, _, err := mime.ParseMediaType(f.Type)
		if err != nil || !acceptsType(chat.Uploads, kind) {
			return nil, server.NewError(http.StatusUnsupportedMediaType, "The chat does not take files of this type")
		}
		if len(f.Data) == 0 {
			return nil, invalid("a file is empty")
		}
		content.Parts = append(content.Parts, &genai.Part{InlineData: &genai.Blob{DisplayName: cleanName(f.Name), MIMEType: kind, Data: f.Data}})
	}
	if q.Text != "" {
		content.Parts = append(content.Parts, &genai.Part{Text: q.Text})
	}
	return content, nil
}

func acceptsType(accepted []string, kind string) bool {
	return slices.ContainsFunc(accepted, func(a string) bool {
		family, ok := strings.CutSuffix(a, "/*")
		return a == kind || ok && strings.HasPrefix(kind, family+"/")
	})
}

func (h *handlers) handleMessage(w http.ResponseWriter, r *http.Request) error {
	v, err := h.openDoor(r)
	if err != nil {
		return err
	}
	var q messageRequest
	if err := h.ReadJSON(w, r, &q); err != nil {
		return err
	}
	content, err := q.readMessage(v.chat)
	if err != nil {
		return err
	}
	return h.streamTurn(w, r, v, func(ctx context.Context, left func() bool) runtime.Events {
		return h.Host().Run(ctx, v.newRun(content, left))
	})
}

// newRun returns a run with partial events in the conversation, which must exist.
func (v *visit) newRun(message *genai.Content, left func() bool) *runtime.RunRequest {
	streaming := true
	return &runtime.RunRequest{
		App: v.key.App, UserID: v.key.User, SessionID: v.key.ID, Message: message, Streaming: &streaming, Protocol: "chat",
		Writer: session.WriterClient, ClientLeft: left,
	}
}

func (h *handlers) handleAnswer(w http.ResponseWriter, r *http.Request) error {
	v, err := h.openDoor(r)
	if err != nil {
		return err
	}
	var q answerRequest
	if err := h.ReadJSON(w, r, &q); err != nil {
		return err
	}
	sess, err := h.Host().Store().Sessions.Get(r.Context(), v.key, nil)
	if err != nil {
		return h.plainError(r, v.key, err)
	}
	content, err := q.buildResponse(r.Context(), sess.Events())
	if err != nil {
		return err
	}
	return h.streamTurn(w, r, v, func(ctx context.Context, left func() bool) runtime.Events {
		return h.Host().Run(ctx, v.newRun(content, left))
	})
}

var errNothingToRetry = server.NewError(http.StatusConflict, "The last turn has not failed")

// handleRetry repeats a turn that failed or was interrupted. A resumable app continues it; another
// one takes the turn back, and receives its message again.
func (h *handlers) handleRetry(w http.ResponseWriter, r *http.Request) error {
	v, err := h.openDoor(r)
	if err != nil {
		return err
	}
	sess, err := h.Host().Store().Sessions.Get(r.Context(), v.key, nil)
	if err != nil {
		return h.plainError(r, v.key, err)
	}
	events := session.Recorded(sess.Events())
	failed := newOutlook(v.chat, events).findFailure(v.app, events)
	if failed == "" {
		return errNothingToRetry
	}
	if id := runtime.ResumableInvocation(events); id != "" && failed == failedInterrupted && v.app.Resumable() {
		return h.streamTurn(w, r, v, func(ctx context.Context, left func() bool) runtime.Events {
			run := v.newRun(nil, left)
			run.InvocationID = id
			return h.Host().Run(ctx, run)
		})
	}
	at := -1
	for i, ev := range slices.Backward(events) {
		if ev.IsFromUser() && ev.Content != nil {
			at = i
			break
		}
	}
	if at < 0 {
		return errNothingToRetry
	}
	streaming := true
	return h.streamTurn(w, r, v, func(ctx context.Context, _ func() bool) runtime.Events {
		return h.Host().Rewind(ctx, &runtime.RewindRequest{
			App: v.key.App, UserID: v.key.User, SessionID: v.key.ID, BeforeInvocationID: events[at].InvocationID,
			Message: events[at].Content, Streaming: &streaming, Writer: session.WriterClient,
		})
	})
}

// streamTurn runs a turn to its end, and streams it for as long as the browser reads. The first frame
// is sent at once: a page whose connection breaks later finds the turn in the store.
func (h *handlers) streamTurn(w http.ResponseWriter, r *http.Request, v *visit, run func(ctx context.Context, left func() bool) runtime.Events) error {
	if _, err := h.Host().Store().Sessions.Get(r.Context(), v.key, nil); err != nil {
		return h.plainError(r, v.key, err)
	}
	ctx, end, err := h.StartRun(context.WithoutCancel(r.Context()), v.key.App, v.key.User, true)
	if err != nil {
		return h.plainError(r, v.key, err)
	}
	defer end()
	ctx, turn, forget := h.addTurn(ctx, v.key)
	defer forget()
	st := h.NewStream(w)
	stopKeepAlive := st.StartKeepAlive(func() {})
	defer stopKeepAlive()
	o, hasEvents := &outlook{chat: v.chat}, false
	send := func(f frame) { _ = st.SendJSON(f) } // a browser that has left does not end the turn
	send(frame{Working: true})
	var failure error
	for ev, err := range run(ctx, turn.isStopped) {
		if err != nil {
			failure = err
			break
		}
		hasEvents = true
		for _, f := range o.readFrames(ev) {
			send(f)
		}
	}
	stopKeepAlive()
	if failure == nil {
		return nil
	}
	h.RefundMissing(v.key.App, failure)
	if turn.isStopped() {
		send(frame{Failed: failedStopped})
		return nil
	}
	plain := h.plainError(r, v.key, server.WrapRunError(v.key, failure))
	own := (*server.Error)(nil)
	if !errors.As(plain, &own) {
		own = server.NewError(http.StatusInternalServerError, "")
	}
	send(frame{Failed: kindOf(own.Status), Refused: !hasEvents && own.Status < http.StatusInternalServerError})
	return nil
}

// addTurn makes a turn known to stop requests until forget is called.
func (h *handlers) addTurn(ctx context.Context, key session.Key) (inner context.Context, t *runningTurn, forget func()) {
	inner, cancel := context.WithCancel(ctx)
	t = &runningTurn{cancel: cancel}
	h.mu.Lock()
	h.running[key] = append(h.running[key], t)
	h.mu.Unlock()
	return inner, t, func() {
		cancel()
		h.mu.Lock()
		defer h.mu.Unlock()
		rest := slices.DeleteFunc(h.running[key], func(other *runningTurn) bool { return other == t })
		if h.running[key] = rest; len(rest) == 0 {
			delete(h.running, key)
		}
	}
}

// stopTurn cancels a conversation's turns in this process.
func (h *handlers) stopTurn(key session.Key) (stopped bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, t := range h.running[key] {
		t.stopped.Store(true)
		t.cancel()
	}
	return len(h.running[key]) > 0
}

type stoppedAnswer struct {
	// Stopped is false if the conversation has no turn.
	Stopped bool `json:"stopped"`
}

// handleStop stops a conversation's turns. A turn of another replica can store nothing more, and ends
// when that replica renews its leases.
func (h *handlers) handleStop(w http.ResponseWriter, r *http.Request) error {
	v, err := h.openDoor(r)
	if err != nil {
		return err
	}
	stopped := h.stopTurn(v.key)
	if !stopped {
		_, err := h.Host().Store().Sessions.TakeOver(r.Context(), v.key)
		if err != nil && !errors.Is(err, session.ErrNotFound) {
			return h.plainError(r, v.key, err)
		}
		stopped = err == nil
	}
	return server.WriteJSON(w, stoppedAnswer{stopped})
}

// followInterval is how often a followed conversation is read.
const followInterval = 250 * time.Millisecond

// Limits for open follow streams, each of which reads the store at followInterval.
const (
	maxUserFollowers = 8
	maxFollowers     = 5000
)

var errTooManyFollowers = server.NewError(http.StatusTooManyRequests, "Too many open streams")

// acquireFollower counts a follow stream, until release is called.
func (h *handlers) acquireFollower(user string) (release func(), err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.following >= maxFollowers || h.followers[user] >= maxUserFollowers {
		return nil, errTooManyFollowers
	}
	h.following++
	h.followers[user]++
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.following--
		if h.followers[user]--; h.followers[user] == 0 {
			delete(h.followers, user)
		}
	}, nil
}

// handleFollow streams the messages after an event, until no turn is running on any replica. The events
// are read once more after that.
func (h *handlers) handleFollow(w http.ResponseWriter, r *http.Request) error {
	v, err := h.openDoor(r)
	if err != nil {
		return err
	}
	release, err := h.acquireFollower(v.key.User)
	if err != nil {
		return err
	}
	defer release()
	ctx, stop := context.WithCancel(r.Context())
	defer stop()
	defer context.AfterFunc(h.Stopping(), func() {
		defer safe.Recover(func(p *safe.Panic) { p.Log(h.Logger(), "ending a followed conversation panicked") })
		stop()
	})()
	st := h.NewStream(w)
	stopKeepAlive := st.StartKeepAlive(stop)
	defer stopKeepAlive()
	f := &follower{visit: v, sessions: h.Host().Store().Sessions, at: r.URL.Query().Get("after")}
	started := false
	for ended := false; ; {
		frames, err := f.readNext(ctx)
		if err != nil {
			if started {
				return nil
			}
			return h.plainError(r, v.key, err)
		}
		if !started && len(frames) == 0 {
			frames = []frame{{At: f.at, Working: true}}
		}
		for _, fr := range frames {
			if st.SendJSON(fr) != nil {
				return nil
			}
		}
		started = true
		if ended {
			if failed := f.outlook.findFailure(v.app, f.events); failed != "" {
				_ = st.SendJSON(frame{At: f.at, Failed: failed})
			}
			return nil
		}
		isRunning, err := f.sessions.IsRunning(ctx, v.key)
		if err != nil {
			return nil // the page asks again
		}
		if ended = !isRunning; !ended {
			select {
			case <-time.After(followInterval):
			case <-ctx.Done():
				return nil
			}
		}
	}
}

// A follower reads a conversation again and again. A read without new events costs the same in a
// short and in a long one.
type follower struct {
	*visit
	sessions *store.Sessions
	// at is the last event that was returned.
	at string
	// read is how many events the session had at the last read; events are the effective ones.
	read    int
	events  []*session.Event
	outlook *outlook
}

// readNext returns the frames of the events after the last ones.
func (f *follower) readNext(ctx context.Context) ([]frame, error) {
	sess, err := f.sessions.Get(ctx, f.key, nil)
	if err != nil {
		return nil, err
	}
	all := sess.Events()
	if f.outlook != nil && len(all) == f.read {
		return nil, nil
	}
	f.read, f.events = len(all), session.Recorded(all)
	f.outlook = newOutlook(f.chat, f.events)
	first := slices.IndexFunc(f.events, func(ev *session.Event) bool { return ev.ID == f.at }) + 1
	var frames []frame
	for _, ev := range f.events[first:] {
		frames, f.at = append(frames, f.outlook.readFrames(ev)...), ev.ID
	}
	return frames, nil
}
