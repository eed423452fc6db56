package a2aserver_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agenthost"
	"agenthost/pkg/loader"
	"agenthost/pkg/server"
	"agenthost/pkg/spec"
	"agenthost/wing/a2aserver"
)

// turnsInSession is how many turns of a context are measured before the next one begins.
const turnsInSession = 20

// BenchmarkTurn measures a turn by /run and /run_sse, and as a message and a streaming message of A2A. A
// turn should cost at most 1.5 times the one without A2A.
func BenchmarkTurn(b *testing.B) {
	for _, way := range ways {
		b.Run(way.name, func(b *testing.B) {
			handler := newBenchServer(b)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				way.runTurn(b, handler, i)
			}
		})
	}
}

// A way is how a client runs a turn.
type way struct{ name, path, body string }

const (
	runBody  = `{"appName":"desk","userId":"user","sessionId":"s%d","streaming":true,"newMessage":{"role":"user","parts":[{"text":"hello %d"}]}}`
	sendBody = `{"jsonrpc":"2.0","id":1,"method":"%s","params":{"message":{"messageId":"m","contextId":"s%%d","role":"ROLE_USER","parts":[{"text":"hello %%d"}]},"configuration":{"historyLength":0}}}`
)

var ways = []way{
	{"run", "/run", strings.Replace(runBody, `"streaming":true,`, "", 1)},
	{"message", "/a2a/desk", fmt.Sprintf(sendBody, "SendMessage")},
	{"run_sse", "/run_sse", runBody},
	{"stream", "/a2a/desk", fmt.Sprintf(sendBody, "SendStreamingMessage")},
}

// runTurn runs the turn with a number, and checks the answer.
func (c *way) runTurn(b testing.TB, handler http.Handler, i int) {
	w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, c.path, strings.NewReader(fmt.Sprintf(c.body, i/turnsInSession, i)))
	r.Header.Set("Content-Type", "application/json")
	if handler.ServeHTTP(w, r); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `"ok"`) {
		b.Fatalf("%d %s", w.Code, w.Body)
	}
}

// newBenchServer returns a server with an app that answers at once.
func newBenchServer(b testing.TB) http.Handler {
	b.Helper()
	dir := filepath.Join(b.TempDir(), "desk")
	if err := os.Mkdir(dir, 0o755); err != nil {
		b.Fatal(err)
	}
	for name, text := range map[string]string{
		"app.yaml":         "models: {demo: {provider: scripted, script: demo.script.yaml}}\na2a_server: {}\n",
		"root_agent.yaml":  "name: desk\nmodel: demo\ninstruction: Answer.\n",
		"demo.script.yaml": "- text: ok\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			b.Fatal(err)
		}
	}
	kinds := agenthost.StandardKinds()
	kinds.Sections = spec.Kinds[loader.SectionEnv, any]{a2aserver.Section()}
	host, err := agenthost.Open(b.Context(), &agenthost.Options{Folders: []string{dir}, Kinds: kinds, Problems: os.Stderr})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { host.Close() })
	return host.NewServer(&agenthost.ServerOptions{AutoCreateSession: true, Extensions: []func(*server.Services) *server.Extension{a2aserver.Extend(nil)}})
}
