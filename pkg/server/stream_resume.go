package server

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"agenthost/pkg/session"
)

// resumePollInterval is how often a run that is under way is looked at for a client that
// came back.
const resumePollInterval = 250 * time.Millisecond

// resumeStream answers a client that came back to a stream: it gets what was
// stored of the invocation behind the event that it saw last, and then what comes,
// until the invocation has ended. Any process on the database can answer, and no
// run begins.
func (s *Server) resumeStream(w http.ResponseWriter, r *http.Request, q *runRequest, form session.Form) error {
	c := &resumedStream{server: s, key: q.sessionKey(), lastEventID: r.Header.Get("Last-Event-ID")}
	missed, err := c.loadMissed(r.Context())
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
	for over := false; err == nil; {
		for _, ev := range missed {
			if err = st.writeEvent(ev, q.singleFrame, false); err != nil {
				return nil // nobody listens
			}
		}
		if over {
			return nil
		}
		if over, err = c.waitForRun(ctx); err == nil {
			missed, err = c.loadMissed(ctx)
			over = over || c.superseded
		}
	}
	end()
	if st.writeErr == nil && ctx.Err() == nil {
		_ = st.writeFailure(s.logFailure(r, withSessionKey(q.sessionKey(), err)), s.rootAgentName(q.App))
	}
	return nil
}

// A catchUp is how far a client that came back is.
type resumedStream struct {
	server *Server
	key    session.Key
	// lastEventID is the event that the client saw last, of this invocation.
	lastEventID, invocationID string
	// superseded says that another invocation has begun since.
	superseded bool
}

// loadMissed are the events of agents that follow in the invocation.
func (c *resumedStream) loadMissed(ctx context.Context) ([]*session.Event, error) {
	sess, err := c.server.host.Store().Sessions.Get(ctx, c.key, nil)
	if err != nil {
		return nil, err
	}
	events := sess.Events()
	at := slices.IndexFunc(events, func(ev *session.Event) bool { return ev.ID == c.lastEventID })
	if at < 0 {
		return nil, notFoundError("Event not found: " + c.lastEventID)
	}
	c.invocationID = events[at].InvocationID
	var missed []*session.Event
	for _, ev := range events[at+1:] {
		switch {
		case ev.Actions.Compaction != nil:
		case ev.InvocationID != c.invocationID:
			c.superseded = true
		case ev.Author != session.UserAuthor:
			missed, c.lastEventID = append(missed, ev), ev.ID
		}
	}
	return missed, nil
}

// waitForRun waits a moment, or until no run has the session.
func (c *resumedStream) waitForRun(ctx context.Context) (over bool, err error) {
	_, free, err := c.server.host.Store().Sessions.Acquire(ctx, c.key, resumePollInterval)
	if errors.Is(err, session.ErrBusy) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	free()
	return true, nil
}
