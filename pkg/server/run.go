package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"agenthost/internal/buffers"
	"agenthost/internal/jsonbody"
	"agenthost/internal/runconfig"
	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
	"agenthost/pkg/spec"
)

// A runRequest is the request body of /run and /run_sse.
type runRequest struct {
	runtime.RunRequest
	// singleFrame sends an event that saved artifacts in one frame.
	singleFrame bool
}

func (q *runRequest) sessionKey() session.Key {
	return session.Key{App: q.App, User: q.UserID, ID: q.SessionID}
}

// readRunRequest reads the body of /run and /run_sse. The host validates the message.
func (s *Services) readRunRequest(w http.ResponseWriter, r *http.Request) (*runRequest, error) {
	b, err := s.ReadBody(w, r)
	if err != nil {
		return nil, err
	}
	if s.opts.Auth == nil {
		b.RequireField("userId")
	}
	b.RequireField("sessionId")
	q := &runRequest{RunRequest: runtime.RunRequest{
		App: b.ReadString("appName"), UserID: b.ReadString("userId"), SessionID: b.ReadString("sessionId"),
		Message: b.ReadContent("newMessage"), StateDelta: b.ReadMap("stateDelta"),
		Streaming: b.ReadBool("streaming"), CustomMetadata: b.ReadMap("customMetadata"),
		CreateSession: s.opts.AutoCreateSession, Writer: s.StateWriter(r),
	}}
	q.Config = s.readRunConfig(b, q.App)
	q.singleFrame = b.ReadString("functionCallEventId") != ""
	q.InvocationID = b.ReadString("invocationId")
	if q.InvocationID != "" && q.Message == nil {
		b.RejectUnknownFields(runFields()...) // the message may have a misspelt key
	}
	switch err := b.Err(); {
	case err != nil:
		return nil, err
	case q.App == "":
		return nil, badRequest("appName is required")
	}
	if q.UserID, err = s.ResolveUser(r, q.App, q.UserID); err != nil {
		return nil, err
	}
	if err := s.AuthorizeWrites(r, q.App, q.StateDelta); err != nil {
		return nil, err
	}
	return q, nil
}

// runFields returns the fields of a run. Requests with a message can have others, which are
// ignored as in ADK.
func runFields() []string {
	return []string{
		"appName", "userId", "sessionId", "newMessage", "stateDelta", "streaming",
		"customMetadata", "functionCallEventId", "runConfig", "invocationId",
	}
}

// readRunConfig returns the run config of the app with the overrides of the request, or
// nil if the request has none or the app does not exist.
func (s *Services) readRunConfig(b *jsonbody.Body, name string) *runtime.RunConfig {
	f := b.FindField("runConfig")
	app := s.host.App(name)
	if f == nil || app == nil {
		return nil
	}
	config, problems := runconfig.Override(app.Config(), f.Value)
	for _, p := range problems {
		if p.Severity == spec.Error {
			b.AddDetail("value_error", p.Message, string(f.Key))
		}
	}
	return config
}

// startRun counts a run against the rate limits and as running, and returns its context.
// The caller calls end when the run has ended.
func (s *Services) startRun(r *http.Request, q *runRequest) (ctx context.Context, detached bool, end func(), err error) {
	if err := s.ReserveRun(q.App, q.UserID); err != nil {
		return nil, false, nil, err
	}
	if !s.runs.acquire() {
		return nil, false, nil, errShuttingDown
	}
	ctx, detached, cancel, err := s.newRunContext(r)
	if err != nil {
		s.runs.release()
		return nil, false, nil, err
	}
	return ctx, detached, func() { cancel(); s.runs.release() }, nil
}

// ReserveRun counts a run for its user and its app. A run that exceeds one of the
// limits counts for neither.
func (s *Services) ReserveRun(app, user string) error {
	if s.host.App(app) == nil {
		return nil // the run fails anyway; do not track invented names
	}
	if err := s.userLimiter.acquire(user); err != nil {
		return err
	}
	if err := s.appLimiter.acquire(app); err != nil {
		s.userLimiter.refund(user)
		return err
	}
	return nil
}

// RefundMissing returns the token of the app if the session does not exist, so that
// runs of invented sessions do not use up the allowance of other users. They still
// count for their own user.
func (s *Services) RefundMissing(app string, err error) {
	if classifyError(session.Key{}, err).status == http.StatusNotFound {
		s.appLimiter.refund(app)
	}
}

// newRunContext returns the context of a run. It ends with the request or after
// Options.MaxRunTime. With ?detach=true it outlives the request and ends on
// [Server.Abort]: a client that disconnects does not stop the run.
func (s *Services) newRunContext(r *http.Request) (ctx context.Context, detached bool, end func(), err error) {
	if detached, err = ReadQueryFlag(r, "detach"); err != nil {
		return nil, false, nil, err
	}
	ctx, end = r.Context(), func() {}
	if detached {
		ctx, end = s.detachedRuns.withCancel(context.WithoutCancel(ctx))
	}
	if s.opts.MaxRunTime > 0 {
		limited, stop := context.WithTimeoutCause(ctx, s.opts.MaxRunTime, &runtime.RunError{
			Code: runtime.CodeTimeLimit, Message: fmt.Sprintf("the turn exceeded its time limit of %s", s.opts.MaxRunTime),
		})
		outer := end
		return limited, detached, func() { stop(); outer() }, nil
	}
	return ctx, detached, end, nil
}

// handleRun responds with all events of an invocation. It never streams, whatever the
// request or the app configures (adk-python cli/api_server.py).
func (s *Services) handleRun(w http.ResponseWriter, r *http.Request) error {
	form, err := readEventForm(r)
	if err != nil {
		return err
	}
	q, err := s.readRunRequest(w, r)
	if err != nil {
		return err
	}
	ctx, _, end, err := s.startRun(r, q)
	if err != nil {
		return err
	}
	defer end()
	q.Streaming = new(bool)
	buffer := buffers.Take()
	defer buffers.Return(buffer)
	text := append((*buffer)[:0], '[')
	for ev, err := range s.opts.Run(ctx, &q.RunRequest) {
		if err != nil {
			s.RefundMissing(q.App, err)
			return WrapRunError(q.sessionKey(), err)
		}
		setRevisionHeader(w, ev)
		if text, err = appendListItem(text, ev, form); err != nil {
			return WrapRunError(q.sessionKey(), err)
		}
	}
	*buffer = append(text, ']')
	WriteRawJSON(w, http.StatusOK, *buffer)
	return nil
}

// appendListItem appends an event to a JSON list. Partial events are omitted.
func appendListItem(list []byte, ev *session.Event, form session.Form) ([]byte, error) {
	if ev.Partial {
		return list, nil
	}
	if len(list) > 1 {
		list = append(list, ',')
	}
	return form.AppendEvent(list, ev)
}

// handleRunSSE streams the events of an invocation.
func (s *Services) handleRunSSE(w http.ResponseWriter, r *http.Request) error {
	ids, err := readEventIDsFlag(r)
	if err != nil {
		return err
	}
	form, err := readEventForm(r)
	if err != nil {
		return err
	}
	q, err := s.readRunRequest(w, r)
	if err != nil {
		return err
	}
	if r.Header.Get("Last-Event-ID") != "" {
		return s.resumeStream(w, r, q, form)
	}
	ctx, detached, endRun, err := s.startRun(r, q)
	if err != nil {
		return err
	}
	defer endRun()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	st := s.newStream(w, ids)
	defer s.trackStream(r, st, q.sessionKey())()
	st.detached, st.form = detached, form
	if !detached {
		q.ClientLeft = func() bool { return (r.Context().Err() != nil || st.hasFailed()) && s.runs.isOpen() }
	}
	end := st.StartKeepAlive(stop)
	defer end()
	err = s.streamRun(ctx, q, st)
	end()
	s.RefundMissing(q.App, err)
	switch {
	case err == nil:
		_ = st.start() // a run without events still sends the header
		return nil
	case st.writeErr != nil:
		return nil // the client has disconnected
	default:
		return s.failRun(st, r, q, err)
	}
}

// streamRun runs the request and writes its events. The error is that of the run or of
// the connection.
func (s *Services) streamRun(ctx context.Context, q *runRequest, st *Stream) error {
	last := false
	q.OnLastEvent = func() { last = true }
	q.OnModelWait = func(wait model.Wait) { st.writeComment(wait.String()) }
	for ev, err := range s.opts.Run(ctx, &q.RunRequest) {
		if err != nil {
			return err
		}
		if err := st.writeEvent(ev, q.singleFrame, last); err != nil && !st.detached {
			return err
		}
	}
	return nil
}

// failRun ends a stream with an error. If nothing was sent yet, errors of the
// request and an unavailable store become the status of the response. Any other error
// is the last frame.
func (s *Services) failRun(st *Stream, r *http.Request, q *runRequest, err error) error {
	err = WrapRunError(q.sessionKey(), err)
	f := s.logFailure(r, err)
	if !st.started && (f.status < http.StatusInternalServerError || errors.Is(err, session.ErrUnavailable)) {
		return err
	}
	_ = st.writeFailure(f, s.rootAgentName(q.App))
	return nil
}

// rootAgentName returns the name of an app's root agent, or an empty string if the app
// does not exist.
func (s *Services) rootAgentName(app string) string {
	if a := s.host.App(app); a != nil {
		return a.Root().Name()
	}
	return ""
}

// resumePollInterval is the interval at which a resumed stream checks a running
// invocation for new events.
const resumePollInterval = 250 * time.Millisecond

// resumeStream serves a client that reconnects: it sends the stored events of the
// invocation after Last-Event-ID, then new events until the invocation ends. Any
// replica can serve it, and no run is started.
func (s *Services) resumeStream(w http.ResponseWriter, r *http.Request, q *runRequest, form session.Form) error {
	rs := &resumedStream{server: s, key: q.sessionKey(), lastEventID: r.Header.Get("Last-Event-ID")}
	missed, err := rs.loadMissed(r.Context())
	if err != nil {
		return WithSessionKey(q.sessionKey(), err)
	}
	ctx, stop := context.WithCancel(r.Context())
	defer stop()
	st := s.newStream(w, true)
	st.form = form
	defer s.trackStream(r, st, q.sessionKey())()
	end := st.StartKeepAlive(stop)
	defer end()
	err = st.start()
	for ended := false; err == nil; {
		for _, ev := range missed {
			if err = st.writeEvent(ev, q.singleFrame, false); err != nil {
				return nil // the client has disconnected
			}
		}
		if ended {
			return nil
		}
		if ended, err = rs.waitForRun(ctx); err == nil {
			missed, err = rs.loadMissed(ctx)
			ended = ended || rs.superseded
		}
	}
	end()
	if st.writeErr == nil && ctx.Err() == nil {
		_ = st.writeFailure(s.logFailure(r, WithSessionKey(q.sessionKey(), err)), s.rootAgentName(q.App))
	}
	return nil
}

// A resumedStream is the position of a reconnected client in an invocation.
type resumedStream struct {
	server *Services
	key    session.Key
	// lastEventID is the last event that the client has received.
	lastEventID, invocationID string
	// superseded is set once a later invocation has started.
	superseded bool
}

// loadMissed returns the agents' events that follow in the invocation.
func (rs *resumedStream) loadMissed(ctx context.Context) ([]*session.Event, error) {
	sess, err := rs.server.host.Store().Sessions.Get(ctx, rs.key, nil)
	if err != nil {
		return nil, err
	}
	events := sess.Events()
	at := slices.IndexFunc(events, func(ev *session.Event) bool { return ev.ID == rs.lastEventID })
	if at < 0 {
		return nil, notFoundError("Event not found: " + rs.lastEventID)
	}
	rs.invocationID = events[at].InvocationID
	var missed []*session.Event
	for _, ev := range events[at+1:] {
		switch {
		case ev.Actions.Compaction != nil:
		case ev.InvocationID != rs.invocationID:
			rs.superseded = true
		case !ev.IsFromUser():
			missed, rs.lastEventID = append(missed, ev), ev.ID
		}
	}
	return missed, nil
}

// waitForRun waits until no run holds the session, at most resumePollInterval.
func (rs *resumedStream) waitForRun(ctx context.Context) (ended bool, err error) {
	_, release, err := rs.server.host.Store().Sessions.Acquire(ctx, rs.key, resumePollInterval)
	if errors.Is(err, session.ErrBusy) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	release()
	return true, nil
}
