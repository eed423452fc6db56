package httptool

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"agenthost/internal/toolhttp"
	"agenthost/internal/tooltest"
	"agenthost/pkg/connection"
	"agenthost/pkg/spec"
	"agenthost/pkg/tool"
	connections "agenthost/wing/connection"
)

// openConnection returns a document's connection for a server's host.
func openConnection(t *testing.T, yaml, address string) *connection.Connection {
	t.Helper()
	n, ds := spec.Parse("app.yaml", []byte(yaml))
	kind := connections.NewKind(nil)
	c, more := kind.Decode(n, false)
	if ds = append(ds, more...); ds.HasErrors() {
		t.Fatal(ds)
	}
	source, err := kind.Open(c, connection.Env{})
	if err != nil {
		t.Fatal(err)
	}
	return connection.New("crm", source, append(c.HostNames(), connection.HostOf(address)))
}

// TestHTTPAuth checks that an http tool's service receives its connection's credential, and that
// neither its response nor a redirect reveals it.
func TestHTTPAuth(t *testing.T) {
	foreign := serve(t, echo)
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/away":
			http.Redirect(w, r, foreign.URL+"/c", http.StatusFound)
		case "/denied":
			http.Error(w, "bad "+r.Header.Get("Authorization"), http.StatusUnauthorized)
		case "/cookies":
			_, _ = fmt.Fprintln(w, r.Header.Get("Cookie") == "a=b; key=s3cret")
		case "/exact":
			_, _ = fmt.Fprintln(w, r.Header.Get("Authorization") == "Basic Ym90OnMzY3JldA==")
		default:
			echo(w, r)
		}
	})
	tests := []struct{ name, connection, yaml, want, wantErr string }{
		{"bearer", "bearer: s3cret", "url: HOST/b", "GET /b\nAuthorization: Bearer ***\nUser-Agent: agenthost\n", ""},
		{"basic", "basic: {username: bot, password: s3cret}", "url: HOST/exact", "true\n", ""},
		{"basic is redacted", "basic: {username: bot, password: s3cret}", "url: HOST/b", "GET /b\nAuthorization: Basic ***\nUser-Agent: agenthost\n", ""},
		{"key in the query", "api_key: {in: query, name: key, value: s3cret}", "url: HOST/b?a=1", "GET /b?a=1&key=***\nUser-Agent: agenthost\n", ""},
		{"key in a header", "api_key: {name: X-Note, value: s3cret}", "url: HOST/b", "GET /b\nUser-Agent: agenthost\nX-Note: ***\n", ""},
		{"key in a cookie", "api_key: {in: cookie, name: key, value: s3cret}", "url: HOST/cookies\nheaders: {Cookie: 'key=old; a=b'}", "true\n", ""},
		{"the connection replaces headers", "bearer: s3cret", "url: HOST/b\nheaders: {Authorization: other}", "GET /b\nAuthorization: Bearer ***\nUser-Agent: agenthost\n", ""},
		{"another host gets none", "bearer: s3cret", "url: HOST/away", "GET /c\nUser-Agent: agenthost\n", ""},
		{"errors show none", "bearer: s3cret", "url: HOST/denied", "", "http tool it: 401 Unauthorized: bad Bearer ***"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			it := buildHTTP(t, s, "name: it\n"+tt.yaml).(*httpTool)
			it.exchange = toolhttp.NewExchange(tool.Env{Connection: openConnection(t, tt.connection, s.URL)}, 1<<20)
			got, err := it.Run(t.Context(), tooltest.NewCall(nil, nil))
			if tooltest.ErrorString(err) != tt.wantErr {
				t.Fatalf("Run error = %q, want %q", tooltest.ErrorString(err), tt.wantErr)
			}
			if err == nil && got.Response["result"] != tt.want {
				t.Errorf("Run = %q, want %q", got.Response["result"], tt.want)
			}
		})
	}
	it := buildHTTP(t, foreign, "name: it\nurl: HOST/b").(*httpTool)
	it.exchange = toolhttp.NewExchange(tool.Env{Connection: openConnection(t, "bearer: s3cret", s.URL)}, 1<<20)
	_, err := it.Run(t.Context(), tooltest.NewCall(nil, nil))
	if want := "http tool it: connection crm: no credentials for host " + strings.TrimPrefix(foreign.URL, "http://"); tooltest.ErrorString(err) != want {
		t.Errorf("Run for another host = %v, want %v", err, want)
	}
}
