package server_test

import (
	"bytes"
	"compress/gzip"
	"io/fs"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"

	"agenthost/pkg/server"
)

// The page forbids inline scripts, inline styles and other origins, and is sent again
// only if it has changed.
func TestPage(t *testing.T) {
	e := newEnv(t, nil)
	for path, kind := range map[string]string{"/": "text/html", "/ui/app.js": "javascript", "/ui/style.css": "text/css"} {
		w := e.serve("GET", path, "")
		if w.Code != 200 || !strings.Contains(w.Header().Get("Content-Type"), kind) {
			t.Errorf("GET %s = %d %s", path, w.Code, w.Header().Get("Content-Type"))
		}
		const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; " +
			"img-src 'self' data:; media-src blob:; frame-src blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
		if got := w.Header().Get("Content-Security-Policy"); got != policy {
			t.Errorf("GET %s has the policy %q, want %q", path, got, policy)
		}
		r := httptest.NewRequest("GET", path, nil)
		r.Header.Set("If-None-Match", w.Header().Get("ETag"))
		again := httptest.NewRecorder()
		if e.server.ServeHTTP(again, r); again.Code != 304 {
			t.Errorf("GET %s again = %d, want 304", path, again.Code)
		}
	}
	expectResponse(t, e.serve("GET", "/ui/nosuch.js", ""), 404, `{"detail":"Not Found"}`)
	expectResponse(t, e.serve("POST", "/", ""), 405, `{"detail":"Method Not Allowed"}`)
}

// Host names that are not allowed get neither the page nor the change stream.
func TestPageHostCheck(t *testing.T) {
	e := newEnv(t, &server.Options{AllowedHosts: []string{"localhost"}})
	for _, path := range []string{"/", "/ui/app.js", "/-/changes"} {
		r := httptest.NewRequest("GET", path, nil)
		r.Host = "evil.example"
		w := httptest.NewRecorder()
		e.server.ServeHTTP(w, r)
		expectResponse(t, w, 403, "Forbidden: host not allowed")
	}
}

// The page never parses text as HTML and loads nothing from other servers. Its modules are short,
// its one style sheet has all styles, and compressed they have at most 150 kB.
func TestPageSources(t *testing.T) {
	banned := regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|setHTML|DOMParser|createContextualFragment|srcdoc|document\.write|\beval\(|new Function|style=|https?://(?:[^w]|w[^w])`)
	files, err := fs.Glob(os.DirFS("ui"), "*")
	if err != nil || len(files) < 3 {
		t.Fatalf("no sources of the page: %v", err)
	}
	var compressed bytes.Buffer
	for _, name := range files {
		text, err := os.ReadFile("ui/" + name)
		if err != nil {
			t.Fatal(err)
		}
		if hit := banned.Find(text); hit != nil {
			t.Errorf("ui/%s contains %q", name, hit)
		}
		if lines := strings.Count(string(text), "\n"); lines > 400 && name != "style.css" {
			t.Errorf("ui/%s has %d lines, want 400 at most", name, lines)
		}
		w := gzip.NewWriter(&compressed)
		if _, err := w.Write(text); err != nil || w.Close() != nil {
			t.Fatal(err)
		}
	}
	if compressed.Len() > 150_000 {
		t.Errorf("the page has %d bytes compressed, want 150000 at most", compressed.Len())
	}
}

// The API documentation needs no token and does not depend on the server's options.
func TestDocsWithoutToken(t *testing.T) {
	open := newEnv(t, &server.Options{Metrics: server.NewMetrics("")})
	e := newEnv(t, &server.Options{Auth: newAuth(t, "tokens: [{token: ana-ana-ana-ana-ana, claims: {sub: ana}}]")})
	expectResponse(t, e.serve("GET", "/list-apps", ""), 401, `{"detail":"Not authenticated"}`)
	for _, path := range []string{"/docs", "/openapi.json"} {
		expectResponse(t, e.serve("GET", path, ""), 200, open.serve("GET", path, "").Body.String())
	}
}
