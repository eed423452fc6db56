package openaiserver_test

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
	"agenthost/wing/openaiserver"
)

// turnsInSession is how many turns of a conversation are measured before the next one begins.
const turnsInSession = 20

// BenchmarkTurn measures a turn by /run, as a completion that names its session, as a completion with
// the whole conversation, and as a response. A turn should cost at most 1.5 times /run.
func BenchmarkTurn(b *testing.B) {
	for _, way := range []string{"run", "named", "transcript", "response"} {
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
		"app.yaml":         "models: {demo: {provider: scripted, script: demo.script.yaml}}\nopenai_server: {}\n",
		"root_agent.yaml":  "name: desk\nmodel: demo\ninstruction: Answer.\n",
		"demo.script.yaml": "- text: ok\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			b.Fatal(err)
		}
	}
	kinds := agenthost.StandardKinds()
	kinds.Sections = spec.Kinds[loader.SectionEnv, any]{openaiserver.Section()}
	host, err := agenthost.Open(b.Context(), &agenthost.Options{Folders: []string{dir}, Kinds: kinds, Problems: os.Stderr})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { host.Close() })
	return host.NewServer(&agenthost.ServerOptions{AutoCreateSession: true, Extensions: []func(*server.Services) *server.Extension{openaiserver.Extend(nil)}})
}

type benchClient struct {
	testing.TB
	handler http.Handler
	way     string
	// messages are those of a conversation, and previous is its last response.
	messages, previous string
}

// runTurn runs the turn with a number, and checks the answer.
func (c *benchClient) runTurn(i int) {
	session := i / turnsInSession
	if i%turnsInSession == 0 {
		c.messages, c.previous = "", ""
	}
	text := fmt.Sprintf("hello %d", i)
	user := `{"role":"user","content":"` + text + `"}`
	switch c.way {
	case "run":
		c.post("/run", fmt.Sprintf(`{"appName":"desk","userId":"user","sessionId":"s%d","newMessage":{"role":"user","parts":[{"text":"%s"}]}}`, session, text), "")
	case "named":
		c.post("/v1/chat/completions", `{"model":"desk","messages":[`+user+`]}`, fmt.Sprintf("s%d", session))
	case "transcript":
		c.messages += user
		c.post("/v1/chat/completions", `{"model":"desk","messages":[`+c.messages+`]}`, "")
		c.messages += `,{"role":"assistant","content":"ok"},`
	case "response":
		answer := c.post("/v1/responses", `{"model":"desk","input":"`+text+`"`+c.previous+`}`, "")
		_, rest, _ := strings.Cut(answer, `"id":"`)
		id, _, _ := strings.Cut(rest, `"`)
		c.previous = `,"previous_response_id":"` + id + `"`
	}
}

func (c *benchClient) post(path, body, conversation string) string {
	w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	if conversation != "" {
		r.Header.Set("X-Conversation-Id", conversation)
	}
	c.handler.ServeHTTP(w, r)
	if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `"ok"`) {
		c.Fatalf("%s: %d %s", path, w.Code, w.Body)
	}
	return w.Body.String()
}
