package aguiserver_test

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"agenthost"
	"agenthost/internal/testenv"
	"agenthost/pkg/loader"
	"agenthost/pkg/server"
	"agenthost/pkg/spec"
	"agenthost/wing/aguiserver"
)

// turnsInSession is how many turns of a thread are measured before the next one begins.
const turnsInSession = 20

// BenchmarkTurn measures a turn by /run and by /run_sse, as a run that has the new message only, and as
// a run that has the whole thread, with sessions in memory and in an SQLite file. A run should cost at most 1.5
// times the processor time of /run_sse.
func BenchmarkTurn(b *testing.B) {
	for _, db := range []string{"memory", "sqlite"} {
		for _, way := range []string{"run", "run_sse", "message", "thread"} {
			name := way
			if db == "sqlite" {
				name = "sqlite/" + way
			}
			b.Run(name, func(b *testing.B) {
				url := "memory:"
				if db == "sqlite" {
					url = "sqlite:///" + filepath.Join(b.TempDir(), "agenthost.db")
				}
				benchTurns(b, &benchClient{TB: b, handler: newBenchServer(b, url), way: way})
			})
		}
	}
}

// benchTurns reports the processor time of a turn.
func benchTurns(b *testing.B, c *benchClient) {
	c.runTurn(0)
	b.ReportAllocs()
	before := readCPUTime(b)
	for i := 1; b.Loop(); i++ {
		c.runTurn(i)
	}
	b.ReportMetric(float64(readCPUTime(b)-before)/float64(b.N), "cpu-ns/op")
}

func readCPUTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// newBenchServer returns a server with an app that answers at once, and a store.
func newBenchServer(b testing.TB, storeURL string) http.Handler {
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
	host, err := agenthost.Open(b.Context(), &agenthost.Options{Folders: []string{dir}, Kinds: kinds, StoreURL: storeURL, StoreSchemes: testenv.Schemes(), Problems: os.Stderr})
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
	messages []byte
	// body is the request's. The client reuses its memory: only the server is measured.
	body []byte
}

// runTurn runs the turn with a number, and checks the answer.
func (c *benchClient) runTurn(i int) {
	thread := i / turnsInSession
	if i%turnsInSession == 0 {
		c.messages = c.messages[:0]
	}
	message := fmt.Appendf(nil, `{"id":"m%d","role":"user","content":"hello %d"}`, i, i)
	const run = `{"threadId":"s%d","runId":"r%d","messages":[%s]}`
	switch c.way {
	case "run", "run_sse":
		c.post("/"+c.way, fmt.Appendf(c.body[:0], `{"appName":"desk","userId":"user","sessionId":"s%d","streaming":%t,"newMessage":{"role":"user","parts":[{"text":"hello %d"}]}}`, thread, c.way != "run", i))
	case "message":
		c.post("/apps/desk/ag-ui", fmt.Appendf(c.body[:0], run, thread, i, message))
	case "thread":
		c.messages = append(c.messages, message...)
		stream := c.post("/apps/desk/ag-ui", fmt.Appendf(c.body[:0], run, thread, i, c.messages))
		_, rest, _ := bytes.Cut(stream, []byte(`"messageId":"`))
		id, _, _ := bytes.Cut(rest, []byte(`"`))
		c.messages = fmt.Appendf(c.messages, `,{"id":"%s","role":"assistant","content":"ok"},`, id)
	}
}

func (c *benchClient) post(path string, body []byte) []byte {
	w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, path, bytes.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	c.handler.ServeHTTP(w, r)
	if w.Code != http.StatusOK || !bytes.Contains(w.Body.Bytes(), []byte(`"ok"`)) {
		c.Fatalf("%s: %d %s", path, w.Code, w.Body)
	}
	c.body = body
	return w.Body.Bytes()
}
