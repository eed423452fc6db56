package openaiserver

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"agenthost/pkg/protocol"
	"agenthost/pkg/protocol/task"
	"agenthost/pkg/runtime"
	"agenthost/pkg/server"
	"agenthost/pkg/session"
)

// A response in the background is followed by its session's events, which every replica reads alike. So
// the sequence numbers of its stream are the same everywhere, and a client that was cut off continues after
// the last one that it has. Chunks of a message are not stored, but come from the run on this replica; its
// text has a sequence number for each byte, so that any replica continues after a chunk.

// readFollow returns whether a request is for a response's stream, and how many events to skip. OpenAI's
// Go client has stream in a body.
func (h *handlers) readFollow(w http.ResponseWriter, r *http.Request) (skip int, streams bool, err error) {
	query := r.URL.Query()
	if text := query.Get("stream"); text != "" {
		if streams, err = strconv.ParseBool(text); err != nil {
			return 0, false, newRefusal("stream", "stream must be true or false, got %q", protocol.TruncateText(text, maxShown))
		}
	} else if r.ContentLength > 0 {
		var body struct {
			Stream bool `json:"stream"`
		}
		if err := h.readBody(w, r, &body); err != nil {
			return 0, false, err
		}
		streams = body.Stream
	}
	text := query.Get("starting_after")
	if text == "" {
		return 0, streams, nil
	}
	after, err := strconv.Atoi(text)
	if err != nil || after < 0 {
		return 0, false, newRefusal("starting_after", "starting_after must be a sequence number, got %q", protocol.TruncateText(text, maxShown))
	}
	if !streams {
		return 0, false, newRefusal("starting_after", "starting_after requires stream=true")
	}
	return after + 1, true, nil
}

// followResponse streams a response until it has ended, or the server stops. run is nil for a run that
// another request has started.
func (s *storedReader) followResponse(ctx context.Context, run *task.Run, skip int) error {
	h, o := s.turn.h, s.responseWriter
	release, err := h.tasks.OpenStream(o.turn.place.key.User)
	if err != nil {
		return server.NewError(http.StatusTooManyRequests, "Too many open streams")
	}
	defer release()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	o.turn.w.Header().Set("Content-Type", "text/event-stream; charset=utf-8") // also without events
	o.turn.stream, o.skip = h.NewStream(o.turn.w), skip
	defer o.turn.stream.StartKeepAlive(stop)()
	var runEnds <-chan struct{}
	if run != nil {
		runEnds = run.Ended()
	}
	live := h.live.findTurn(task.ID{Key: o.turn.place.key, Invocation: s.invocation})
	for isCurrent := false; ; {
		changed := live.waitForChange() // before the session is read, so that no change is missed
		if !isCurrent {
			switch hasEnded, err := s.readNext(ctx); {
			case err != nil && !o.turn.stream.HasStarted():
				o.turn.w.Header().Del("Content-Type")
				return err
			case err != nil:
				return nil // the client continues with another request
			case hasEnded:
				o.sendEnd()
				return nil
			}
		}
		if err := s.readChunks(live); err != nil {
			return nil
		}
		isCurrent = false
		select {
		case <-changed:
			isCurrent = live.isAfter(s.last)
		case <-runEnds:
			runEnds = nil
		case <-time.After(task.FollowInterval):
		case <-ctx.Done():
			return nil
		case <-h.Stopping().Done():
			return nil
		}
	}
}

// sendEnd streams the last event. OpenAI has none for a canceled response, which is incomplete.
// It is also for a client that has a number after the end: its stream had other chunks than the message.
func (o *responseWriter) sendEnd() {
	if o.skip > o.sequence+1 {
		o.skip = o.sequence
	}
	kind := o.object.Status
	if kind == statusCancelled {
		kind = statusIncomplete
	}
	_ = o.sendStatus("response." + kind)
}

// sendStored writes a response as its session has it.
func (s *storedReader) sendStored(ctx context.Context) error {
	if _, err := s.readNext(ctx); err != nil {
		return err
	}
	return server.WriteJSON(s.turn.w, s.object)
}

// A storedReader reads a response from its session's events, as they come.
type storedReader struct {
	*responseWriter
	invocation string
	// found is the session as it was when a request named the response.
	found *session.Session
	// read counts the events that were read, and isLast reports that the response has the last one. last is
	// the agent's last event, after the user's.
	read   int
	isLast bool
	last   string
	failed error
}

// readNext reads what the session has by now, and reports whether the response has ended; its object has
// the status then. An interrupted run is resumed, if any replica can.
func (s *storedReader) readNext(ctx context.Context) (hasEnded bool, err error) {
	sessions, key := s.turn.h.Host().Store().Sessions, s.turn.place.key
	state, err := s.readState(ctx, s.invocation)
	if err != nil {
		return false, err
	}
	isRunning := state != nil && state.Status == task.Working
	if state == nil {
		if isRunning, err = sessions.IsRunning(ctx, key); err != nil {
			return false, server.WithSessionKey(key, err)
		}
	}
	sess, err := sessions.Get(ctx, key, nil) // after the state: a run that has ended meanwhile has its events
	if err != nil {
		return false, server.WithSessionKey(key, err)
	}
	if err := s.readEvents(sess.Events()); err != nil {
		return false, err
	}
	own := (*server.Error)(nil)
	switch {
	case s.turn.isOverLimit(s.failed):
	case errors.As(s.failed, &own) && own.Code == runtime.CodeAborted, state != nil && state.Status == task.Canceled:
		s.object.Status = statusCancelled
		return true, nil
	case own != nil:
		s.object.Status, s.object.Error = statusFailed, &responseError{"server_error", own.Detail}
		return true, nil
	case s.isLast && isRunning:
		return false, nil
	case state != nil && state.Status == task.Failed:
		s.object.Status, s.object.Error = statusFailed, &responseError{"server_error", state.Failure}
		return true, nil
	case s.isLast:
		if err := s.addQuestions(); err != nil {
			return false, err
		}
	}
	s.finishResponse()
	return true, nil
}

// readEvents reads the events after those that were read before, up to a failure.
func (s *storedReader) readEvents(events []*session.Event) error {
	for s.read < len(events) && s.failed == nil {
		ev := events[s.read]
		s.read++
		if ev.IsFromUser() && ev.Content == nil { // a change of the state
			continue
		}
		if s.isLast = ev.InvocationID == s.invocation; !s.isLast {
			continue
		}
		if !s.turn.hasRun {
			s.turn.hasRun, s.object.Created = true, ev.Timestamp.Unix()
			if err := s.beginTurn(s.invocation); err != nil {
				return err
			}
		}
		if s.last = ev.ID; ev.IsFromUser() {
			s.last = ""
		}
		err := s.turn.readEvent(ev, s.responseWriter)
		if own := (*server.Error)(nil); err != nil && !errors.As(err, &own) {
			return err
		}
		s.failed = err
	}
	return nil
}

// readChunks writes the chunks after the events that were read.
func (s *storedReader) readChunks(live *liveTurn) error {
	p := &s.turn.partial
	text, thoughts := live.readChunks(s.last, p.text.Len(), p.thoughts.Len())
	p.text.WriteString(text)
	p.thoughts.WriteString(thoughts)
	return s.addTexts(text, thoughts)
}
