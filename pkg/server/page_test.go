package server_test

import (
	"io/fs"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"

	"agenthost/pkg/server"
)

// The page has a policy without inline script or style and without other servers,
// and is sent again only when it changed.
func TestPage(t *testing.T) {
	e := newEnv(t, nil)
	for path, kind := range map[string]string{"/": "text/html", "/ui/app.js": "javascript", "/ui/style.css": "text/css"} {
		w := e.serve("GET", path, "")
		if w.Code != 200 || !strings.Contains(w.Header().Get("Content-Type"), kind) {
			t.Errorf("GET %s = %d %s", path, w.Code, w.Header().Get("Content-Type"))
		}
		const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; " +
			"img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
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

// The page and its stream follow the rule of all routes: a request for a host name
// that is not allowed gets neither.
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

// The sources of the page never turn text into HTML, and name no other server: a
// renderer builds DOM nodes only.
func TestPageSources(t *testing.T) {
	banned := regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|setHTML|DOMParser|createContextualFragment|srcdoc|document\.write|\beval\(|new Function|style=|https?://(?:[^w]|w[^w])`)
	files, err := fs.Glob(os.DirFS("ui"), "*")
	if err != nil || len(files) < 3 {
		t.Fatalf("no sources of the page: %v", err)
	}
	for _, name := range files {
		text, err := os.ReadFile("ui/" + name)
		if err != nil {
			t.Fatal(err)
		}
		if hit := banned.Find(text); hit != nil {
			t.Errorf("ui/%s says %q", name, hit)
		}
		if lines := strings.Count(string(text), "\n"); lines > 400 {
			t.Errorf("ui/%s has %d lines, want 400 at most", name, lines)
		}
	}
}
