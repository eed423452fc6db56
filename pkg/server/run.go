package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"agenthost/internal/buffers"
	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
)

// handleRun responds with all events in an invocation. It never streams, whatever the request
// or the app configures (adk-python cli/api_server.py).
func (s *Services) handleRun(w http.ResponseWriter, r *http.Request) error {
	q, err := s.decodeRun(w, r, false)
	if err != nil {
		return err
	}
	ctx, end, err := s.startRun(r, q)
	if err != nil {
		return err
	}
	defer end()
	buffer := buffers.Take()
	defer buffers.Return(buffer)
	text := append((*buffer)[:0], '[')
	for ev, err := range s.opts.Run(ctx, &q.RunRequest) {
		if err != nil {
			s.RefundMissing(q.App, err)
			return WrapRunError(q.sessionKey(), err)
		}
		setRevisionHeader(w, ev)
		if text, err = appendListItem(text, ev, q.form); err != nil {
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

// handleRunSSE streams the events of an invocation, each before the agent continues.
//
// A run that fails before its first event gets the status of its error, if the request caused it
// or the store is unavailable. Any other error is the last frame, because the status is sent.
func (s *Services) handleRunSSE(w http.ResponseWriter, r *http.Request) error {
	q, err := s.decodeRun(w, r, true)
	if err != nil {
		return err
	}
	if q.lastEventID != "" {
		return s.resumeStream(w, r, q)
	}
	ctx, endRun, err := s.startRun(r, q)
	if err != nil {
		return err
	}
	defer endRun()
	ctx, stop := context.WithCancel(ctx)
	defer stop()

	st := s.newStream(w, q.eventIDs)
	st.form, st.detached = q.form, q.detached
	defer s.trackStream(r, st, q.sessionKey())()
	stopKeepAlive := st.StartKeepAlive(stop)
	defer stopKeepAlive()
	if !q.detached {
		q.ClientLeft = func() bool { return (r.Context().Err() != nil || st.hasFailed()) && s.runs.isOpen() }
	}
	last := false
	q.OnLastEvent = func() { last = true }
	q.OnModelWait = func(wait model.Wait) { st.writeComment(wait.String()) }
	var runErr error
	for ev, err := range s.opts.Run(ctx, &q.RunRequest) {
		if err == nil {
			err = st.writeEvent(ev, q.singleFrame, last)
			if q.detached {
				continue // without its client
			}
		}
		if err != nil {
			runErr = err
			break
		}
	}
	stopKeepAlive() // no comment follows the last frame

	s.RefundMissing(q.App, runErr)
	switch {
	case runErr == nil:
		_ = st.start() // a run without events still sends the header
		return nil
	case st.writeErr != nil:
		return nil // the client has disconnected
	}
	err = WrapRunError(q.sessionKey(), runErr)
	f := s.logFailure(r, err)
	if !st.started && (f.status < http.StatusInternalServerError || errors.Is(err, session.ErrUnavailable)) {
		return err
	}
	_ = st.writeFailure(f, s.rootAgentName(q.App))
	return nil
}

// startRun starts the run of a request. If it is detached, POST …/stop ends it.
func (s *Services) startRun(r *http.Request, q *runRequest) (ctx context.Context, end func(), err error) {
	ctx = r.Context()
	if q.detached {
		ctx = context.WithoutCancel(ctx)
	}
	ctx, end, err = s.StartRun(ctx, q.App, q.UserID, q.detached)
	switch {
	case err != nil:
		return nil, nil, err
	case q.detachErr != nil:
		end()
		return nil, nil, q.detachErr
	case !q.detached:
		return ctx, end, nil
	}
	stoppable, run, leave := s.detachedRuns.addRun(ctx, q.sessionKey())
	q.ClientLeft = run.stopped.Load
	release := end
	return stoppable, func() { leave(); release() }, nil
}

// StartRun counts a run against the rate limits and as running, and returns its context until
// the caller calls end. The context ends with ctx or after Options.MaxRunTime, and a detached run's
// also on [Server.Abort]: pass true if ctx does not end with the client's connection.
func (s *Services) StartRun(ctx context.Context, app, user string, detached bool) (run context.Context, end func(), err error) {
	if err := s.ReserveRun(app, user); err != nil {
		return nil, nil, err
	}
	if !s.runs.acquire() {
		return nil, nil, errShuttingDown
	}
	run, end = ctx, s.runs.release
	if detached {
		inner, _, leave := s.detachedRuns.addRun(ctx, session.Key{})
		run, end = inner, func() { leave(); s.runs.release() }
	}
	if s.opts.MaxRunTime > 0 {
		limited, stop := context.WithTimeoutCause(run, s.opts.MaxRunTime, &runtime.RunError{
			Code: runtime.CodeTimeLimit, Message: fmt.Sprintf("the turn exceeded its time limit of %s", s.opts.MaxRunTime),
		})
		release := end
		run, end = limited, func() { stop(); release() }
	}
	return run, end, nil
}
