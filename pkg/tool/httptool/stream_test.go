package httptool

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genai"

	"agenthost/internal/tooltest"
	"agenthost/pkg/tool"
	"agenthost/pkg/tool/builtin"
)

// TestHTTPStream: each event in an SSE or NDJSON response is a result. Comments, other fields and
// events for which result is null are skipped; secrets are redacted.
func TestHTTPStream(t *testing.T) {
	const yaml = "name: feed\nurl: HOST/feed\nstream: {}\n"
	tests := []struct{ name, yaml, contentType, body, want string }{
		{"SSE", "", "text/event-stream; charset=utf-8", ": ping\n\nevent: a\nid: 1\ndata: {\"n\": 1}\n\ndata: two\ndata:lines\r\n\r\ndata: {\"n\": 3}\n\n", `{"n":1} {"result":"two\nlines"} {"n":3}`},
		{"NDJSON", "", "application/x-ndjson", "{\"n\": 1}\n\n[2]\n\"three\"", `{"n":1} {"result":[2]} {"result":"three"}`},
		{"JSON sequence", "", "application/json-seq", "\x1e{\"n\": 1}\n\x1e{\"n\": 2}\n", `{"n":1} {"n":2}`},
		{"result", "result: 'body.n > 1 ? body.n : nil'\n", "application/x-ndjson", "{\"n\": 1}\n{\"n\": 2}\n", `{"result":2}`},
		{"secret", "", "text/event-stream", "data: my s3cret\n\n", `{"result":"my ***"}`},
		{"end without an empty line", "", "text/event-stream", "data: last", `{"result":"last"}`},
		{"nothing", "", "text/event-stream", "", ""},
		{"too large", "max_response: 10B\n", "application/x-ndjson", "{\"n\": 1}\n{\"n\": 22222222}\n", `{"n":1} error: http tool feed: an event exceeds the limit of 10 bytes`},
		{"too large in lines", "max_response: 10B\n", "text/event-stream", "data: 12345\ndata: 12345\n\n", `error: http tool feed: an event exceeds the limit of 10 bytes`},
		{"JSON", "", "application/json", "{}", `error: http tool feed: the response must be a stream: its content type is "application/json", want text/event-stream or application/x-ndjson`},
		{"status", "", "500", "no s3cret", "error: http tool feed: 500 Internal Server Error: no ***"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := serve(t, func(w http.ResponseWriter, r *http.Request) {
				if tt.contentType == "500" {
					w.WriteHeader(http.StatusInternalServerError)
				}
				w.Header().Set("Content-Type", tt.contentType)
				fmt.Fprint(w, tt.body)
			})
			feed := buildHTTP(t, s, yaml+tt.yaml).(*httpTool)
			feed.exchange = feed.exchange.WithSecrets("s3cret")
			var got []string
			for result, err := range feed.Stream(t.Context(), tooltest.NewCall(nil, nil)) {
				if err != nil {
					got = append(got, "error: "+err.Error())
					continue
				}
				got = append(got, toJSON(t, result.Response))
			}
			if diff := cmp.Diff(tt.want, strings.Join(got, " ")); diff != "" {
				t.Errorf("results (-want +got):\n%s", diff)
			}
		})
	}
}

// TestHTTPStreamOnce: in runs that are not live, the first event is the result.
func TestHTTPStreamOnce(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		if r.URL.Path == "/full" {
			fmt.Fprint(w, "data: one\n\n")
			w.(http.Flusher).Flush()
			<-r.Context().Done() // the tool does not wait for the end
		}
	})
	got, err := buildHTTP(t, s, "name: feed\nurl: HOST/full\nstream: {}\n").Run(t.Context(), tooltest.NewCall(nil, nil))
	if err != nil || toJSON(t, got.Response) != `{"result":"one"}` {
		t.Errorf("got %v, %v", got, err)
	}
	if _, err = buildHTTP(t, s, "name: feed\nurl: HOST/empty\nstream: {}\n").Run(t.Context(), tooltest.NewCall(nil, nil)); err == nil ||
		err.Error() != "http tool feed: the response ended without an event" {
		t.Errorf("error %v", err)
	}
}

// TestHTTPStreamTimeout: the timeout bounds the time until the response begins.
func TestHTTPStreamTimeout(t *testing.T) {
	s := serve(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	feed := buildHTTP(t, s, "name: feed\nurl: HOST/feed\ntimeout: 10ms\nstream: {}\n").(tool.Streamer)
	for _, err := range feed.Stream(t.Context(), tooltest.NewCall(nil, nil)) {
		if err == nil || err.Error() != "http tool feed: feed: timed out after 10ms" {
			t.Errorf("error %v", err)
		}
	}
}

// TestStreamMedia: a tool that watches the user has what it receives as the variable media.
func TestStreamMedia(t *testing.T) {
	call := tooltest.NewCall(nil, map[string]any{"media": map[string]any{"data": "state"}})
	call.Media = testImage()
	const stream = "stream: {every: 2s, watch: video}\n"
	got, err := tooltest.MustBuildTool(t, builtin.Kinds(), "expr", "name: look\n"+stream+"value: media.mime_type + ' ' + media.data\n").Run(t.Context(), call)
	if err != nil || toJSON(t, got.Response) != `{"result":"image/jpeg AQI="}` {
		t.Errorf("expr: %v, %v", got, err)
	}
	s := serve(t, echo)
	look := buildHTTP(t, s, "name: look\nmethod: POST\nurl: HOST/look\nbody: {image: \"{media.data}\"}\n"+stream)
	if got, err = look.Run(t.Context(), call); err != nil || !strings.HasSuffix(got.Response["result"].(string), `{"image":"AQI="}`) {
		t.Errorf("http: %v, %v", got, err)
	}
	call.Media = nil
	if got, err = look.Run(t.Context(), call); err != nil || !strings.HasSuffix(got.Response["result"].(string), `{"image":"state"}`) {
		t.Errorf("http without media: %v, %v", got, err)
	}
}

func toJSON(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func testImage() *genai.Blob { return &genai.Blob{MIMEType: "image/jpeg", Data: []byte{1, 2}} }
