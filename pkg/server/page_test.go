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

// The page is there, may have nothing from elsewhere and nothing inline, and is
// asked for again only when it is another one.
func TestPage(t *testing.T) {
	e := newEnv(t, nil)
	for path, kind := range map[string]string{"/": "text/html", "/ui/app.js": "javascript", "/ui/style.css": "text/css"} {
		w := e.do("GET", path, "")
		if w.Code != 200 || !strings.Contains(w.Header().Get("Content-Type"), kind) {
			t.Errorf("GET %s = %d %s", path, w.Code, w.Header().Get("Content-Type"))
		}
		policy := w.Header().Get("Content-Security-Policy")
		if !strings.HasPrefix(policy, "default-src 'none'; script-src 'self';") || strings.Contains(policy, "unsafe") {
			t.Errorf("GET %s has the policy %q", path, policy)
		}
		r := httptest.NewRequest("GET", path, nil)
		r.Header.Set("If-None-Match", w.Header().Get("ETag"))
		again := httptest.NewRecorder()
		if e.server.ServeHTTP(again, r); again.Code != 304 {
			t.Errorf("GET %s again = %d, want 304", path, again.Code)
		}
	}
	want(t, e.do("GET", "/ui/nosuch.js", ""), 404, `{"detail":"Not Found"}`)
	want(t, e.do("POST", "/", ""), 405, `{"detail":"Method Not Allowed"}`)
}

// The page and its stream are for this machine, under the rule of all routes: a
// name that somebody else made point here gets neither.
func TestPageIsGuarded(t *testing.T) {
	e := newEnv(t, &server.Options{AllowedHosts: []string{"localhost"}})
	for _, path := range []string{"/", "/ui/app.js", "/-/changes"} {
		r := httptest.NewRequest("GET", path, nil)
		r.Host = "evil.example"
		w := httptest.NewRecorder()
		e.server.ServeHTTP(w, r)
		want(t, w, 403, "Forbidden: host not allowed")
	}
}

// What people, tools and models say is never HTML, and nothing is fetched from
// another host: the sources do not say so anywhere.
func TestPageSources(t *testing.T) {
	banned := regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|style=|https?://(?:[^w]|w[^w])`)
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
