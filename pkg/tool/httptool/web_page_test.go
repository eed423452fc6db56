package httptool

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"agenthost/internal/tooltest"
	"agenthost/pkg/tool"
)

// pageTool returns load_web_page on a server.
func pageTool(t *testing.T, handle http.HandlerFunc) (tool.Tool, string) {
	t.Helper()
	server := httptest.NewServer(handle)
	t.Cleanup(server.Close)
	kind, _ := Builtins().Lookup("load_web_page")
	env := tooltest.NewEnv()
	env.HTTP = server.Client()
	plan, ds := kind.Decode(tooltest.ParseNode(t, "{}"))
	if ds.HasErrors() {
		t.Fatal(ds)
	}
	set, err := plan.Build(t.Context(), env)
	if err != nil {
		t.Fatal(err)
	}
	return tooltest.OnlyTool(t, set), server.URL
}

// A page's text is its lines with more than three words; not its scripts and styles (adk-python
// tools/load_web_page.py).
func TestWebPage(t *testing.T) {
	pages := map[string]struct{ kind, body, want string }{
		"/page": {
			"text/html; charset=utf-8",
			"<html><head><title>Trains</title><style>a b c d e</style></head><body><ul><li>Home<li>Our trains</ul>" +
				"<script>if (a < b) { run now and here </script><p>The  train&nbsp;leaves\nat ten to five today &amp; tomorrow.</p>",
			"at ten to five today & tomorrow.",
		},
		"/plain": {"text/plain", "a b", "a b"},
		"/json":  {"application/json", `{"a":1}`, `{"a":1}`},
		"/deep":  {"text/html", strings.Repeat("<div>", 200_000) + "one two three four", "one two three four"},
		"/long":  {"text/plain", strings.Repeat("x", maxPageChars+1), strings.Repeat("x", maxPageChars) + "\n… (the page is longer)"},
		"/bytes": {"text/html", "one two three \xff", "one two three \uFFFD"},
	}
	tool, base := pageTool(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", pages[r.URL.Path].kind)
		fmt.Fprint(w, pages[r.URL.Path].body)
	})
	for path, page := range pages {
		res, err := tool.Run(t.Context(), tooltest.NewCall(map[string]any{"url": base + path}, nil))
		if err != nil || res.Response["result"] != page.want {
			t.Errorf("%s = %.200q, %v, want %.200q", path, res, err, page.want)
		}
	}
}

// A page that cannot be loaded is an error for the model. Redirects are not followed.
func TestWebPageErrors(t *testing.T) {
	tool, base := pageTool(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/moved":
			http.Redirect(w, r, "http://127.0.0.1:1/other", http.StatusFound)
		case "/image":
			w.Header().Set("Content-Type", "image/png")
		default:
			http.NotFound(w, r)
		}
	})
	for address, want := range map[string]string{
		base + "/none":                "404 Not Found",
		base + "/moved":               "the page redirects to http://127.0.0.1:1/other",
		base + "/image":               "the page is not text, but image/png",
		"file:///etc/passwd":          "the URL must begin with https:// or http://",
		"/etc/passwd":                 "the URL must begin with https:// or http://",
		"https://ana:secret@shop.com": "the URL must not contain a password",
	} {
		_, err := tool.Run(t.Context(), tooltest.NewCall(map[string]any{"url": address}, nil))
		if got := tooltest.ErrorString(err); got != "failed to fetch url: "+address+": "+want {
			t.Errorf("%s: %s", address, got)
		}
	}
}
