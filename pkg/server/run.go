package server

import (
	"context"
	"errors"
	"net/http"

	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
	"agenthost/pkg/spec"
)

// runRequest is a run as /run and /run_sse ask for it.
type runRequest struct {
	runtime.RunRequest
	// whole sends an event that saved artifacts in one frame.
	whole bool
}

func (q *runRequest) key() session.Key {
	return session.Key{App: q.App, User: q.UserID, ID: q.SessionID}
}

// readRun reads the body of both. The message itself is the host's to judge.
func (s *Server) readRun(w http.ResponseWriter, r *http.Request) (*runRequest, error) {
	b, err := s.readBody(w, r)
	if err != nil {
		return nil, err
	}
	if s.opts.Auth == nil {
		b.need("userId")
	}
	b.need("sessionId")
	q := &runRequest{RunRequest: runtime.RunRequest{
		App: b.text("appName"), UserID: b.text("userId"), SessionID: b.text("sessionId"),
		Message: b.content("newMessage"), StateDelta: b.values("stateDelta"),
		Streaming: b.flag("streaming"), CustomMetadata: b.values("customMetadata"),
		CreateSession: s.opts.AutoCreateSession, Writer: s.writer(r),
	}}
	q.Config = s.readConfig(b, q.App)
	q.whole = b.text("functionCallEventId") != ""
	q.InvocationID = b.text("invocationId")
	switch err := b.err(); {
	case err != nil:
		return nil, err
	case q.App == "":
		return nil, refuse("appName is required")
	}
	if q.UserID, err = s.actAs(r, q.App, q.UserID); err != nil {
		return nil, err
	}
	if err := s.checkWrites(r, q.App, q.StateDelta); err != nil {
		return nil, err
	}
	return q, nil
}

// readConfig is the app's run config with what the request says in its place;
// nil when it says nothing, or there is no such app.
func (s *Server) readConfig(b *body, name string) *runtime.RunConfig {
	f := b.find("runConfig")
	app := s.host.App(name)
	if f == nil || app == nil {
		return nil
	}
	config, problems := app.Config.Override(f.value)
	for _, p := range problems {
		if p.Severity == spec.Error {
			b.fault("value_error", p.Message, string(f.key))
		}
	}
	return config
}

func refuse(message string) error {
	return &runtime.RunError{Code: runtime.CodeInvalidRequest, Message: message, Err: session.ErrInvalid}
}

// handleRun answers with all events of an invocation. It never streams,
// whatever the request or the app says (adk-python cli/api_server.py).
func (s *Server) handleRun(w http.ResponseWriter, r *http.Request) error {
	form, err := readForm(r)
	if err != nil {
		return err
	}
	q, err := s.readRun(w, r)
	if err == nil {
		err = s.limit(q.App, q.UserID)
	}
	if err != nil {
		return err
	}
	if !s.runs.enter() {
		return errDraining
	}
	defer s.runs.leave()
	ctx, _, end, err := s.runContext(r)
	if err != nil {
		return err
	}
	defer end()
	q.Streaming = new(bool)
	buffer := s.buffers.take()
	defer s.buffers.giveBack(buffer)
	text := append((*buffer)[:0], '[')
	for ev, err := range s.host.Run(ctx, &q.RunRequest) {
		if err != nil {
			s.refundMissing(q.App, err)
			return ofRun(q.key(), err)
		}
		nameRevision(w, ev)
		if text, err = appendItem(text, ev, form); err != nil {
			return ofRun(q.key(), err)
		}
	}
	*buffer = append(text, ']')
	writeText(w, http.StatusOK, *buffer)
	return nil
}

// appendItem adds an event to a JSON list. A partial one is no part of the
// answer.
func appendItem(list []byte, ev *session.Event, form session.Form) ([]byte, error) {
	if ev.Partial {
		return list, nil
	}
	if len(list) > 1 {
		list = append(list, ',')
	}
	return form.AppendEvent(list, ev)
}

// handleRunSSE answers with the events of an invocation as they happen.
func (s *Server) handleRunSSE(w http.ResponseWriter, r *http.Request) error {
	ids, err := wantsEventIDs(r)
	if err != nil {
		return err
	}
	form, err := readForm(r)
	if err != nil {
		return err
	}
	q, err := s.readRun(w, r)
	if err == nil && r.Header.Get("Last-Event-ID") != "" {
		return s.handleCatchUp(w, r, q, form)
	}
	if err == nil {
		err = s.limit(q.App, q.UserID)
	}
	if err != nil {
		return err
	}
	if !s.runs.enter() {
		return errDraining
	}
	defer s.runs.leave()
	ctx, detached, free, err := s.runContext(r)
	if err != nil {
		return err
	}
	defer free()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	st := s.newStream(w, ids)
	defer s.leaves(r, st, q.key())()
	st.alone, st.form = detached, form
	end := st.keepAlive(stop)
	defer end()
	err = s.play(ctx, q, st)
	end()
	s.refundMissing(q.App, err)
	switch {
	case err == nil:
		_ = st.begin() // a run without events
		return nil
	case st.lost != nil:
		return nil // nobody listens
	default:
		return s.endFailed(st, r, q, err)
	}
}

// play writes the events of a run. The error is the run's or the client's.
func (s *Server) play(ctx context.Context, q *runRequest, st *stream) error {
	last := false
	q.OnLastEvent = func() { last = true }
	for ev, err := range s.host.Run(ctx, &q.RunRequest) {
		if err != nil {
			return err
		}
		if err := st.event(ev, q.whole, last); err != nil && !st.alone {
			return err
		}
	}
	return nil
}

// endFailed ends a stream. What is wrong with the request itself, and a store that
// cannot be used, becomes the answer's status, as long as nothing was sent; all else
// is the last frame.
func (s *Server) endFailed(st *stream, r *http.Request, q *runRequest, err error) error {
	err = ofRun(q.key(), err)
	f := s.reported(r, err)
	if !st.begun && (f.status < http.StatusInternalServerError || errors.Is(err, session.ErrUnavailable)) {
		return err
	}
	_ = st.fail(f, s.rootAgent(q.App))
	return nil
}

// rootAgent is the name of an app's root agent; empty when there is no such app.
func (s *Server) rootAgent(app string) string {
	if a := s.host.App(app); a != nil {
		return a.Root.Name()
	}
	return ""
}
