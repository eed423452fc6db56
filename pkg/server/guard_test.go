package server_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"agenthost/pkg/server"
)

func TestHosts(t *testing.T) {
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
			r := httptest.NewRequest(http.MethodGet, "/health", nil)
			r.Host = tc.host
			w := httptest.NewRecorder()
			e.server.ServeHTTP(w, r)
			if w.Code != tc.want {
				t.Errorf("GET /health with Host %q, allowed %q = %d, want %d", tc.host, tc.allowed, w.Code, tc.want)
			}
			if w.Code == 403 {
				want(t, w, 403, "Forbidden: host not allowed")
			}
		})
	}
}

func TestOrigins(t *testing.T) {
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
		{"no URL", loopback, "POST", "localhost:8000", "Origin: http://[::1", 403},
		{"own page elsewhere", anywhere, "POST", "host.example", "Origin: http://host.example", 422},
		{"other site elsewhere", anywhere, "POST", "host.example", "Origin: http://evil.example", 403},
		{"behind a proxy", anywhere, "POST", "10.0.0.7", "Origin: https://host.example\nX-Forwarded-Proto: https\nX-Forwarded-Host: host.example, inner", 422},
		{"behind a newer proxy", anywhere, "POST", "10.0.0.7", "Origin: https://host.example\nForwarded: for=1.2.3.4;proto=https;host=host.example", 422},
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
				want(t, w, 403, "Forbidden: origin not allowed")
			}
		})
	}
}

// boundRequest is a request to /run that arrived at an address.
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
