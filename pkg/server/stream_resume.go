package server

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"agenthost/pkg/session"
)

// resumePollInterval is the interval at which a resumed stream checks a running
// invocation for new events.
const resumePollInterval = 250 * time.Millisecond

// resumeStream serves a client that reconnects: it sends the stored events of the
// invocation after Last-Event-ID, then new events until the invocation ends. Any
// replica can serve it, and no run is started.
func (s *Server) resumeStream(w http.ResponseWriter, r *http.Request, q *runRequest, form session.Form) error {
	rs := &resumedStream{server: s, key: q.sessionKey(), lastEventID: r.Header.Get("Last-Event-ID")}
	missed, err := rs.loadMissed(r.Context())
	if err != nil {
		return withSessionKey(q.sessionKey(), err)
	}
	ctx, stop := context.WithCancel(r.Context())
	defer stop()
	st := s.newStream(w, true)
	st.form = form
	defer s.trackStream(r, st, q.sessionKey())()
	end := st.startKeepAlive(stop)
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
		_ = st.writeFailure(s.logFailure(r, withSessionKey(q.sessionKey(), err)), s.rootAgentName(q.App))
	}
	return nil
}

// A resumedStream is the position of a reconnected client in an invocation.
type resumedStream struct {
	server *Server
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
		case ev.Author != session.UserAuthor:
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
