package server

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"agenthost/pkg/session"
)

// catchUpPause is how often a run that is under way is looked at for a client that
// came back.
const catchUpPause = 250 * time.Millisecond

// handleCatchUp answers a client that came back to a stream: it gets what was
// stored of the invocation behind the event that it saw last, and then what comes,
// until the invocation has ended. Any process on the database can answer, and no
// run begins.
func (s *Server) handleCatchUp(w http.ResponseWriter, r *http.Request, q *runRequest, form session.Form) error {
	c := &catchUp{server: s, key: q.key(), last: r.Header.Get("Last-Event-ID")}
	missed, err := c.missed(r.Context())
	if err != nil {
		return about(q.key(), err)
	}
	ctx, stop := context.WithCancel(r.Context())
	defer stop()
	st := s.newStream(w, true)
	st.form = form
	defer s.leaves(r, st, q.key())()
	end := st.keepAlive(stop)
	defer end()
	err = st.begin()
	for over := false; err == nil; {
		for _, ev := range missed {
			if err = st.event(ev, q.whole, false); err != nil {
				return nil // nobody listens
			}
		}
		if over {
			return nil
		}
		if over, err = c.await(ctx); err == nil {
			missed, err = c.missed(ctx)
			over = over || c.later
		}
	}
	end()
	if st.lost == nil && ctx.Err() == nil {
		_ = st.fail(s.reported(r, about(q.key(), err)), s.rootAgent(q.App))
	}
	return nil
}

// A catchUp is how far a client that came back is.
type catchUp struct {
	server *Server
	key    session.Key
	// last is the event that the client saw last, of this invocation.
	last, invocation string
	// later says that another invocation has begun since.
	later bool
}

// missed are the events of agents that follow in the invocation.
func (c *catchUp) missed(ctx context.Context) ([]*session.Event, error) {
	sess, err := c.server.host.Store().Sessions.Get(ctx, c.key, nil)
	if err != nil {
		return nil, err
	}
	events := sess.Events()
	at := slices.IndexFunc(events, func(ev *session.Event) bool { return ev.ID == c.last })
	if at < 0 {
		return nil, missingError("Event not found: " + c.last)
	}
	c.invocation = events[at].InvocationID
	var missed []*session.Event
	for _, ev := range events[at+1:] {
		switch {
		case ev.Actions.Compaction != nil:
		case ev.InvocationID != c.invocation:
			c.later = true
		case ev.Author != session.UserAuthor:
			missed, c.last = append(missed, ev), ev.ID
		}
	}
	return missed, nil
}

// await waits a moment, or until no run has the session.
func (c *catchUp) await(ctx context.Context) (over bool, err error) {
	_, free, err := c.server.host.Store().Sessions.Acquire(ctx, c.key, catchUpPause)
	if errors.Is(err, session.ErrBusy) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	free()
	return true, nil
}
