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

// A server answers or closes every malformed connection, without internals, unexplained
// 5xx or leaked goroutines.
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
	srv := server.New(s.host, &server.Options{ReadTimeout: time.Second, AutoCreateSession: true, Metrics: server.NewMetrics(""), Extensions: serverExtensions()})
	web := httptest.NewServer(srv)
	defer web.Close()
	a := &requestGenerator{random: rand.New(rand.NewPCG(1, 0)), patterns: srv.Patterns()}
	r, err := sendHostileRequests(t.Context(), strings.TrimPrefix(web.URL, "http://"), a, 1500)
	if err != nil {
		t.Fatal(err)
	}
	if r.serverErrors+r.leaking+r.unfinished > 0 {
		t.Errorf("%d requests: %d unexplained 5xx, %d with internals, %d unfinished:\n%s", r.requests, r.serverErrors, r.leaking, r.unfinished, strings.Join(r.first, "\n"))
	}
	if r.statuses[200] < 100 || r.statuses[422] < 100 || r.statuses[404] < 50 {
		t.Errorf("too few kinds of responses: %v", r.statuses)
	}
	t.Log(r.statuses)
}
