package aguiserver_test

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
	"agenthost/wing/aguiserver"
)

// turnsInSession is how many turns of a thread are measured before the next one begins.
const turnsInSession = 20

// BenchmarkTurn measures a turn by /run and by /run_sse, as a run that has the new message only, and as
// a run that has the whole thread.
func BenchmarkTurn(b *testing.B) {
	for _, way := range []string{"run", "run_sse", "message", "thread"} {
		b.Run(way, func(b *testing.B) {
			c := &benchClient{TB: b, handler: newBenchServer(b), way: way}
			c.runTurn(0)
			b.ReportAllocs()
			for i := 1; b.Loop(); i++ {
				c.runTurn(i)
			}
		})
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
		"app.yaml":         "models: {demo: {provider: scripted, script: demo.script.yaml}}\nagui_server: {}\n",
		"root_agent.yaml":  "name: desk\nmodel: demo\ninstruction: Answer.\n",
		"demo.script.yaml": "- text: ok\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			b.Fatal(err)
		}
	}
	kinds := agenthost.StandardKinds()
	kinds.Sections = spec.Kinds[loader.SectionEnv, any]{aguiserver.Section()}
	host, err := agenthost.Open(b.Context(), &agenthost.Options{Folders: []string{dir}, Kinds: kinds, Problems: os.Stderr})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { host.Close() })
	return host.NewServer(&agenthost.ServerOptions{AutoCreateSession: true, Extensions: []func(*server.Services) *server.Extension{aguiserver.Extend(nil)}})
}

type benchClient struct {
	testing.TB
	handler http.Handler
	way     string
	// messages are those of a thread.
	messages string
}

// runTurn runs the turn with a number, and checks the answer.
func (c *benchClient) runTurn(i int) {
	thread := i / turnsInSession
	if i%turnsInSession == 0 {
		c.messages = ""
	}
	text := fmt.Sprintf("hello %d", i)
	message := fmt.Sprintf(`{"id":"m%d","role":"user","content":"%s"}`, i, text)
	switch c.way {
	case "run", "run_sse":
		c.post("/"+c.way, fmt.Sprintf(`{"appName":"desk","userId":"user","sessionId":"s%d","streaming":%t,"newMessage":{"role":"user","parts":[{"text":"%s"}]}}`, thread, c.way != "run", text))
	case "message":
		c.post("/apps/desk/ag-ui", fmt.Sprintf(`{"threadId":"s%d","runId":"r%d","messages":[%s]}`, thread, i, message))
	case "thread":
		c.messages += message
		stream := c.post("/apps/desk/ag-ui", fmt.Sprintf(`{"threadId":"s%d","runId":"r%d","messages":[%s]}`, thread, i, c.messages))
		_, rest, _ := strings.Cut(stream, `"messageId":"`)
		id, _, _ := strings.Cut(rest, `"`)
		c.messages += `,{"id":"` + id + `","role":"assistant","content":"ok"},`
	}
}

func (c *benchClient) post(path, body string) string {
	w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	c.handler.ServeHTTP(w, r)
	if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `"ok"`) {
		c.Fatalf("%s: %d %s", path, w.Code, w.Body)
	}
	return w.Body.String()
}
