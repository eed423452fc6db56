package mcptool

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"agenthost/internal/fake/fakemcp"
	"agenthost/pkg/spec"
	"agenthost/pkg/tool"
	adkauth "agenthost/wing/connection"
)

// TestMain lets the test binary also run as an MCP server.
func TestMain(m *testing.M) {
	fakemcp.ServeIfAsked()
	goleak.VerifyTestMain(m)
}

// An mcpHost is an MCP server over HTTP that can be restarted, and counts the
// requests that carry the right key.
type mcpHost struct {
	*httptest.Server
	now     atomic.Pointer[http.Handler]
	serving *mcp.Server
}

func serveMCP(t *testing.T, sse bool) *mcpHost {
	h := &mcpHost{}
	h.restart(sse, "the first")
	h.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Key") != "k3y" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		(*h.now.Load()).ServeHTTP(w, r)
	}))
	t.Cleanup(h.Close)
	return h
}

// restart replaces the server with a new one that does not have the old sessions.
func (h *mcpHost) restart(sse bool, title string) {
	h.forget()
	server := fakemcp.New(title)
	h.serving = server
	of := func(*http.Request) *mcp.Server { return server }
	var handler http.Handler = mcp.NewStreamableHTTPHandler(of, nil)
	if sse {
		handler = mcp.NewSSEHandler(of, nil)
	}
	h.now.Store(&handler)
}

// forget ends all sessions.
func (h *mcpHost) forget() {
	if h.serving == nil {
		return
	}
	for session := range h.serving.Sessions() {
		_ = session.Close()
	}
}

// buildSet builds a kind's set, which closes with the test.
func buildSet(t testing.TB, kind, yaml string) tool.Set {
	t.Helper()
	return buildSetWith(t, &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}, kind, yaml)
}

// buildSetWith is buildSet with the host's HTTP client.
func buildSetWith(t testing.TB, client *http.Client, kind, yaml string) tool.Set {
	t.Helper()
	k, ok := slices.Concat(Kinds(), Toolsets[adkauth.ADKAuth]()).Lookup(kind)
	if !ok {
		t.Fatalf("no kind %s", kind)
	}
	n, ds := spec.Parse("root_agent.yaml", []byte(yaml))
	if err := ds.Err(); err != nil {
		t.Fatal(err)
	}
	plan, ds := k.Decode(n)
	ds = append(ds, plan.Config.(interface {
		Check(*spec.Node) spec.Diagnostics
	}).Check(n)...)
	if err := ds.Err(); err != nil {
		t.Fatal(err)
	}
	set, err := plan.Build(t.Context(), tool.Env{Dir: t.TempDir(), HTTP: client, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = set.Close() })
	return set
}

// self returns a server's configuration: the test binary in a mode.
func self(mood string) string {
	return fmt.Sprintf("command: [%q]\nenv: {%s: %s, TOKEN: t0ken}\n", os.Args[0], fakemcp.Asked, mood)
}

// onlyLink returns a set's only link.
func onlyLink(t *testing.T, set tool.Set) *link {
	t.Helper()
	links := set.(*serverSet).links.links
	if len(links) != 1 {
		t.Fatalf("%d links, want 1", len(links))
	}
	for _, l := range links {
		return l
	}
	return nil
}

func namesOf(t *testing.T, set tool.Set) []string {
	t.Helper()
	tools, err := set.Tools(t.Context())
	if err != nil {
		t.Fatalf("Tools: %v", err)
	}
	var names []string
	for _, one := range tools {
		names = append(names, one.Declaration().Name)
	}
	return names
}

// callOf calls a set's tool by its name.
func callOf(t *testing.T, set tool.Set, name string, args map[string]any) (map[string]any, error) {
	t.Helper()
	tools, err := set.Tools(t.Context())
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(tools, func(one tool.Tool) bool { return one.Declaration().Name == name })
	if i < 0 {
		t.Fatalf("there is no tool %s", name)
	}
	res, err := tools[i].Run(t.Context(), &tool.Call{Args: args})
	if err != nil {
		return nil, err
	}
	return res.Response, nil
}

func whoServes(t *testing.T, set tool.Set) map[string]any {
	t.Helper()
	result, err := callOf(t, set, "who", nil)
	if err != nil {
		t.Fatalf("who: %v", err)
	}
	who, _ := result["structuredContent"].(map[string]any)
	return who
}

// TestMCPOverEachTransport checks that tools are listed and called in the same way over all
// transports, in this package's syntax and in ADK's.
func TestMCPOverEachTransport(t *testing.T) {
	http, sse := serveMCP(t, false), serveMCP(t, true)
	const key = "headers: {X-Key: k3y}"
	program := fmt.Sprintf("command: %q, env: {%s: serve}", os.Args[0], fakemcp.Asked)
	for _, tt := range []struct{ name, kind, yaml string }{
		{"program", "mcp", self("serve")},
		{"http", "mcp", "url: " + http.URL + "/mcp\n" + key},
		{"sse", "mcp", "transport: sse\nurl: " + sse.URL + "\n" + key},
		{"ADK's program", "McpToolset", "stdio_connection_params: {server_params: {" + program + "}, timeout: 20}"},
		{"ADK's program without timeout", "McpToolset", "stdio_server_params: {" + program + "}"},
		{"ADK's http", "McpToolset", "streamable_http_connection_params: {url: '" + http.URL + "', " + key + "}"},
		{"ADK's sse", "MCPToolset", "sse_connection_params: {url: '" + sse.URL + "', " + key + "}"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			set := buildSet(t, tt.kind, tt.yaml+"\ntool_filter: [add, fail]\ntool_name_prefix: calc\n")
			if !tool.Dynamic(set) {
				t.Error("Dynamic = false, want true")
			}
			if diff := cmp.Diff([]string{"calc_add", "calc_fail"}, namesOf(t, set)); diff != "" {
				t.Fatalf("tools (-want +got):\n%s", diff)
			}
			result, err := callOf(t, set, "calc_add", map[string]any{"a": 2, "b": 3})
			want := map[string]any{
				"content":           []any{map[string]any{"type": "text", "text": `{"sum":5}`}},
				"structuredContent": map[string]any{"sum": int64(5)},
				"isError":           false,
			}
			if diff := cmp.Diff(want, result); diff != "" || err != nil {
				t.Errorf("add: %v (-want +got):\n%s", err, diff)
			}
			_, err = callOf(t, set, "calc_add", map[string]any{"a": 2})
			if wrong := (*tool.ArgsError)(nil); !errors.As(err, &wrong) || !slices.Equal(wrong.Missing, []string{"b"}) {
				t.Errorf("add without b: %v", err)
			}
			_, err = callOf(t, set, "calc_fail", nil)
			want = map[string]any{"content": []any{map[string]any{"type": "text", "text": "there is no such order"}}, "isError": true}
			if failed := (*tool.AnswerError)(nil); errText(err) != "tool calc_fail: there is no such order" || !errors.As(err, &failed) || !cmp.Equal(want, failed.Response) {
				t.Errorf("fail: %v", err)
			}
		})
	}
}

// Close terminates the server's session, unless terminate_on_close is false.
func TestMCPTerminateOnClose(t *testing.T) {
	for _, tt := range []struct {
		yaml string
		want int64
	}{{"", 1}, {", terminate_on_close: true", 1}, {", terminate_on_close: false", 0}} {
		h := serveMCP(t, false)
		handler, ended := *h.now.Load(), atomic.Int64{}
		var counting http.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodDelete {
				ended.Add(1)
			}
			handler.ServeHTTP(w, r)
		})
		h.now.Store(&counting)
		set := buildSet(t, "McpToolset", "streamable_http_connection_params: {url: '"+h.URL+"', headers: {X-Key: k3y}"+tt.yaml+"}")
		namesOf(t, set)
		if err := set.Close(); err != nil {
			t.Error(err)
		}
		if got := ended.Load(); got != tt.want {
			t.Errorf("with %q, %d sessions were terminated, want %d", tt.yaml, got, tt.want)
		}
		h.forget()
	}
}

// TestMCPSecrets checks that responses never contain the server's secrets.
func TestMCPSecrets(t *testing.T) {
	set := buildSet(t, "mcp", self("serve"))
	set.(*serverSet).redactor = spec.NewRedactor("t0ken")
	result, err := callOf(t, set, "echo", map[string]any{"name": "TOKEN"})
	if text := fmt.Sprint(result, err); strings.Contains(text, "t0ken") || !strings.Contains(text, "TOKEN=***") {
		t.Errorf("echo = %s", text)
	}
}

// A server that exits during a call fails that call. The server may have executed it. The next call
// restarts it.
func TestMCPServerExitsDuringCall(t *testing.T) {
	set := buildSet(t, "mcp", self("serve"))
	before := whoServes(t, set)["pid"]
	_, err := callOf(t, set, "die", nil)
	want := "MCP tool execution failed: the connection to mcp server " + filepath.Base(os.Args[0]) + " (root_agent.yaml:1:11) closed during the call; the call may have been executed"
	if errText(err) != want {
		t.Errorf("die: %v\nwant %s", err, want)
	}
	if after := whoServes(t, set)["pid"]; after == before {
		t.Error("the server that exited still responds")
	}
}

// A call is retried if a restarted server does not recognize the session.
func TestMCPServerRestarted(t *testing.T) {
	h := serveMCP(t, false)
	set := buildSet(t, "mcp", "url: "+h.URL+"\nheaders: {X-Key: k3y}")
	tools, err := set.Tools(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	h.restart(false, "the second")
	i := slices.IndexFunc(tools, func(one tool.Tool) bool { return one.Declaration().Name == "who" })
	res, err := tools[i].Run(t.Context(), &tool.Call{})
	if err != nil {
		t.Fatal(err)
	}
	if who, _ := res.Response["structuredContent"].(map[string]any); who["name"] != "the second" {
		t.Errorf("%s responded, want the second", who["name"])
	}
}

// Errors name the server, its position and a hint, but not the whole URL.
func TestMCPErrors(t *testing.T) {
	h := serveMCP(t, false)
	gone := httptest.NewServer(nil)
	gone.Close()
	program := filepath.Base(os.Args[0])
	for _, tt := range []struct{ name, yaml, want string }{
		{
			"no program", "command: [no-such-program-here, -y]",
			"mcp server no-such-program-here (root_agent.yaml:1:11): program no-such-program-here not found; install it on the host, or use its absolute path",
		},
		{
			"a program that ends", self("quit"),
			"mcp server " + program + " (root_agent.yaml:1:11): the server program failed: calling \"initialize\": EOF; the host log has its last line of output",
		},
		{
			"a program that does not respond", self("deaf") + "connect_timeout: 200ms",
			"mcp server " + program + " (root_agent.yaml:1:11): no response within 200ms; increase connect_timeout to wait longer",
		},
		{
			"nothing listens", "url: " + gone.URL + "/mcp?key=s3cret",
			"mcp server " + strings.TrimPrefix(gone.URL, "http://") + " (root_agent.yaml:1:6): server unreachable: ",
		},
		{
			"no key", "url: " + h.URL,
			"mcp server " + strings.TrimPrefix(h.URL, "http://") + " (root_agent.yaml:1:6): the server requires authorization: write auth: oauth, auth: NAME for a connection in app.yaml, or headers",
		},
		{
			"a filter that nothing passes", "url: " + h.URL + "\nheaders: {X-Key: k3y}\ntool_filter: [ad]",
			"mcp server " + strings.TrimPrefix(h.URL, "http://") + " (root_agent.yaml:1:6) has none of the tools in tool_filter; its tools are: add, die, echo, fail, who",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := buildSet(t, "mcp", tt.yaml).Tools(t.Context())
			text := errText(err)
			if !strings.HasPrefix(text, tt.want) || strings.Contains(text, "s3cret") {
				t.Errorf("Tools: %s\nwant %s", text, tt.want)
			}
			t.Log(text)
		})
	}
}

// The last stderr line from a program is logged without secrets, and is not in the error for users.
func TestMCPLogsStderr(t *testing.T) {
	var log strings.Builder
	set := buildSet(t, "mcp", self("quit")).(*serverSet)
	set.logger, set.redactor = slog.New(slog.NewTextHandler(&log, nil)), spec.NewRedactor("t0ken")
	_, err := set.Tools(t.Context())
	if text := errText(err); strings.Contains(text, "account") {
		t.Errorf("the error contains stderr: %s", text)
	}
	if !strings.Contains(log.String(), `stderr="no account for ***"`) {
		t.Errorf("the log has %s", log.String())
	}
}

// A canceled wait for a server returns at once and leaves no program running.
func TestMCPContextCancelled(t *testing.T) {
	set := buildSet(t, "mcp", self("deaf"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := set.Tools(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Tools: %v", err)
	}
}

// App tests call no server. The tools are tool_filter's, answered by stubs.
func TestMCPOffline(t *testing.T) {
	k, _ := Kinds().Lookup("mcp")
	for _, tt := range []struct{ yaml, want string }{
		{"url: http://127.0.0.1:1\ntool_filter: [find]\ntool_name_prefix: docs", "docs_find: tests call no mcp server: set a response for the tool with tools: {docs_find: {return: {…}}}"},
		{"url: http://127.0.0.1:1", "mcp server 127.0.0.1:1 (root_agent.yaml:1:6) is not called in tests: list its tools in tool_filter, and set their responses under tools"},
	} {
		n, _ := spec.Parse("root_agent.yaml", []byte(tt.yaml))
		plan, _ := k.Decode(n)
		set, err := plan.Build(t.Context(), tool.Env{Offline: true, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		tools, err := set.Tools(t.Context())
		got := errText(err)
		for _, one := range tools {
			_, err := one.Run(t.Context(), &tool.Call{})
			got += one.Declaration().Name + ": " + errText(err)
		}
		if got != tt.want {
			t.Errorf("%s\ngot  %s\nwant %s", strconv.Quote(tt.yaml), got, tt.want)
		}
	}
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
