package server

import "net/http"

// handleMemory adds a session to the memory and replaces its earlier entries.
func (s *Server) handleMemory(w http.ResponseWriter, r *http.Request) error {
	b, err := s.readBody(w, r)
	if err != nil {
		return err
	}
	b.requireField("sessionId")
	key := pathKey(r)
	key.ID = b.readString("sessionId")
	if err := b.err(); err != nil {
		return err
	}
	st := s.host.Store()
	sess, err := st.Sessions.Get(r.Context(), key, nil)
	if err != nil {
		return withSessionKey(key, err)
	}
	if err := st.Memories.AddSession(r.Context(), sess); err != nil {
		return withSessionKey(key, err)
	}
	return writeJSON(w, nil)
}
