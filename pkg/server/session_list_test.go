package server_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"agenthost/internal/servertest"
	"agenthost/pkg/session"
	"agenthost/pkg/store"
)

// A list without a page size has the sessions that were created last, up to a limit, and a header reports
// older ones.
func TestSessionListLimit(t *testing.T) {
	e := newEnv(t, nil)
	for i := range store.MaxListed + 2 {
		if i == store.MaxListed {
			if w := e.serve(http.MethodGet, "/apps/a/users/u/sessions", ""); strings.Count(w.Body.String(), `"id":`) != store.MaxListed || w.Header().Get("X-Older-Sessions") != "" {
				t.Errorf("a list at the limit has %d sessions, X-Older-Sessions %q", strings.Count(w.Body.String(), `"id":`), w.Header().Get("X-Older-Sessions"))
			}
		}
		if _, err := e.store.Sessions.Create(t.Context(), session.Key{App: "a", User: "u", ID: fmt.Sprint(i)}, nil); err != nil {
			t.Fatal(err)
		}
	}
	w := e.serve(http.MethodGet, "/apps/a/users/u/sessions", "")
	body := w.Body.String()
	if n := strings.Count(body, `"id":`); w.Code != http.StatusOK || n != store.MaxListed || w.Header().Get("X-Older-Sessions") != "true" {
		t.Errorf("GET = %d with %d sessions, X-Older-Sessions %q", w.Code, n, w.Header().Get("X-Older-Sessions"))
	}
	if strings.Contains(body, `"id":"1"`) || !strings.Contains(body, `"id":"2"`) {
		t.Error("the list does not leave out the sessions that were created first")
	}
}

// A list whose states are too large is an error that names the way out, and a small page of it is sent.
func TestSessionListTooLarge(t *testing.T) {
	e := newEnvWith(t, "memory:", &store.Options{Clock: fixedTime, MaxStateBytes: 32 << 20}, nil)
	for i := range 5 {
		if _, err := e.store.Sessions.Create(t.Context(), session.Key{App: "a", User: "u", ID: fmt.Sprint(i)}, map[string]any{"k": strings.Repeat("x", 15<<20)}); err != nil {
			t.Fatal(err)
		}
	}
	w := e.serve(http.MethodGet, "/apps/a/users/u/sessions", "")
	servertest.ExpectResponse(t, w, http.StatusUnprocessableEntity, `{"detail":"the list of sessions exceeds 64 MiB: set a smaller pageSize, such as 20"}`)
	if w := e.serve(http.MethodGet, "/apps/a/users/u/sessions?pageSize=2", ""); w.Code != http.StatusOK || w.Body.Len() < 30<<20 {
		t.Errorf("a page of two = %d with %d bytes", w.Code, w.Body.Len())
	}
}
