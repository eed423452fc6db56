package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"agenthost"
	"agenthost/pkg/loader"
	"agenthost/pkg/server"
	"agenthost/pkg/spec"
	"agenthost/wing/mcpserver"
)

// turnsInSession is how many turns of a conversation are measured before the next one begins, so that
// the history stays short.
const turnsInSession = 20

// BenchmarkServerCall measures a turn by /run, and as a tool call in both eras. A tool call costs at most
// 1.5 times /run.
func BenchmarkServerCall(b *testing.B) {
	for _, way := range []string{"run", "2026-07-28", "2025-11-25"} {
		b.Run(way, func(b *testing.B) {
			c := &benchClient{B: b, handler: newBenchServer(b), way: way}
			if way == "2025-11-25" {
				w := c.post("/apps/desk/mcp", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`)
				c.connection = w.Header().Get("Mcp-Session-Id")
				c.post("/apps/desk/mcp", `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
			}
			c.runTurn(0)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				c.runTurn(i)
			}
		})
	}
}

// newBenchServer returns a server with an app that answers at once.
func newBenchServer(b *testing.B) http.Handler {
	b.Helper()
	dir := filepath.Join(b.TempDir(), "desk")
	if err := os.Mkdir(dir, 0o755); err != nil {
		b.Fatal(err)
	}
	for name, text := range map[string]string{
		"app.yaml":         "models: {demo: {provider: scripted, script: demo.script.yaml}}\nmcp_server: {session: argument}\n",
		"root_agent.yaml":  "name: desk\ndescription: Answers.\nmodel: demo\ninstruction: Answer.\n",
		"demo.script.yaml": "- text: ok\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			b.Fatal(err)
		}
	}
	kinds := agenthost.StandardKinds()
	kinds.Sections = spec.Kinds[loader.SectionEnv, any]{mcpserver.Section()}
	host, err := agenthost.Open(b.Context(), &agenthost.Options{Folders: []string{dir}, Kinds: kinds, Problems: os.Stderr})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { host.Close() })
	return host.NewServer(&agenthost.ServerOptions{AutoCreateSession: true, Extensions: []func(*server.Services) *server.Extension{mcpserver.Extend(nil)}})
}

type benchClient struct {
	*testing.B
	handler http.Handler
	way     string
	// connection is the MCP session, and session the conversation.
	connection, session string
}

// runTurn runs the turn with a number, and checks the answer.
func (c *benchClient) runTurn(i int) {
	if c.way == "run" {
		w := c.post("/run", `{"appName":"desk","userId":"mcp_user","sessionId":"s`+strconv.Itoa(i/turnsInSession)+`","newMessage":{"role":"user","parts":[{"text":"hello"}]}}`)
		if !strings.Contains(w.Body.String(), `"text":"ok"`) {
			c.Fatal(w.Body)
		}
		return
	}
	if i%turnsInSession == 0 {
		c.session = ""
	}
	args := `{"request":"hello"}`
	if c.session != "" {
		args = `{"request":"hello","session":"` + c.session + `"}`
	}
	var meta string
	if c.way == "2026-07-28" {
		meta = `,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}`
	}
	w := c.post("/apps/desk/mcp", `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"desk","arguments":`+args+meta+`}}`, "Mcp-Method", "tools/call", "Mcp-Name", "desk")
	text := w.Body.String()
	_, rest, _ := strings.Cut(text, `"session":"`)
	c.session, _, _ = strings.Cut(rest, `"`)
	if !strings.Contains(text, `"answer":"ok"`) || c.session == "" {
		c.Fatal(text)
	}
}

func (c *benchClient) post(path, body string, headers ...string) *httptest.ResponseRecorder {
	w, r := httptest.NewRecorder(), httptest.NewRequest("POST", path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	if path != "/run" {
		r.Header.Set("Accept", "application/json, text/event-stream")
		r.Header.Set("MCP-Protocol-Version", c.way)
		if c.connection != "" {
			r.Header.Set("Mcp-Session-Id", c.connection)
		}
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	c.handler.ServeHTTP(w, r)
	if w.Code/100 != 2 {
		c.Fatalf("%s: %d %s", path, w.Code, w.Body)
	}
	return w
}
