package main

import (
	"math/rand/v2"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"agenthost/pkg/loader"
	"agenthost/pkg/server"
)

// TestHostileClients: whatever a client sends, and however it leaves, a server
// answers or closes, tells nothing internal, calls nothing its own fault, and
// keeps nothing of it.
func TestHostileClients(t *testing.T) {
	defer goleak.VerifyNone(t)
	dir := t.TempDir()
	if err := victimApp().writeTo(dir); err != nil {
		t.Fatal(err)
	}
	s, err := newWatchedHost(t.Context(), dir, &loader.WatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	srv := server.New(s.host, &server.Options{ReadTimeout: time.Second, AutoCreateSession: true, Metrics: server.NewMetrics("")})
	web := httptest.NewServer(srv)
	defer web.Close()
	a := &requestGenerator{random: rand.New(rand.NewPCG(1, 0)), patterns: srv.Patterns()}
	r, err := sendHostileRequests(t.Context(), strings.TrimPrefix(web.URL, "http://"), a, 1500)
	if err != nil {
		t.Fatal(err)
	}
	if r.serverErrors+r.leaking+r.unfinished > 0 {
		t.Errorf("%d requests: %d answers of 5xx, %d with internal words, %d without an end:\n%s", r.requests, r.serverErrors, r.leaking, r.unfinished, strings.Join(r.first, "\n"))
	}
	if r.statuses[200] < 100 || r.statuses[422] < 100 || r.statuses[404] < 50 {
		t.Errorf("the requests say little: %v", r.statuses)
	}
	t.Log(r.statuses)
}
