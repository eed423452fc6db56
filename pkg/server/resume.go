package server

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"agenthost/pkg/session"
	"agenthost/pkg/store"
)

// A client that lost its stream reconnects with Last-Event-ID, here or at another replica, and
// gets the rest of that invocation. It starts no run: the events come from the store, where the
// replica that runs the agent commits each one before it sends it. So nothing is missing, and
// nothing has to be kept for clients that may return.
//
//	load the events after the last one that the client has; write them
//	until the run has ended: wait for the session, load the next events, write them
//
// A session that can be acquired has no run on any replica. Invariants: the
// events are loaded once more after that, since a run commits its last event before it releases
// the session; and a later invocation, which holds the session too, ends the stream.

// resumePollInterval is the interval at which a resumed stream checks a running
// invocation for new events.
const resumePollInterval = 250 * time.Millisecond

// A resumedStream is a reconnected client's position in an invocation.
type resumedStream struct {
	sessions *store.Sessions
	key      session.Key
	// lastEventID is the last event that the client has received.
	lastEventID string
	// superseded is set once a later invocation has started.
	superseded bool
}

// resumeStream serves a client that reconnects.
func (s *Services) resumeStream(w http.ResponseWriter, r *http.Request, q *runRequest) error {
	rs := &resumedStream{sessions: s.host.Store().Sessions, key: q.sessionKey(), lastEventID: q.lastEventID}
	missed, err := rs.loadMissed(r.Context())
	if err != nil {
		return WithSessionKey(rs.key, err)
	}
	ctx, stop := context.WithCancel(r.Context())
	defer stop()
	st := s.newStream(w, q.eventIDs)
	st.form = q.form
	defer s.trackStream(r, st, rs.key)()
	stopKeepAlive := st.StartKeepAlive(stop)
	defer stopKeepAlive()
	err = st.start()
	for ended := false; err == nil; {
		for _, ev := range missed {
			if st.writeEvent(ev, q.singleFrame, false) != nil {
				return nil // the client has disconnected
			}
		}
		if ended {
			return nil
		}
		_, release, busy := rs.sessions.Acquire(ctx, rs.key, resumePollInterval)
		switch {
		case busy == nil:
			release()
			ended = true
		case !errors.Is(busy, session.ErrBusy):
			err = busy
			continue
		}
		missed, err = rs.loadMissed(ctx)
		ended = ended || rs.superseded
	}
	stopKeepAlive()
	if st.writeErr == nil && ctx.Err() == nil {
		_ = st.writeFailure(s.logFailure(r, WithSessionKey(rs.key, err)), s.rootAgentName(q.App))
	}
	return nil
}

// loadMissed returns the agents' events that follow in the invocation.
func (rs *resumedStream) loadMissed(ctx context.Context) ([]*session.Event, error) {
	sess, err := rs.sessions.Get(ctx, rs.key, nil)
	if err != nil {
		return nil, err
	}
	events := sess.Events()
	at := slices.IndexFunc(events, func(ev *session.Event) bool { return ev.ID == rs.lastEventID })
	if at < 0 {
		return nil, notFoundError("Event not found: " + rs.lastEventID)
	}
	invocation := events[at].InvocationID
	var missed []*session.Event
	for _, ev := range events[at+1:] {
		switch {
		case ev.Actions.Compaction != nil:
		case ev.InvocationID != invocation:
			rs.superseded = true
		case !ev.IsFromUser():
			missed, rs.lastEventID = append(missed, ev), ev.ID
		}
	}
	return missed, nil
}
