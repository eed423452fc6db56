package mcpserver_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/rogpeppe/go-internal/txtar"
	"go.uber.org/goleak"

	"agenthost/internal/servertest"
	"agenthost/pkg/server"
	"agenthost/wing/mcpserver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The two eras of the protocol.
var eras = []string{"2025-11-25", "2026-07-28"}

// readDesk returns the test app's files as an archive.
func readDesk(t testing.TB) string {
	t.Helper()
	var all strings.Builder
	for _, file := range []string{"app.yaml", "root_agent.yaml", "demo.script.yaml"} {
		text, err := os.ReadFile(filepath.Join("testdata/apps/desk", file))
		if err != nil {
			t.Fatal(err)
		}
		all.WriteString("-- apps/desk/" + file + " --\n" + string(text))
	}
	return all.String()
}

// newEnv returns a server with the apps in an archive, and its URL.
func newEnv(t *testing.T, apps string, opts *mcpserver.Options, auth *server.Auth) (*servertest.Env, string) {
	t.Helper()
	e, _ := servertest.NewExchangeEnv(t, txtar.Parse([]byte(apps)), &servertest.Folders{}, &servertest.Options{Server: &server.Options{
		Auth: auth, Extensions: []func(*server.Services) *server.Extension{mcpserver.Extend(opts)},
	}})
	httpServer := httptest.NewServer(e.Server)
	t.Cleanup(func() {
		e.Server.Drain()
		httpServer.CloseClientConnections()
		httpServer.Close()
	})
	return e, httpServer.URL
}

// A bearer adds a token to requests.
type bearer string

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	if b != "" {
		r.Header.Set("Authorization", "Bearer "+string(b))
	}
	return http.DefaultTransport.RoundTrip(r)
}

// connect opens the SDK's client in an era.
func connect(t *testing.T, url, era, token string, opts *mcp.ClientOptions) *mcp.ClientSession {
	t.Helper()
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, opts)
	transport := &mcp.StreamableClientTransport{Endpoint: url, HTTPClient: &http.Client{Transport: bearer(token)}}
	s, err := client.Connect(t.Context(), transport, &mcp.ClientSessionOptions{ProtocolVersion: era})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// call calls a tool and returns its text, and its structured result.
func call(t *testing.T, s *mcp.ClientSession, name string, args map[string]any) (string, map[string]any) {
	t.Helper()
	result, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: name, Arguments: args})
	if err != nil {
		t.Fatal(err)
	}
	structured, _ := result.StructuredContent.(map[string]any)
	return textOf(result), structured
}

func textOf(result *mcp.CallToolResult) string {
	var all strings.Builder
	for _, c := range result.Content {
		if text, ok := c.(*mcp.TextContent); ok {
			all.WriteString(text.Text)
		}
	}
	return all.String()
}

// answering returns client options whose person answers each question in turn.
func answering(answers ...*mcp.ElicitResult) (*mcp.ClientOptions, *[]string) {
	asked := &[]string{}
	var mu sync.Mutex // a client asks the questions of one result at the same time
	return &mcp.ClientOptions{ElicitationHandler: func(_ context.Context, req *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
		mu.Lock()
		defer mu.Unlock()
		*asked = append(*asked, req.Params.Message)
		answer := answers[0]
		if len(answers) > 1 {
			answers = answers[1:]
		}
		return answer, nil
	}}, asked
}

// send handles a request with header lines.
func send(e *servertest.Env, method, path, body string, headers ...string) *httptest.ResponseRecorder {
	w, r := httptest.NewRecorder(), httptest.NewRequest(method, path, strings.NewReader(body))
	for _, line := range headers {
		name, value, _ := strings.Cut(line, ": ")
		r.Header.Set(name, value)
	}
	e.Server.ServeHTTP(w, r)
	return w
}
