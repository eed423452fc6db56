package mcptool

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
)

// A rawServer is a server over HTTP that answers requests by method with any text, for
// servers that the library cannot be.
type rawServer struct {
	*httptest.Server
	answers map[string]func(id, params json.RawMessage) string
}

func serveRaw(t testing.TB) *rawServer {
	s := &rawServer{answers: map[string]func(id, params json.RawMessage) string{
		"initialize": func(id, _ json.RawMessage) string {
			return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{},"resources":{},"prompts":{}},"serverInfo":{"name":"raw","version":"1"}}}`, id)
		},
	}}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var req struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
			Params json.RawMessage `json:"params"`
		}
		_ = json.NewDecoder(r.Body).Decode(&req)
		answer := s.answers[req.Method]
		if answer == nil || len(req.ID) == 0 {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(answer(req.ID, req.Params)))
	}))
	t.Cleanup(s.Close)
	return s
}

// answer sets a method's result.
func (s *rawServer) answer(method, result string) {
	s.answers[method] = func(id, _ json.RawMessage) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, id, result)
	}
}
