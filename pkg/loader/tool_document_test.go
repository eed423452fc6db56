package loader_test

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"agenthost/internal/testenv"
	"agenthost/pkg/loader"
)

const urlDocument = `{"openapi": "3.0.0", "servers": [{"url": "https://api.example.com"}], "paths": {"/a": {"get": {"operationId": "getA"}}, "/b": {"get": {"operationId": "getB"}}}}`

// A document at a URL is read once and only if it has the hash in the app; each problem is reported
// at its place.
func TestDocumentAtURL(t *testing.T) {
	requests := 0
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests++
		switch r.URL.Path {
		case "/api.json":
			fmt.Fprint(w, urlDocument)
		case "/moved":
			http.Redirect(w, r, "/api.json", http.StatusFound)
		case "/large":
			_, _ = w.Write(make([]byte, 24<<20+1))
		default:
			http.NotFound(w, r)
		}
	}))
	defer s.Close()
	sum := fmt.Sprintf("%x", sha256.Sum256([]byte(urlDocument)))
	for _, tt := range []struct{ name, settings, want string }{
		{"good", "spec: URL/api.json, sha256: " + sum, ""},
		{"capital letters", "spec: URL/api.json, sha256: " + strings.ToUpper(sum), ""},
		{"a redirect", "spec: URL/moved, sha256: " + sum, ""},
		{"another hash", "spec: URL/api.json, sha256: " + strings.Repeat("0", 64), "the document at the URL has another hash: " + sum},
		{"not found", "spec: URL/none, sha256: " + sum, "cannot read the document: 404 Not Found"},
		{"too large", "spec: URL/large, sha256: " + sum, "cannot read the document: document exceeds the limit of 24 MiB"},
		{"an operation that it does not have", "spec: URL/api.json, sha256: " + sum + ", operations: [getC]", `unknown operation "getC"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			requests = 0
			dir := filepath.Join(t.TempDir(), "app")
			write(t, filepath.Join(dir, "root_agent.yaml"), "name: a\ninstruction: x\ntools:\n  - openapi: {"+strings.ReplaceAll(tt.settings, "URL", s.URL)+"}\n")
			l := loader.New(testenv.Kinds(), &loader.Options{HTTP: s.Client()})
			app, ds := l.Load(t.Context(), dir)
			if got := fmt.Sprint(ds); tt.want == "" && app == nil || !strings.Contains(got, tt.want) || tt.want != "" && !strings.Contains(got, "root_agent.yaml:4:") {
				t.Fatalf("problems = %s, want %q", got, tt.want)
			}
			if app == nil {
				return
			}
			defer app.Close()
			revision, before := app.Revision(), requests
			write(t, filepath.Join(dir, "root_agent.yaml"), "name: a\ninstruction: y\ntools:\n  - openapi: {"+strings.ReplaceAll(tt.settings, "URL", s.URL)+"}\n")
			app, ds = l.Load(t.Context(), dir)
			if app == nil {
				t.Fatal(ds)
			}
			defer app.Close()
			if app.Revision() == revision {
				t.Errorf("the revision is %s before and after the change", revision)
			}
			if requests != before {
				t.Errorf("the document was read %d times more after a change of the instruction", requests-before)
			}
		})
	}
}

// A revision has only the part that tools use from a document that is larger than other app files.
func TestLargeDocumentInRevision(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "app")
	document := func(used, unused string) string {
		return fmt.Sprintf(`{"openapi": "3.0.0", "servers": [{"url": "https://api.example.com"}], "paths": {
"/a": {"get": {"operationId": "getA", "description": %q}},
"/b": {"get": {"operationId": "getB", "description": %q}}}, "x-filler": %q}`, used, unused, strings.Repeat("filler ", 800_000))
	}
	write(t, filepath.Join(dir, "root_agent.yaml"), "name: a\ninstruction: x\ntools:\n  - openapi: {spec: api.json, operations: [getA]}\n")
	l := loader.New(testenv.Kinds(), nil)
	loadRevision := func(used, unused string) string {
		t.Helper()
		write(t, filepath.Join(dir, "api.json"), document(used, unused))
		app, ds := l.Load(t.Context(), dir)
		if app == nil {
			t.Fatal(ds)
		}
		defer app.Close()
		return app.Revision()
	}
	first := loadRevision("one", "one")
	if got := loadRevision("one", "two"); got != first {
		t.Errorf("revision = %s after a change of an operation without a tool, want %s", got, first)
	}
	if got := loadRevision("two", "two"); got == first {
		t.Errorf("revision = %s after a change of an operation with a tool", got)
	}
}
