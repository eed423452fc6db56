package server_test

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"agenthost/pkg/server"
)

func TestAllowedHosts(t *testing.T) {
	tests := []struct {
		name, host string
		allowed    []string
		want       int
	}{
		{"no list", "evil.example", nil, 200},
		{"host and port", "127.0.0.1:8000", []string{"127.0.0.1:8000"}, 200},
		{"other port", "127.0.0.1:9", []string{"127.0.0.1:8000"}, 403},
		{"any port", "LocalHost:9", []string{"localhost"}, 200},
		{"no port", "localhost", []string{"localhost"}, 200},
		{"IPv6", "[::1]:8000", []string{"[::1]"}, 200},
		{"IPv6 without brackets in the list", "[::1]", []string{"::1"}, 200},
		{"rebound name", "evil.example:8000", []string{"localhost", "127.0.0.1", "[::1]"}, 403},
		{"longer name", "localhost.evil.example", []string{"localhost"}, 403},
		{"none", "", []string{"localhost"}, 403},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			e := newEnv(t, &server.Options{AllowedHosts: tc.allowed})
			r := httptest.NewRequest(http.MethodGet, "/version", nil)
			r.Host = tc.host
			w := httptest.NewRecorder()
			e.server.ServeHTTP(w, r)
			if w.Code != tc.want {
				t.Errorf("GET /version with Host %q, allowed %q = %d, want %d", tc.host, tc.allowed, w.Code, tc.want)
			}
			if w.Code == 403 {
				expectResponse(t, w, 403, "Forbidden: host not allowed")
			}
		})
	}
}

// Health checks accept any Host header, and then /readyz omits its reasons.
func TestProbesIgnoreHost(t *testing.T) {
	e := newEnv(t, &server.Options{AllowedHosts: []string{"agents.example"}})
	for path, body := range map[string]string{"/health": `{"status":"ok"}`, "/livez": `{"status":"ok"}`, "/readyz": `{"ready":false,"reasons":[]}`} {
		e.server.Drain()
		r := httptest.NewRequest(http.MethodGet, path, nil)
		r.Host = "10.1.2.3:8000"
		w := httptest.NewRecorder()
		e.server.ServeHTTP(w, r)
		if got := strings.TrimSpace(w.Body.String()); got != body {
			t.Errorf("GET %s at the pod's address = %d %s, want %s", path, w.Code, got, body)
		}
	}
}

func TestRequestOrigins(t *testing.T) {
	const loopback, anywhere = "127.0.0.1:8000", "192.0.2.1:8000"
	tests := []struct {
		name, bound, method, host, headers string
		want                               int
	}{
		{"no origin", loopback, "POST", "localhost:8000", "", 422},
		{"own page", loopback, "POST", "localhost:8000", "Origin: http://localhost:8000", 422},
		{"own page on IPv6", "[::1]:8000", "POST", "[::1]:8000", "Origin: http://[::1]:8000", 422},
		{"other port", loopback, "POST", "localhost:8000", "Origin: http://localhost:4200", 403},
		{"other site", loopback, "POST", "localhost:8000", "Origin: https://evil.example", 403},
		{"other site reads", loopback, "GET", "localhost:8000", "Origin: https://evil.example", 405},
		{"rebound name", loopback, "POST", "evil.example:8000", "Origin: http://evil.example:8000", 403},
		{"opaque origin", loopback, "POST", "localhost:8000", "Origin: null", 403},
		{"invalid URL", loopback, "POST", "localhost:8000", "Origin: http://[::1", 403},
		{"own page on another address", anywhere, "POST", "host.example", "Origin: http://host.example", 422},
		{"other site on another address", anywhere, "POST", "host.example", "Origin: http://evil.example", 403},
		{"behind a proxy", anywhere, "POST", "10.0.0.7", "Origin: https://host.example\nX-Forwarded-Proto: https\nX-Forwarded-Host: host.example, inner", 422},
		{"proxy with Forwarded", anywhere, "POST", "10.0.0.7", "Origin: https://host.example\nForwarded: for=1.2.3.4;proto=https;host=host.example", 422},
		{"proxy on this machine", loopback, "POST", "localhost:8000", "Origin: https://host.example\nX-Forwarded-Proto: https\nX-Forwarded-Host: host.example", 403},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			w := httptest.NewRecorder()
			newEnv(t, nil).server.ServeHTTP(w, boundRequest(t, tc.bound, tc.method, tc.host, tc.headers))
			if w.Code != tc.want {
				t.Errorf("%s /run at %s with %q = %d %s, want %d", tc.method, tc.host, tc.headers, w.Code, w.Body, tc.want)
			}
			if w.Code == 403 {
				expectResponse(t, w, 403, "Forbidden: origin not allowed")
			}
		})
	}
}

// Among all combinations of host names, origins and Sec-Fetch-Site headers that a browser may
// send, only pages on this server can change state, and only under an allowed host name. The
// control is a server that accepts any host name.
func TestBrowserAttacks(t *testing.T) {
	own := []string{"127.0.0.1:8000", "localhost:8000", "[::1]:8000"}
	e := newEnv(t, &server.Options{AllowedHosts: []string{"127.0.0.1", "localhost", "[::1]"}})
	open := newEnv(t, nil)
	passed, rejected, wrong, control := 0, 0, 0, 0
	for _, host := range append(own, "evil.example", "evil.example:8000", "localhost.evil.example:8000", "127.0.0.1.nip.io:8000", "0.0.0.0:8000", "192.0.2.1:8000", "") {
		for _, origin := range []string{"", "null", "http://" + host, "https://" + host, "https://evil.example", "http://localhost:4200", "http://localhost:8000.evil.example", "file://"} {
			for _, site := range []string{"", "none", "same-origin", "same-site", "cross-site"} {
				for _, kind := range []string{"GET", "POST", "DELETE", "WebSocket"} {
					method, headers := kind, "Origin: "+origin+"\nSec-Fetch-Site: "+site
					if kind == "WebSocket" {
						method, headers = "GET", headers+"\nUpgrade: websocket\nConnection: Upgrade"
					}
					r := boundRequest(t, "127.0.0.1:8000", method, host, headers)
					w := httptest.NewRecorder()
					e.server.ServeHTTP(w, r)
					accepted := w.Code != http.StatusForbidden
					allowed := slices.Contains(own, host)
					page := (origin == "" || origin == "http://"+host) && (site == "" || site == "none" || site == "same-origin")
					if want := allowed && (kind == "GET" || page); accepted != want {
						wrong++
						t.Errorf("%s with Host %q, Origin %q, Sec-Fetch-Site %q = %d, want accepted: %v", kind, host, origin, site, w.Code, want)
					}
					if accepted {
						passed++
					} else {
						rejected++
						w := httptest.NewRecorder()
						open.server.ServeHTTP(w, boundRequest(t, "127.0.0.1:8000", method, host, headers))
						if w.Code != http.StatusForbidden {
							control++
						}
					}
				}
			}
		}
	}
	if passed < 100 || rejected < 1000 || control < 100 {
		t.Errorf("%d accepted, %d rejected, and %d of those accepted by the control: too few combinations", passed, rejected, control)
	}
	t.Logf("shown: %d browser requests: %d accepted, %d rejected, %d of them wrongly; control, a server that accepts any host name: %d more accepted", passed+rejected, passed, rejected, wrong, control)
}

// boundRequest returns a request to /run that was received on a local address.
func boundRequest(t *testing.T, bound, method, host, headers string) *http.Request {
	t.Helper()
	addr, err := net.ResolveTCPAddr("tcp", bound)
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.WithValue(t.Context(), http.LocalAddrContextKey, net.Addr(addr))
	r := httptest.NewRequestWithContext(ctx, method, "/run", nil)
	r.Host = host
	for line := range strings.Lines(headers) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		r.Header.Set(name, value)
	}
	return r
}

// A protected handler requires an administrator if authentication is enabled.
func TestProtect(t *testing.T) {
	inner := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
	e := newEnv(t, &server.Options{Auth: newAuth(t, "tokens: [{token: ana-ana-ana-ana-ana, claims: {sub: ana}}, {token: ops-ops-ops-ops-ops, claims: {sub: ops}}]\nadmin: claims.sub == \"ops\"")})
	for token, code := range map[string]int{"": 401, "x": 401, "ana-ana-ana-ana-ana": 403, "ops-ops-ops-ops-ops": 418} {
		r := httptest.NewRequest("GET", "/debug/pprof/heap", nil)
		r.Header.Set("Authorization", "Bearer "+token)
		w := httptest.NewRecorder()
		e.server.Protect(inner).ServeHTTP(w, r)
		if w.Code != code {
			t.Errorf("token %q: %d, want %d", token, w.Code, code)
		}
	}
}

func TestRequestLog(t *testing.T) {
	logger, log := newBufferLogger(slog.LevelDebug)
	now := time.Unix(0, 0)
	clock := func() time.Time {
		now = now.Add(time.Second)
		return now
	}
	e := newEnv(t, &server.Options{Logger: logger, Clock: clock})
	w := e.serve("GET", "/health", "")
	if want := "level=DEBUG msg=request method=GET path=/health status=200 took=1s\n"; !strings.HasSuffix(log.String(), want) {
		t.Errorf("log = %s, want %s", log, want)
	}
	if got := w.Header().Get("X-Content-Type-Options"); got != "nosniff" {
		t.Errorf("X-Content-Type-Options = %q, want nosniff", got)
	}
}

// A request with both Content-Length and Transfer-Encoding may be request smuggling, so
// its connection is closed (RFC 9112, 6.1), even after other requests.
func TestAmbiguousLengthClosesConnection(t *testing.T) {
	e := newEnv(t, nil)
	srv := httptest.NewServer(e.server)
	defer srv.Close()
	conn, err := net.Dial("tcp", srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	responses := bufio.NewReader(conn)
	send := func(head, body string) *http.Response {
		t.Helper()
		if _, err := io.WriteString(conn, "POST /apps/hello/users/u/sessions HTTP/1.1\r\nHost: "+srv.Listener.Addr().String()+"\r\n"+head+"\r\n"+body); err != nil {
			t.Fatal(err)
		}
		res, err := http.ReadResponse(responses, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, res.Body); err != nil {
			t.Fatal(err)
		}
		return res
	}
	for range 2 {
		if res := send("Content-Length: 2\r\n", "{}"); res.Close {
			t.Error("a plain request closes the connection")
		}
	}
	const smuggled = "GET /version HTTP/1.1\r\nHost: x\r\n\r\n"
	if res := send("Content-Length: 4\r\nTransfer-Encoding: chunked\r\n", "2\r\n{}\r\n0\r\n\r\n"+smuggled); !res.Close {
		t.Error("the response does not close the connection")
	}
	if rest, err := io.ReadAll(responses); len(rest) > 0 {
		t.Errorf("unexpected data after the response: %q, %v", rest, err)
	}
}
