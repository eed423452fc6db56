package httptool

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"agenthost/internal/tooltest"
	"agenthost/pkg/spec"
	"agenthost/pkg/tool"
)

func TestHTTPFailures(t *testing.T) {
	const missing = " has no value; if it is optional, write "
	tests := []struct {
		name, yaml string
		args       map[string]any
		answer     http.HandlerFunc
		want       string
	}{
		{"a status", "", nil, respondWith(404, "text/plain", "no such order\n"), "http tool it: 404 Not Found: no such order"},
		{"a status without text", "", nil, respondWith(503, "", ""), "http tool it: 503 Service Unavailable"},
		{
			"long text is truncated", "", nil, respondWith(500, "text/plain", strings.Repeat("é", 200)),
			"http tool it: 500 Internal Server Error: " + strings.Repeat("é", 100),
		},
		{
			"text in the charset that it declares", "", nil, respondWith(400, "text/plain; charset=iso-8859-1", "zu gro\xdf"),
			"http tool it: 400 Bad Request: zu groß",
		},
		{
			"too large", "max_response: 1KiB", nil, respondWith(200, "text/plain", strings.Repeat("x", 1025)),
			"http tool it: the response exceeds the limit of 1 KiB",
		},
		{
			"invalid JSON", "", nil, respondWith(200, "application/json", "<html>"),
			"http tool it: response declared as JSON but failed to parse: expected a value, got '<' at byte 0",
		},
		{
			"more after the JSON", "", nil, respondWith(200, "application/json", "{} {}"),
			"http tool it: response declared as JSON but failed to parse: expected the end of the text, got an object",
		},
		{"cut off", "", nil, cutOff, "http tool it: reading response: unexpected EOF"},
		{
			"result", "result: 1 / status - 1 / status + 1 / (status - 200)", nil, respondWith(200, "", ""),
			"http tool it: result: division by zero",
		},
		{
			"a step up", "url: \"HOST/a/{args.id?}\"",
			map[string]any{"id": ".."},
			nil,
			"http tool it: url: the path must not contain . or .. segments",
		},
		{
			"an empty part", "url: \"HOST/a/{args.id}\"\nmethod: DELETE",
			map[string]any{"id": ""},
			nil,
			"http tool it: url: args.id is empty",
		},
		{"no value in the path", "url: \"HOST/{args.id}\"", nil, nil, "http tool it: url: args.id" + missing + "{args.id?}"},
		{"no value in the url's query", "url: \"HOST?x={state.x}\"", nil, nil, "http tool it: url: state.x" + missing + "{state.x?}"},
		{"no value in the query", "query: {x: \"{tier}\"}", nil, nil, "http tool it: query x: tier" + missing + "{tier?}"},
		{"no value in a header", "headers: {X-A: \"a {user:x}\"}", nil, nil, "http tool it: header X-A: user:x" + missing + "{user:x?}"},
		{
			"no value in the body", "method: POST\nbody: {a: [\"{args.id}\"]}", nil, nil,
			"http tool it: body: args.id" + missing + "{args.id?}",
		},
		{
			"a line break in a header", "headers: {X-A: \"{args.id}\"}",
			map[string]any{"id": "a\r\nX-B: c"},
			nil,
			"http tool it: header X-A: the value contains a line break",
		},
		{
			"wrong arguments", "",
			map[string]any{"id": int64(1)},
			nil,
			"Invoking `it()` failed as the following input parameters are wrong:\nid: got number, want string\n" +
				"You could retry calling this tool with parameters that fit its declaration.",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			asked := false
			s := serve(t, func(w http.ResponseWriter, r *http.Request) {
				if asked = true; tt.answer != nil {
					tt.answer(w, r)
				}
			})
			yaml := tt.yaml
			if !strings.Contains(yaml, "url:") {
				yaml += "\nurl: HOST"
			}
			got, err := buildHTTP(t, s, "name: it\nparams: {id: \"string?\"}\n"+yaml).Run(t.Context(), tooltest.NewCall(tt.args, nil))
			if diff := cmp.Diff(tt.want, tooltest.ErrorString(err)); diff != "" || got != nil {
				t.Errorf("Run = %v, error (-want +got):\n%s", got, diff)
			}
			if asked != (tt.answer != nil) {
				t.Errorf("the server received: %v", asked)
			}
		})
	}
}

func respondWith(status int, kind, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		w.WriteHeader(status)
		io.WriteString(w, body)
	}
}

func cutOff(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Length", "10")
	io.WriteString(w, "half")
}

// TestHTTPConnectionRefused checks that the error does not contain the URL, which
// may contain a key.
func TestHTTPConnectionRefused(t *testing.T) {
	s := serve(t, echo)
	tool := buildHTTP(t, s, "name: it\nurl: HOST/x?key=s3cret\nheaders: {Authorization: Bearer s3cret}")
	s.Close()
	_, err := tool.Run(t.Context(), tooltest.NewCall(nil, nil))
	if !strings.HasSuffix(tooltest.ErrorString(err), "connection refused") || strings.Contains(tooltest.ErrorString(err), "s3cret") {
		t.Errorf("Run error = %v", err)
	}
}

// silence is a transport that never responds.
type silence struct{}

func (silence) RoundTrip(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

func TestHTTPTimeout(t *testing.T) {
	tests := []struct {
		name, yaml string
		outer      time.Duration
		want       string
		after      time.Duration
	}{
		{"its own", "timeout: 5s", time.Hour, "it: timed out after 5s", 5 * time.Second},
		{"the default", "", time.Hour, "it: timed out after 30s", 30 * time.Second},
		{"that of the run", "timeout: 1m", time.Second, "http tool it: context deadline exceeded", time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			k, _ := Kinds().Lookup("http")
			n, _ := spec.Parse("tool.yaml", []byte("name: it\nurl: https://a\n"+tt.yaml))
			plan, ds := k.Decode(n)
			if err := ds.Err(); err != nil {
				t.Fatal(err)
			}
			set, err := plan.Build(t.Context(), tool.Env{HTTP: &http.Client{Transport: silence{}}})
			if err != nil {
				t.Fatal(err)
			}
			tool := tooltest.OnlyTool(t, set)
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), tt.outer)
				defer cancel()
				start := time.Now()
				_, err := tool.Run(ctx, tooltest.NewCall(nil, nil))
				if tooltest.ErrorString(err) != tt.want || !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("Run error = %v, want %s", err, tt.want)
				}
				if got := time.Since(start); got != tt.after {
					t.Errorf("Run took %v, want %v", got, tt.after)
				}
			})
		})
	}
}
