package server

import (
	"net/http"

	"agenthost/pkg/runtime"
)

// handleRewind removes the end of a session. With a message it responds with the events
// of the run that follows, otherwise with the session.
func (s *Server) handleRewind(w http.ResponseWriter, r *http.Request) error {
	form, err := readEventForm(r)
	if err != nil {
		return err
	}
	b, err := s.readBody(w, r)
	if err != nil {
		return err
	}
	key := pathKey(r)
	req := &runtime.RewindRequest{
		App: key.App, UserID: key.User, SessionID: key.ID,
		BeforeInvocationID: b.readString("rewindBeforeInvocationId"), AfterEventID: b.readString("eventId"),
		Message: b.readContent("newMessage"), Streaming: new(bool), Writer: s.stateWriter(r),
	}
	if err := b.err(); err != nil {
		return err
	}
	if req.Message != nil {
		if err := s.reserveRun(key.App, key.User); err != nil {
			return err
		}
	}
	if err := s.responses.checkUser(key.User); err != nil {
		return err
	}
	if !s.runs.acquire() {
		return errShuttingDown
	}
	defer s.runs.release()
	text := []byte{'['}
	for ev, err := range s.host.Rewind(r.Context(), req) {
		if err != nil {
			if req.Message != nil {
				s.refundMissing(key.App, err)
			}
			return wrapRunError(key, err)
		}
		setRevisionHeader(w, ev)
		if text, err = appendListItem(text, ev, form); err != nil {
			return wrapRunError(key, err)
		}
	}
	if req.Message != nil {
		writeRawJSON(w, http.StatusOK, append(text, ']'))
		return nil
	}
	sess, err := s.host.Store().Sessions.Get(r.Context(), key, nil)
	if err != nil {
		return err
	}
	return s.writeSession(w, r, sess, form)
}
