package mcptool

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// A floodServer answers over streams, and accepts no response to its own requests until it is
// closed.
type floodServer struct {
	*httptest.Server
	// call writes the stream that answers a call, and stream the one that belongs to no request.
	call, stream func(w http.ResponseWriter, id json.RawMessage)
	header       http.Header
	// waiting is how many client responses are not accepted, and most is their maximum.
	waiting, most, streams atomic.Int32
	stopped                chan struct{}
}

func serveFlood(t *testing.T) *floodServer {
	s := &floodServer{stopped: make(chan struct{}), header: http.Header{}}
	s.Server = httptest.NewServer(s)
	t.Cleanup(func() {
		close(s.stopped)
		s.Close()
	})
	return s
}

func (s *floodServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var req struct {
		ID     json.RawMessage
		Method string
	}
	raw, _ := io.ReadAll(r.Body)
	_ = json.Unmarshal(raw, &req)
	for name, values := range s.header {
		w.Header()[name] = values
	}
	switch {
	case r.Method == http.MethodGet && s.stream != nil:
		s.streams.Add(1)
		w.Header().Set("Content-Type", "text/event-stream")
		s.stream(w, nil)
	case r.Method != http.MethodPost:
		w.WriteHeader(http.StatusMethodNotAllowed)
	case req.Method == "" && len(raw) > 0:
		s.most.Store(max(s.most.Load(), s.waiting.Add(1)))
		defer s.waiting.Add(-1)
		select {
		case <-s.stopped:
		case <-r.Context().Done():
		}
	case len(req.ID) == 0:
		w.WriteHeader(http.StatusAccepted)
	default:
		w.Header().Set("Content-Type", "text/event-stream")
		switch req.Method {
		case "initialize":
			writeResult(w, req.ID, `{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"flood","version":"1"}}`)
		case "tools/list":
			writeResult(w, req.ID, anyTool)
		case discoverMethod:
			fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"error\":{\"code\":-32601,\"message\":\"unknown method\"}}\n\n", req.ID)
		default:
			s.call(w, req.ID)
		}
	}
}

func writeResult(w http.ResponseWriter, id json.RawMessage, result string) {
	fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":%s}\n\n", id, result)
	_ = http.NewResponseController(w).Flush()
}

func writePings(w http.ResponseWriter, count int) {
	for i := range count {
		if _, err := fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":\"ping-%d\",\"method\":\"ping\"}\n\n", i); err != nil {
			return
		}
	}
	_ = http.NewResponseController(w).Flush()
}

const done = `{"content":[{"type":"text","text":"done"}]}`

// TestServerRequests: a server that does not accept the responses to its own requests loses its
// connection when it has more than 16, and the call names the limit. Closing does not wait for
// the server.
func TestServerRequests(t *testing.T) {
	s := serveFlood(t)
	s.call = func(w http.ResponseWriter, id json.RawMessage) {
		writePings(w, 2000)
		writeResult(w, id, done)
	}
	set := buildSet(t, "mcp", "url: "+s.URL)
	_, err := callOf(t, set, "t", nil)
	want := "MCP tool execution failed: mcp server " + strings.TrimPrefix(s.URL, "http://") + " (root_agent.yaml:1:6): the connection was closed: the server has more than 16 requests without a response"
	if errText(err) != want {
		t.Errorf("t: %s\nwant %s", errText(err), want)
	}
	if err := set.(io.Closer).Close(); err != nil {
		t.Error(err)
	}
	if most := s.most.Load(); most > maxServerRequests {
		t.Errorf("%d responses waited, want at most %d", most, maxServerRequests)
	}
}

// TestServerRequestsOfLibrary is the control of TestServerRequests: the library alone answers each
// request in its own goroutine and HTTP request.
func TestServerRequestsOfLibrary(t *testing.T) {
	s := serveFlood(t)
	const count = 200
	s.call = func(w http.ResponseWriter, id json.RawMessage) {
		writePings(w, count)
		for s.waiting.Load() < count {
			if _, err := fmt.Fprint(w, ": wait\n"); err != nil {
				return
			}
			_ = http.NewResponseController(w).Flush()
		}
		writeResult(w, id, done)
	}
	client := mcp.NewClient(&mcp.Implementation{Name: "library", Version: "1"}, nil)
	transport := &http.Transport{}
	way := &mcp.StreamableClientTransport{Endpoint: s.URL, DisableStandaloneSSE: true, HTTPClient: &http.Client{Transport: transport}}
	ctx, cancel := context.WithCancel(t.Context())
	session, err := client.Connect(ctx, way, &mcp.ClientSessionOptions{ProtocolVersion: sessionVersion})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "t"}); err != nil {
		t.Error(err)
	}
	if most := s.most.Load(); most < count {
		t.Errorf("%d responses waited, want %d", most, count)
	}
	s.CloseClientConnections()
	cancel()
	_ = session.Close()
	transport.CloseIdleConnections()
}

// TestServerRequestsBetweenCalls: the same holds on the stream that belongs to no request. The
// next call opens another connection.
func TestServerRequestsBetweenCalls(t *testing.T) {
	s := serveFlood(t)
	begin := make(chan struct{})
	s.stream = func(w http.ResponseWriter, _ json.RawMessage) {
		_ = http.NewResponseController(w).Flush()
		if s.streams.Load() == 1 {
			<-begin
			writePings(w, 2000)
		}
		<-s.stopped
	}
	s.call = func(w http.ResponseWriter, id json.RawMessage) { writeResult(w, id, done) }
	set := buildSet(t, "mcp", "url: "+s.URL+"\nlist_cache: 10m")
	tools, err := set.Tools(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	l := onlyLink(t, set)
	l.lock <- struct{}{}
	conn := l.conn
	l.releaseLock()
	close(begin)
	<-conn.closed
	if got := errText(conn.findFault()); got != "the connection was closed: the server has more than 16 requests without a response" {
		t.Errorf("fault = %s", got)
	}
	if most := s.most.Load(); most > maxServerRequests {
		t.Errorf("%d responses waited", most)
	}
	if len(tools) != 1 {
		t.Errorf("%d tools", len(tools))
	}
	if _, err := callOf(t, set, "t", nil); err != nil {
		t.Errorf("the next call: %v", err)
	}
}

// TestServerRequestsOfProgram: the same holds for a program that reads no response.
func TestServerRequestsOfProgram(t *testing.T) {
	_, err := callOf(t, buildSet(t, "mcp", self("pings")), "t", nil)
	if text := errText(err); !strings.HasSuffix(text, "the connection was closed: the server has more than 16 requests without a response") {
		t.Errorf("t: %s", text)
	}
}

// TestStreamBounds: a response over a stream has limits: on a message, on its values, on all that
// is sent until the result, also compressed, and on its headers.
func TestStreamBounds(t *testing.T) {
	chunk := strings.Repeat("x", 1<<20)
	for _, tt := range []struct {
		name string
		call func(w http.ResponseWriter, id json.RawMessage)
		want string
	}{
		{"a long line", func(w http.ResponseWriter, id json.RawMessage) {
			fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":\"", id)
			for range 17 {
				fmt.Fprint(w, chunk)
			}
			fmt.Fprint(w, "\"}\n\n")
		}, "the server's response cannot be read: it exceeds the limit of 16 MiB"},
		{"many lines", func(w http.ResponseWriter, id json.RawMessage) {
			fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":[\n", id)
			for range 17 << 10 {
				fmt.Fprintf(w, "data: \"%s\",\n", chunk[:1<<10])
			}
			fmt.Fprint(w, "data: 0]}\n\n")
		}, "the server's response cannot be read: it exceeds the limit of 16 MiB"},
		{"many values", func(w http.ResponseWriter, id json.RawMessage) {
			writeResult(w, id, `{"content":[],"structuredContent":{"k":[0`+strings.Repeat(",{}", 300_000)+`]}}`)
		}, "the server's response cannot be read: MCP message exceeds the limit of 250000 values"},
		{"an endless stream", func(w http.ResponseWriter, _ json.RawMessage) {
			for i := 0; ; i++ {
				if _, err := fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progressToken\":\"x\",\"progress\":%d}}\n\n: %s\n", i, chunk); err != nil {
					return
				}
			}
		}, "the connection was closed: the response to a request exceeds the limit of 64 MiB"},
		{"an endless compressed stream", func(w http.ResponseWriter, _ json.RawMessage) {
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			for {
				if _, err := fmt.Fprint(z, ": "+chunk+"\n"); err != nil {
					return
				}
			}
		}, "the connection was closed: the response to a request exceeds the limit of 64 MiB"},
		{"large headers", func(w http.ResponseWriter, id json.RawMessage) {
			w.Header().Set("Mcp-Session-Id", chunk[:65<<10])
			writeResult(w, id, done)
		}, "the connection was closed: the headers of a response exceed the limit of 64 KiB"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := serveFlood(t)
			s.call = tt.call
			_, err := callOf(t, buildSet(t, "mcp", "url: "+s.URL), "t", nil)
			if text := errText(err); !strings.HasPrefix(text, callFailed) || !strings.HasSuffix(text, tt.want) {
				t.Errorf("t: %.300s\nwant %s", text, tt.want)
			}
		})
	}
}

// TestQuotasGrowWithTime: the stream that belongs to no request, and how often it is opened, are
// limited by the time that passes.
func TestQuotasGrowWithTime(t *testing.T) {
	now := time.Unix(0, 0)
	var ended []string
	g := newGuard(t.Context(), func(err error) { ended = append(ended, err.Error()) }, func() time.Time { return now })
	for range 1000 {
		if g.chargeStream(streamRate) != nil || g.chargeReopened() != nil {
			t.Fatalf("after %s: %s", now.Sub(time.Unix(0, 0)), ended)
		}
		now = now.Add(reopenTime)
	}
	for range maxReopened + 1 {
		_ = g.chargeReopened()
	}
	if g.chargeStream(maxStreamBytes+1) == nil {
		t.Error("the stream has no limit")
	}
	want := "the connection was closed: the server has ended its streams more than 30 times\nthe connection was closed: the server sends more than 256 KiB each second without a request"
	if got := strings.Join(ended, "\n"); got != want {
		t.Errorf("errors:\n%s\nwant:\n%s", got, want)
	}
}

// TestUselessMessages: notifications without a handler, requests that repeat an id that is in use,
// and responses to no request are left out before the library reads them.
func TestUselessMessages(t *testing.T) {
	f := newTestFilter(io.Discard)
	for raw, kept := range map[string]bool{
		`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"debug","data":"x"}}`: false,
		`{"jsonrpc":"2.0","method":"notifications/resources/updated"}`:                             false,
		`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`:                            true,
		`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"x"}}`:       true,
		`{"jsonrpc":"2.0","id":1,"method":"ping"}`:                                                 true,
		`{"jsonrpc":"2.0","id":9,"result":{}}`:                                                     false,
	} {
		if got := f.repairMessages([]byte(raw), ""); (len(got) == 1) != kept {
			t.Errorf("%s: %d messages", raw, len(got))
		}
	}
	if got := f.repairMessages([]byte(`{"jsonrpc":"2.0","id":1,"method":"ping"}`), ""); len(got) != 0 {
		t.Error("the id 1 is in use")
	}
	_, response := f.recordMessage([]byte(`{"jsonrpc":"2.0","id":1,"result":{}}`))
	f.guard.closeRequest(response)
	if got := f.repairMessages([]byte(`{"jsonrpc":"2.0","id":1,"method":"ping"}`), ""); len(got) != 1 {
		t.Error("the id 1 is free")
	}
}
