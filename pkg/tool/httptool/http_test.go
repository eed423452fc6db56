package httptool

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agenthost/internal/tooltest"
	"agenthost/pkg/tool"
)

// serve starts a server whose URL replaces HOST in a document.
func serve(t *testing.T, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		s.Close()
	})
	return s
}

func buildHTTP(t *testing.T, s *httptest.Server, yaml string) tool.Tool {
	t.Helper()
	return tooltest.MustBuildTool(t, Kinds(), "http", strings.ReplaceAll(yaml, "HOST", s.URL))
}

// echo responds with the request.
func echo(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	w.Header().Set("Content-Type", "text/plain")
	fmt.Fprintf(w, "%s %s\n", r.Method, r.RequestURI)
	for _, name := range []string{"Authorization", "Content-Type", "Idempotency-Key", "User-Agent", "X-Lang", "X-Note"} {
		if v := r.Header.Values(name); len(v) > 0 {
			fmt.Fprintf(w, "%s: %s\n", name, strings.Join(v, " | "))
		}
	}
	if r.Host == "crm.local" {
		fmt.Fprintf(w, "Host: %s\n", r.Host)
	}
	if len(body) > 0 {
		fmt.Fprintf(w, "\n%s", body)
	}
}

func TestHTTPRequest(t *testing.T) {
	s := serve(t, echo)
	state := map[string]any{"tier": "gold", "user:name": "Ana B", "cart": map[string]any{"id": int64(7)}}
	args := map[string]any{
		"id": "a/b c", "n": int64(9007199254740993), "tags": []any{"x", "y z"}, "who": map[string]any{"name": "Bo"}, "on": true,
	}
	const params = "params: {id: string, n: integer, tags: [string], who: {name: string}, on: boolean, note: \"string?\"}\n"
	const json = "Content-Type: application/json\nIdempotency-Key: inv-1/call-1\nUser-Agent: agenthost\n\n"
	tests := []struct{ name, yaml, want string }{
		{"GET sends nothing but the address", "url: HOST/orders", "GET /orders\nUser-Agent: agenthost\n"},
		{"no path", "url: HOST", "GET /\nUser-Agent: agenthost\n"},
		{
			"values keep to their path segment", "url: \"HOST/orders/{args.id}/{state.cart.id}/{user:name}\"",
			"GET /orders/a%2Fb%20c/7/Ana%20B\nUser-Agent: agenthost\n",
		},
		{
			"values keep to their query parameter", "url: \"HOST/o?x={args.id}&y={user:name?}&z={state.none?}\"",
			"GET /o?x=a%2Fb+c&y=Ana+B&z=\nUser-Agent: agenthost\n",
		},
		{
			"query is added, lists many times, the optional left out",
			"url: HOST/o?v=1\nquery: {t: \"{args.tags}\", n: \"{args.n}\", note: \"{args.note?}\", limit: 10, on: \"{args.on}\"}",
			"GET /o?v=1&limit=10&n=9007199254740993&on=true&t=x&t=y+z\nUser-Agent: agenthost\n",
		},
		{
			"headers", "url: HOST/o\nheaders: {Authorization: Bearer s3cret, X-Lang: \"{user:name}\", X-Note: \"{args.note?}\", Host: crm.local}",
			"GET /o\nAuthorization: Bearer s3cret\nUser-Agent: agenthost\nX-Lang: Ana B\nHost: crm.local\n",
		},
		{
			"a number in a header", "url: HOST/o\nheaders: {X-Lang: \"{args.n}\"}",
			"GET /o\nUser-Agent: agenthost\nX-Lang: 9007199254740993\n",
		},
		{
			"POST sends the arguments that the url does not use",
			"method: POST\nurl: \"HOST/o/{args.id}\"\nquery: {w: \"{args.who.name}\"}",
			"POST /o/a%2Fb%20c?w=Bo\n" + json + `{"n":9007199254740993,"on":true,"tags":["x","y z"]}`,
		},
		{"PUT without arguments sends an empty object", "method: PUT\nurl: HOST/o\nbody: {}", "PUT /o\n" + json + `{}`},
		{
			"DELETE sends no body, but the key", "method: DELETE\nurl: \"HOST/o/{args.n}\"",
			"DELETE /o/9007199254740993\nIdempotency-Key: inv-1/call-1\nUser-Agent: agenthost\n",
		},
		{
			"a body keeps types and leaves out the optional",
			"method: PATCH\nurl: HOST/o\nbody: {n: \"{args.n}\", list: [\"{args.on}\", \"{args.note?}\", 1.5, null], text: \"n={args.n}\", note: \"{args.note?}\", all: \"{args.who}\"}",
			"PATCH /o\n" + json + `{"all":{"name":"Bo"},"list":[true,1.5,null],"n":9007199254740993,"text":"n=9007199254740993"}`,
		},
		{
			"string body is sent as text", "method: POST\nurl: HOST/o\nbody: \"Dear {user:name}\"\nheaders: {Idempotency-Key: mine}",
			"POST /o\nContent-Type: text/plain; charset=utf-8\nIdempotency-Key: mine\nUser-Agent: agenthost\n\nDear Ana B",
		},
		{
			"all arguments as the body", "method: POST\nurl: HOST/o\nbody: \"{args}\"\nheaders: {Content-Type: application/vnd.api+json}",
			"POST /o\nContent-Type: application/vnd.api+json\nIdempotency-Key: inv-1/call-1\nUser-Agent: agenthost\n\n" +
				`{"id":"a/b c","n":9007199254740993,"on":true,"tags":["x","y z"],"who":{"name":"Bo"}}`,
		},
		{
			"an optional body that has no value", "method: POST\nurl: HOST/o\nbody: \"{args.note?}\"",
			"POST /o\nIdempotency-Key: inv-1/call-1\nUser-Agent: agenthost\n",
		},
		{
			"a url that ends in its query", "url: HOST/o?\nquery: {a: 1}", "GET /o?a=1\nUser-Agent: agenthost\n",
		},
		{
			"who and where", "url: \"HOST/{session.id}/{session.user_id}/{session.app}/{invocation.id}/{agent}/{tier}?u={user}\"",
			"GET /s1/ana/shop/inv-1/clerk/gold?u=hello\nUser-Agent: agenthost\n",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := buildHTTP(t, s, "name: it\n"+params+tt.yaml).Run(t.Context(), tooltest.NewCall(args, state))
			if err != nil {
				t.Fatalf("Run: %v", err)
			}
			if diff := cmp.Diff(map[string]any{"result": tt.want}, got.Response); diff != "" {
				t.Errorf("request (-want +got):\n%s", diff)
			}
		})
	}
}

func TestHTTPReply(t *testing.T) {
	tests := []struct {
		name, kind, body, yaml string
		want                   map[string]any
	}{
		{"an object", "application/json", `{"id": 9007199254740993, "x": 1.5}`, "", map[string]any{"id": int64(9007199254740993), "x": 1.5}},
		{"other JSON", "application/json; charset=utf-8", `[1]`, "", map[string]any{"result": []any{int64(1)}}},
		{"JSON of a kind", "application/problem+json", `{"a":null}`, "", map[string]any{"a": nil}},
		{"JSON with another content type", "text/html", `{"a":1}`, "", map[string]any{"a": int64(1)}},
		{"text", "text/plain", "12", "", map[string]any{"result": "12"}},
		{"text that begins like JSON", "text/plain", "[draft] hello", "", map[string]any{"result": "[draft] hello"}},
		{"text in an old encoding", "text/plain", "ol\xe1", "", map[string]any{"result": "ol\uFFFD"}},
		{"text in the charset that it declares", "text/plain; charset=iso-8859-1", "Gr\xfc\xdfe", "", map[string]any{"result": "Grüße"}},
		{"text in UTF-16", "text/plain", "\xff\xfeG\x00\xfc\x00", "", map[string]any{"result": "Gü"}},
		{"a byte order mark of text", "text/csv", "\xef\xbb\xbfa,b", "", map[string]any{"result": "a,b"}},
		{"a byte order mark of JSON", "application/json", "\xef\xbb\xbf{\"a\":1}", "", map[string]any{"a": int64(1)}},
		{"JSON in UTF-16", "application/json", "{\x00}\x00", "", map[string]any{}},
		{"JSON in the charset that it declares", "application/json; charset=latin1", "{\"a\":\"\xfc\"}", "", map[string]any{"a": "ü"}},
		{"JSON with a mark and another content type", "text/html", "\xef\xbb\xbf{\"a\":1}", "", map[string]any{"a": int64(1)}},
		{"a mark alone", "text/plain", "\xef\xbb\xbf", "", map[string]any{"result": ""}},
		{"nothing", "", "", "", map[string]any{"result": nil}},
		{"a member", "application/json", `{"id":"R1"}`, "result: body.id", map[string]any{"result": "R1"}},
		{"a missing member", "application/json", `{}`, "result: body.id", map[string]any{"result": nil}},
		{
			"status and headers", "text/plain", "hi", `result: '{s: status, t: headers["content-type"], b: upper(body)}'`,
			map[string]any{"s": int64(201), "t": "text/plain", "b": "HI"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := serve(t, func(w http.ResponseWriter, r *http.Request) {
				w.Header()["Content-Type"] = []string{tt.kind}
				w.WriteHeader(http.StatusCreated)
				io.WriteString(w, tt.body)
			})
			got, err := buildHTTP(t, s, "name: it\nurl: HOST\n"+tt.yaml).Run(t.Context(), tooltest.NewCall(nil, nil))
			if err != nil {
				t.Fatalf("Run: %v", err)
			}
			if diff := cmp.Diff(tt.want, got.Response); diff != "" {
				t.Errorf("response (-want +got):\n%s", diff)
			}
		})
	}
}

func TestHTTPLongRunningWithoutResponse(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) })
	got, err := buildHTTP(t, s, "name: it\nurl: HOST\nlong_running: true").Run(t.Context(), tooltest.NewCall(nil, nil))
	if got != nil || err != nil {
		t.Errorf("Run = %v, %v, want nothing", got, err)
	}
}

func TestHTTPConfigErrors(t *testing.T) {
	const host = "tool.yaml:2:6: the URL must start with http:// or https:// and a fixed host; placeholders are allowed in the path and the query only [url]"
	tests := []struct{ name, yaml, want string }{
		{"no url", "method: GET", `tool.yaml:1:1: missing field "url" [required]`},
		{"no scheme", "url: crm.local/x", host},
		{"another scheme", "url: file:///etc/passwd", host},
		{"the host is a placeholder", `url: https://{args.host}/x`, host},
		{"a part of the host is a placeholder", `url: https://a{state.host}/x`, host},
		{"no host", "url: https:///x", host},
		{"a host that cannot be", "url: https://a b/x", host},
		{
			"an unknown argument in the path", "url: \"https://a/{args.idd}\"\nparams: {id: string, n: integer}",
			"tool.yaml:2:17: {args.idd}: unknown parameter; declared: id, n [placeholder]",
		},
		{
			"an unknown argument in the query", "url: https://a/x?y={args.y}",
			"tool.yaml:2:20: {args.y}: unknown parameter; declared: none [placeholder]",
		},
		{
			"in query, headers and body", "url: https://a\nmethod: POST\nquery: {q: \"{args.a}\"}\nheaders: {h: \"{args.b}\"}\nbody:\n  x: [\"{args.c}\"]",
			"tool.yaml:4:13: {args.a}: unknown parameter; declared: none [placeholder]\n" +
				"tool.yaml:5:15: {args.b}: unknown parameter; declared: none [placeholder]\n" +
				"tool.yaml:7:7: {args.c}: unknown parameter; declared: none [placeholder]",
		},
		{"a mistyped path", "url: https://a/{args..x}", "tool.yaml:2:16: {args..x}: missing name before or after a dot [placeholder]"},
		{"GET with a body", "url: https://a\nbody: {a: 1}", "tool.yaml:3:7: a GET request cannot have a body [body]"},
		{"a header's name", "url: https://a\nheaders: {\"X Y\": 1}", `tool.yaml:3:18: invalid header name "X Y" [header]`},
		{"a method", "url: https://a\nmethod: HEAD", `tool.yaml:3:9: "HEAD" is not one of: GET, POST, PUT, PATCH, DELETE [enum]`},
		{"a result", "url: https://a\nresult: reply.id", `tool.yaml:3:9: unknown name reply [expression]`},
		{"a timeout", "url: https://a\ntimeout: soon", `tool.yaml:3:10: expected a duration, got a string [type] (write 30s, 5m, 1h30m or 30d)`},
		{"a size", "url: https://a\nmax_response: big", `tool.yaml:3:15: expected a size, got a string [type] (write 10MiB, 4KiB, 1GB or a number of bytes)`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := tooltest.BuildTool(t, Kinds(), "http", "name: it\n"+tt.yaml)
			if diff := cmp.Diff(tt.want, tooltest.ErrorString(err)); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
		})
	}
}

func TestHTTPCapabilities(t *testing.T) {
	got := tool.CapabilitiesOf(tooltest.MustBuildTool(t, Kinds(), "http", "name: it\nurl: https://a"))
	if want := (tool.Capabilities{Timeout: 30e9}); got != want {
		t.Errorf("CapabilitiesOf = %+v, want %+v", got, want)
	}
	got = tool.CapabilitiesOf(tooltest.MustBuildTool(t, Kinds(), "http", "name: it\nurl: https://a\ntimeout: 5s\non_error: fail\nlong_running: true"))
	if want := (tool.Capabilities{Timeout: 5e9, FailOnError: true, LongRunning: true}); got != want {
		t.Errorf("CapabilitiesOf = %+v, want %+v", got, want)
	}
}
