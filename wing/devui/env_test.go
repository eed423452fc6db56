package devui_test

import (
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/rogpeppe/go-internal/txtar"
	"go.uber.org/goleak"

	"agenthost/internal/servertest"
	"agenthost/pkg/runtime"
	"agenthost/pkg/server"
	"agenthost/wing/devui"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// newEnv returns a server with the routes for ADK's web client.
func newEnv(t *testing.T, opts *devui.Options) *servertest.Env {
	t.Helper()
	return servertest.New(t, newOptions(opts))
}

func newOptions(opts *devui.Options) *servertest.Options {
	o := &servertest.Options{Server: &server.Options{Extensions: []func(*server.Services) *server.Extension{devui.Extend(opts)}}}
	if opts != nil && opts.Traces != nil {
		o.Spans = opts.Traces
	}
	return o
}

// Each file in testdata/http is an exchange; see [servertest.RunExchanges].
func TestExchanges(t *testing.T) {
	servertest.RunExchanges(t, "testdata/http/*.txtar", func(t *testing.T, ar *txtar.Archive) (*servertest.Env, string) {
		folders := &servertest.Folders{}
		return servertest.NewExchangeEnv(t, ar, folders, newOptions(&devui.Options{Traces: devui.NewTraces(true), Folders: folders, Dev: servertest.IsDev(ar)}))
	})
}

// Accepted requests and all responses in testdata/http match the OpenAPI document.
func TestOpenAPIDescribesExchanges(t *testing.T) {
	servertest.CheckExchanges(t, server.New(nil, newOptions(nil).Server), "testdata/http/*.txtar", 20)
}

// docs/dev-ui.md lists every developer route that is supported.
func TestPageListsEveryDeveloperPath(t *testing.T) {
	page, err := os.ReadFile("../../docs/dev-ui.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, pattern := range newEnv(t, nil).Server.Patterns() {
		tail, isDeveloper := strings.CutPrefix(pattern, "GET /dev/apps/{app}")
		if isDeveloper && !strings.Contains(string(page), "…"+tail+"`") {
			t.Errorf("docs/dev-ui.md has no %s", pattern)
		}
	}
}

// Without --dev, app files are not served.
func TestBuilderWithoutDev(t *testing.T) {
	const want403 = `{"detail":"App files are not available: start the server with --dev"}`
	e := newEnv(t, nil)
	e.AddLLMApp(t, "hello", &runtime.LLMOptions{Model: servertest.ScriptedModel(t)})
	for _, path := range []string{"/apps/hello/builder", "/dev/apps/hello/builder?file_path=app.yaml", "/builder/app/hello?tmp=true"} {
		servertest.ExpectResponse(t, e.Serve("GET", path, ""), 403, want403)
	}
}

// The Dev UI has a content security policy that forbids framing.
func TestDevUIPolicy(t *testing.T) {
	e := newEnv(t, &devui.Options{UI: fstest.MapFS{"index.html": {Data: []byte("<p>")}, "main.js": {Data: []byte("1")}}})
	for _, path := range []string{"/dev-ui/", "/dev-ui/main.js"} {
		h := e.Serve("GET", path, "").Header()
		policy := h.Get("Content-Security-Policy")
		if !strings.Contains(policy, "default-src 'none'") || !strings.Contains(policy, "frame-ancestors 'none'") || h.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("GET %s: the headers are %v", path, h)
		}
	}
}

// The Dev UI labels its recordings as 16 kHz, so it must not record at 22 kHz.
func TestDevUIRecordsAt16kHz(t *testing.T) {
	e := newEnv(t, &devui.Options{UI: fstest.MapFS{
		"index.html":                {Data: []byte("<p>")},
		"assets/audio-processor.js": {Data: []byte("this.targetSampleRate = 22000;  // rate")},
	}})
	w := e.Serve("GET", "/dev-ui/assets/audio-processor.js", "")
	servertest.ExpectResponse(t, w, 200, "this.targetSampleRate = 16000;  // rate")
	if h := w.Header(); h.Get("Content-Type") != "text/javascript; charset=utf-8" || h.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("the headers are %v", h)
	}
	without := newEnv(t, &devui.Options{UI: fstest.MapFS{"index.html": {Data: []byte("<p>")}}})
	servertest.ExpectResponse(t, without.Serve("GET", "/dev-ui/assets/audio-processor.js", ""), 404, `{"detail":"Not Found"}`)
}
