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

// newObservedServer starts a server. The channel is closed after the given number of
// connections has been closed.
func newObservedServer(t *testing.T, e *env, connections int) (srv *httptest.Server, closed chan struct{}) {
	t.Helper()
	closed = make(chan struct{})
	srv = httptest.NewUnstartedServer(e.server)
	stateClosed := make(chan struct{}, connections)
	srv.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateClosed {
			stateClosed <- struct{}{}
		}
	}
	go func() {
		for range connections {
			<-stateClosed
		}
		close(closed)
	}()
	srv.Start()
	t.Cleanup(srv.Close)
	return srv, closed
}

// A promised body that does not arrive holds a connection no longer than
// Options.ReadTimeout, for any path and response.
func TestMissingRequestBody(t *testing.T) {
	opts := &server.Options{ReadTimeout: 50 * time.Millisecond, Dev: true, Folders: &watchedFolders{}}
	e := newEnv(t, opts)
	requests := []string{
		"GET /health", "GET /unknown", "PUT /run", "POST /run", "DELETE /apps/a/users/u/sessions/s", "POST /-/reload",
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

// A client that does not read holds its connection no longer than Options.WriteTimeout,
// for one large response or many small ones.
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

// A client that reads slowly but steadily receives a large response completely, even if
// that takes longer than Options.WriteTimeout.
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
	// A small receive buffer makes the server wait for the client.
	if err := conn.(*net.TCPConn).SetReadBuffer(64 << 10); err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(conn, "GET /apps/large/users/u/sessions/s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
	each := time.NewTicker(timeout / 30)
	defer each.Stop()
	began, n := time.Now(), 0
	for chunk := make([]byte, 256<<10); err == nil; <-each.C {
		var read int
		read, err = io.ReadFull(conn, chunk)
		n += read
	}
	if took := time.Since(began); n < size || took < 2*timeout {
		t.Errorf("received %d bytes in %s, then %v; want the complete session in more than %s", n, took, err, 2*timeout)
	}
}
