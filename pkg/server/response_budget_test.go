package server_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"agenthost/pkg/server"
	"agenthost/pkg/session"
	"agenthost/pkg/store"
)

// Clients that request the same large session and do not read the response share one
// buffer.
func TestStalledReadersShareResponse(t *testing.T) {
	const size, readers = 8 << 20, 50
	e := newEnvWith(t, "memory:", &store.Options{MaxStateBytes: 32 << 20}, &server.Options{MaxResponseBytes: 4 * (size + 1<<20)})
	key := session.Key{App: "large", User: "u", ID: "s"}
	if _, err := e.store.Sessions.Create(t.Context(), key, map[string]any{"k": strings.Repeat("x", size)}); err != nil {
		t.Fatal(err)
	}
	if _, err := e.store.Sessions.Create(t.Context(), session.Key{App: "large", User: "u", ID: "t"}, map[string]any{"k": strings.Repeat("y", size)}); err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(e.server)
	defer srv.Close()
	before := heapBytes()
	for range readers {
		conn, err := net.Dial("tcp", srv.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		fmt.Fprint(conn, "GET /apps/large/users/u/sessions/s HTTP/1.1\r\nHost: x\r\n\r\n")
		if _, err := io.ReadFull(conn, make([]byte, 64)); err != nil { // the response has started
			t.Fatal(err)
		}
	}
	if more := heapBytes() - before; more > 3*size {
		t.Errorf("%d stalled readers hold %d MiB, want at most %d", readers, more>>20, 3*size>>20)
	}

	// A second large session exceeds the user's share; small responses are still sent.
	resp, err := srv.Client().Get(srv.URL + "/apps/large/users/u/sessions/t")
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(resp.Body)
	resp.Body.Close()
	want := `{"detail":"too many large responses in progress, retry later"}`
	if resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") != "5" || string(body) != want {
		t.Errorf("GET = %d, Retry-After %q, %.100s, want 503, 5, %s", resp.StatusCode, resp.Header.Get("Retry-After"), body, want)
	}
	resp, err = srv.Client().Get(srv.URL + "/version")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("GET /version = %d", resp.StatusCode)
	}
}

// heapBytes returns the allocated heap after a garbage collection.
func heapBytes() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
