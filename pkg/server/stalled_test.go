package server_test

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"agenthost/pkg/server"
	"agenthost/pkg/session"
	"agenthost/pkg/store"
)

// newObservedServer is a server on this machine, and what closes when it has closed so many
// connections.
func newObservedServer(t *testing.T, e *env, connections int) (srv *httptest.Server, closed chan struct{}) {
	t.Helper()
	closed = make(chan struct{})
	srv = httptest.NewUnstartedServer(e.server)
	left := make(chan struct{}, connections)
	srv.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateClosed {
			left <- struct{}{}
		}
	}
	go func() {
		for range connections {
			<-left
		}
		close(closed)
	}()
	srv.Start()
	t.Cleanup(srv.Close)
	return srv, closed
}

// TestMissingRequestBody: whatever the path and the answer, and whether anybody
// reads it, a body that is promised and does not come holds a connection no longer
// than Options.ReadTimeout.
func TestMissingRequestBody(t *testing.T) {
	opts := &server.Options{ReadTimeout: 50 * time.Millisecond, Dev: true, Folders: &watchedFolders{}}
	e := newEnv(t, opts)
	requests := []string{
		"GET /health", "GET /nowhere", "PUT /run", "POST /run", "DELETE /apps/a/users/u/sessions/s", "POST /-/reload",
		"POST /builder/save HTTP/1.1\r\nContent-Type: multipart/form-data; boundary=x",
	}
	srv, closed := newObservedServer(t, e, len(requests))
	for _, request := range requests {
		if !strings.Contains(request, "HTTP/1.1") {
			request += " HTTP/1.1"
		}
		conn, err := net.Dial("tcp", srv.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		fmt.Fprintf(conn, "%s\r\nHost: x\r\nContent-Length: 10\r\n\r\n{", request)
		if answer, err := io.ReadAll(conn); err != nil || !bytes.HasPrefix(answer, []byte("HTTP/1.1 ")) {
			t.Errorf("%s = %q, %v, want an answer", request, answer, err)
		}
	}
	<-closed
}

// TestUnreadResponse: a client that asks and does not read holds its
// connection no longer than Options.WriteTimeout, be it one large answer or many
// small ones.
func TestUnreadResponse(t *testing.T) {
	e := newEnvWith(t, "memory:", &store.Options{MaxStateBytes: 32 << 20}, &server.Options{WriteTimeout: 50 * time.Millisecond})
	key := session.Key{App: "large", User: "u", ID: "s"}
	if _, err := e.store.Sessions.Create(t.Context(), key, map[string]any{"k": strings.Repeat("x", 16<<20)}); err != nil {
		t.Fatal(err)
	}
	srv, closed := newObservedServer(t, e, 2)
	for _, requests := range []string{
		"GET /apps/large/users/u/sessions/s HTTP/1.1\r\nHost: x\r\n\r\n",
		strings.Repeat("GET /version HTTP/1.1\r\nHost: x\r\n\r\n", 100_000),
	} {
		conn, err := net.Dial("tcp", srv.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		go func() { _, _ = io.WriteString(conn, requests) }()
	}
	<-closed
}

// TestSlowReader: a client that reads all the while gets a large
// answer whole, though that takes longer than Options.WriteTimeout.
func TestSlowReader(t *testing.T) {
	const timeout, size = 300 * time.Millisecond, 24 << 20
	e := newEnvWith(t, "memory:", &store.Options{MaxStateBytes: 32 << 20}, &server.Options{WriteTimeout: timeout})
	key := session.Key{App: "large", User: "u", ID: "s"}
	if _, err := e.store.Sessions.Create(t.Context(), key, map[string]any{"k": strings.Repeat("x", size)}); err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(e.server)
	defer srv.Close()
	conn, err := net.Dial("tcp", srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	// With a small buffer, what the system holds for the client is soon read.
	if err := conn.(*net.TCPConn).SetReadBuffer(64 << 10); err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(conn, "GET /apps/large/users/u/sessions/s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
	each := time.NewTicker(timeout / 30)
	defer each.Stop()
	began, n := time.Now(), 0
	for piece := make([]byte, 256<<10); err == nil; <-each.C {
		var more int
		more, err = io.ReadFull(conn, piece)
		n += more
	}
	if took := time.Since(began); n < size || took < 2*timeout {
		t.Errorf("%d bytes came in %s, then %v; want all of the session, in more than %s", n, took, err, 2*timeout)
	}
}
