package server

import (
	"context"
	"errors"
	"net/http"

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
func (s *Server) readRunRequest(w http.ResponseWriter, r *http.Request) (*runRequest, error) {
	b, err := s.readBody(w, r)
	if err != nil {
		return nil, err
	}
	if s.opts.Auth == nil {
		b.requireField("userId")
	}
	b.requireField("sessionId")
	q := &runRequest{RunRequest: runtime.RunRequest{
		App: b.readString("appName"), UserID: b.readString("userId"), SessionID: b.readString("sessionId"),
		Message: b.readContent("newMessage"), StateDelta: b.readMap("stateDelta"),
		Streaming: b.readBool("streaming"), CustomMetadata: b.readMap("customMetadata"),
		CreateSession: s.opts.AutoCreateSession, Writer: s.stateWriter(r),
	}}
	q.Config = s.readRunConfig(b, q.App)
	q.singleFrame = b.readString("functionCallEventId") != ""
	q.InvocationID = b.readString("invocationId")
	switch err := b.err(); {
	case err != nil:
		return nil, err
	case q.App == "":
		return nil, badRequest("appName is required")
	}
	if q.UserID, err = s.resolveUser(r, q.App, q.UserID); err != nil {
		return nil, err
	}
	if err := s.authorizeWrites(r, q.App, q.StateDelta); err != nil {
		return nil, err
	}
	return q, nil
}

// readRunConfig returns the run config of the app with the overrides of the request, or
// nil if the request has none or the app does not exist.
func (s *Server) readRunConfig(b *body, name string) *runtime.RunConfig {
	f := b.findField("runConfig")
	app := s.host.App(name)
	if f == nil || app == nil {
		return nil
	}
	config, problems := app.Config.Override(f.value)
	for _, p := range problems {
		if p.Severity == spec.Error {
			b.addDetail("value_error", p.Message, string(f.key))
		}
	}
	return config
}

func badRequest(message string) error {
	return &runtime.RunError{Code: runtime.CodeInvalidRequest, Message: message, Err: session.ErrInvalid}
}

// handleRun responds with all events of an invocation. It never streams, whatever the
// request or the app configures (adk-python cli/api_server.py).
func (s *Server) handleRun(w http.ResponseWriter, r *http.Request) error {
	form, err := readEventForm(r)
	if err != nil {
		return err
	}
	q, err := s.readRunRequest(w, r)
	if err == nil {
		err = s.reserveRun(q.App, q.UserID)
	}
	if err != nil {
		return err
	}
	if !s.runs.acquire() {
		return errShuttingDown
	}
	defer s.runs.release()
	ctx, _, end, err := s.newRunContext(r)
	if err != nil {
		return err
	}
	defer end()
	q.Streaming = new(bool)
	buffer := s.buffers.get()
	defer s.buffers.put(buffer)
	text := append((*buffer)[:0], '[')
	for ev, err := range s.host.Run(ctx, &q.RunRequest) {
		if err != nil {
			s.refundMissing(q.App, err)
			return wrapRunError(q.sessionKey(), err)
		}
		setRevisionHeader(w, ev)
		if text, err = appendListItem(text, ev, form); err != nil {
			return wrapRunError(q.sessionKey(), err)
		}
	}
	*buffer = append(text, ']')
	writeRawJSON(w, http.StatusOK, *buffer)
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
func (s *Server) handleRunSSE(w http.ResponseWriter, r *http.Request) error {
	ids, err := readEventIDsFlag(r)
	if err != nil {
		return err
	}
	form, err := readEventForm(r)
	if err != nil {
		return err
	}
	q, err := s.readRunRequest(w, r)
	if err == nil && r.Header.Get("Last-Event-ID") != "" {
		return s.resumeStream(w, r, q, form)
	}
	if err == nil {
		err = s.reserveRun(q.App, q.UserID)
	}
	if err != nil {
		return err
	}
	if !s.runs.acquire() {
		return errShuttingDown
	}
	defer s.runs.release()
	ctx, detached, endRun, err := s.newRunContext(r)
	if err != nil {
		return err
	}
	defer endRun()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	st := s.newStream(w, ids)
	defer s.trackStream(r, st, q.sessionKey())()
	st.detached, st.form = detached, form
	end := st.startKeepAlive(stop)
	defer end()
	err = s.streamRun(ctx, q, st)
	end()
	s.refundMissing(q.App, err)
	switch {
	case err == nil:
		_ = st.start() // a run without events still sends the header
		return nil
	case st.writeErr != nil:
		return nil // the client has disconnected
	default:
		return s.failStream(st, r, q, err)
	}
}

// streamRun runs the request and writes its events. The error is that of the run or of
// the connection.
func (s *Server) streamRun(ctx context.Context, q *runRequest, st *stream) error {
	last := false
	q.OnLastEvent = func() { last = true }
	for ev, err := range s.host.Run(ctx, &q.RunRequest) {
		if err != nil {
			return err
		}
		if err := st.writeEvent(ev, q.singleFrame, last); err != nil && !st.detached {
			return err
		}
	}
	return nil
}

// failStream ends a stream with an error. If nothing was sent yet, errors of the
// request and an unavailable store become the status of the response. Any other error
// is the last frame.
func (s *Server) failStream(st *stream, r *http.Request, q *runRequest, err error) error {
	err = wrapRunError(q.sessionKey(), err)
	f := s.logFailure(r, err)
	if !st.started && (f.status < http.StatusInternalServerError || errors.Is(err, session.ErrUnavailable)) {
		return err
	}
	_ = st.writeFailure(f, s.rootAgentName(q.App))
	return nil
}

// rootAgentName returns the name of an app's root agent, or an empty string if the app
// does not exist.
func (s *Server) rootAgentName(app string) string {
	if a := s.host.App(app); a != nil {
		return a.Root.Name()
	}
	return ""
}
