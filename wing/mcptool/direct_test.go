package mcptool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agenthost/pkg/tool"
)

// serveCalls serves a stateless server's tool t, whose calls answer handles. write replaces
// ID with the request's.
func serveCalls(t testing.TB, answer func(r *http.Request, w http.ResponseWriter, write func(text string))) *rawServer {
	s := serveRaw(t)
	s.answer(discoverMethod, `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}`)
	s.answer("tools/list", anyTool)
	inner := s.Config.Handler
	s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Mcp-Method") != callMethod {
			inner.ServeHTTP(w, r)
			return
		}
		var call struct{ ID json.RawMessage }
		raw, _ := io.ReadAll(r.Body)
		_ = json.Unmarshal(raw, &call)
		answer(r, w, func(text string) { fmt.Fprint(w, strings.ReplaceAll(text, "ID", string(call.ID))) })
	})
	return s
}

// TestDirectCall: a call of a stateless server is one HTTP request. Its response is whatever comes
// back for it, and each failure names its cause.
func TestDirectCall(t *testing.T) {
	const (
		events   = "text/event-stream"
		response = `{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"done"}]}}`
		result   = `{"content":[{"text":"done","type":"text"}],"isError":false}`
		lost     = "MCP tool execution failed: the connection to HOST closed during the call; the call may have been executed"
		request  = `data: {"jsonrpc":"2.0","id":"NUMBER","method":"roots/list"}` + "\n\n"
	)
	var requests strings.Builder
	for i := range maxServerRequests + 1 {
		requests.WriteString(strings.ReplaceAll(request, "NUMBER", fmt.Sprint("r", i)))
	}
	for _, tt := range []struct {
		name, contentType string
		status            int
		body, want        string
	}{
		{"JSON", "application/json", 200, response, result},
		{"a stream", events, 200, "data: " + response + "\n\n", result},
		{"another id", "application/json", 200, `{"jsonrpc":"2.0","id":99,"result":{"content":[]}}`, `{"content":[],"isError":false}`},
		{"a request in the stream", events, 200, request + "data: " + response + "\n\n", result},
		{"a notification after the response", events, 200, "data: " + response + "\n\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\"}\n\n", result},
		{"an error", "application/json", 200, `{"jsonrpc":"2.0","id":ID,"error":{"code":-32602,"message":"no such order"}}`, "MCP tool execution failed: no such order"},
		{"an error with a status", "application/json", 400, `{"jsonrpc":"2.0","id":ID,"error":{"code":-32602,"message":"no such order"}}`, "MCP tool execution failed: no such order"},
		{"a gateway's error", "application/json", 503, `{"jsonrpc":"2.0","id":ID,"error":{"code":-32602,"message":"no such order"}}`, lost},
		{"another status", "text/plain", 500, "oh", lost},
		{"no content", "", 202, "", lost},
		{"an empty body", "application/json", 200, "", "MCP tool execution failed: the server answered, but the server's response cannot be read: it is not valid JSON: unexpected end of JSON input"},
		{"a stream that ends", events, 200, ": hello\n\n", lost},
		{"an event that ends", events, 200, "data: " + response, lost},
		{"requests without end", events, 200, requests.String(), "MCP tool execution failed: HOST: the connection was closed: the server has more than 16 requests without a response"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := serveCalls(t, func(_ *http.Request, w http.ResponseWriter, write func(string)) {
				w.Header().Set("Content-Type", tt.contentType)
				w.WriteHeader(tt.status)
				write(tt.body)
			})
			got, err := callOf(t, buildSet(t, "mcp", "url: "+s.URL), "t", nil)
			text := errText(err)
			if err == nil {
				raw, _ := json.Marshal(got)
				text = string(raw)
			}
			want := strings.ReplaceAll(tt.want, "HOST", "mcp server "+strings.TrimPrefix(s.URL, "http://")+" (root_agent.yaml:1:6)")
			if diff := cmp.Diff(want, text); diff != "" {
				t.Errorf("call (-want +got):\n%s", diff)
			}
		})
	}
}

// TestCancelDirectCall: a call that is canceled closes its HTTP request, which the server sees.
func TestCancelDirectCall(t *testing.T) {
	for _, began := range []string{"before the headers", "in the stream"} {
		t.Run(began, func(t *testing.T) {
			started, ended := make(chan struct{}), make(chan struct{})
			s := serveCalls(t, func(r *http.Request, w http.ResponseWriter, _ func(string)) {
				if began == "in the stream" {
					w.Header().Set("Content-Type", "text/event-stream")
					_ = http.NewResponseController(w).Flush()
				}
				close(started)
				<-r.Context().Done()
				close(ended)
			})
			tools, err := buildSet(t, "mcp", "url: "+s.URL).Tools(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				<-started
				cancel()
			}()
			if _, err := tools[0].Run(ctx, &tool.Call{}); !errors.Is(err, context.Canceled) {
				t.Errorf("call: %v", err)
			}
			<-ended
		})
	}
}
