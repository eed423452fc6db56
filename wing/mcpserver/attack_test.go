package mcpserver_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"agenthost/internal/servertest"
	"agenthost/pkg/server"
)

// newAuth returns authentication for the users u and v, for w who may not use the app desk, and for
// the tokens that an issuer signs.
func newAuth(t *testing.T) *server.Auth {
	t.Helper()
	dir := t.TempDir()
	keys := filepath.Join(dir, "keys.json")
	text := fmt.Sprintf(`tokens:
  - {token: token-of-u-0123456789, claims: {sub: u}}
  - {token: token-of-v-0123456789, claims: {sub: v}}
  - {token: token-of-w-0123456789, claims: {sub: w, apps: [other]}}
jwt: [{issuer: "https://login.example", audience: desk, jwks: %q}]
apps: claims.apps == nil || app in claims.apps
`, keys)
	for file, content := range map[string]string{filepath.Join(dir, "auth.yaml"): text, keys: `{"keys":[]}`} {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	auth, err := server.ReadAuth(filepath.Join(dir, "auth.yaml"), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(auth.Close)
	return auth
}

const (
	tokenU = "token-of-u-0123456789"
	tokenV = "token-of-v-0123456789"
)

// A request without a token leads to the metadata, which names the issuers; the metadata does not
// depend on the app. A token for other apps is rejected.
func TestProtectedResource(t *testing.T) {
	e, _ := newEnv(t, readDesk(t), nil, newAuth(t))
	for _, app := range []string{"desk", "missing"} {
		w := send(e, "POST", "/apps/"+app+"/mcp", "{}")
		servertest.ExpectResponse(t, w, 401, `{"detail":"Not authenticated"}`)
		if got := w.Header().Get("WWW-Authenticate"); got != `Bearer resource_metadata="http://example.com/.well-known/oauth-protected-resource/apps/`+app+`/mcp"` {
			t.Errorf("WWW-Authenticate is %s", got)
		}
		servertest.ExpectResponse(t, send(e, "GET", "/.well-known/oauth-protected-resource/apps/"+app+"/mcp", ""), 200,
			`{"resource":"http://example.com/apps/`+app+`/mcp","authorization_servers":["https://login.example"],"bearer_methods_supported":["header"]}`)
	}
	servertest.ExpectResponse(t, send(e, "POST", "/apps/desk/mcp", "{}", "Authorization: Bearer token-of-w-0123456789"), 403, `{"detail":"Forbidden"}`)
	open, _ := newEnv(t, readDesk(t), nil, nil)
	servertest.ExpectResponse(t, send(open, "GET", "/.well-known/oauth-protected-resource/apps/desk/mcp", ""), 404, `{"detail":"Not Found"}`)
}

// Another user's handle, file, session ID and request state are the same as unknown ones. The
// control is their owner.
func TestForeignHandles(t *testing.T) {
	_, url := newEnv(t, readDesk(t), nil, newAuth(t))
	for _, era := range eras {
		u, v := connect(t, url+"/apps/desk/mcp", era, tokenU, nil), connect(t, url+"/apps/desk/mcp", era, tokenV, nil)
		_, structured := call(t, u, "write_note", map[string]any{"request": "save"})
		handle := structured["session"].(string)
		foreign, _ := call(t, v, "desk", map[string]any{"request": "x", "session": handle})
		unknown, _ := call(t, v, "desk", map[string]any{"request": "x", "session": "mcp-none"})
		if strings.Replace(foreign, handle, "mcp-none", 1) != unknown || !strings.HasPrefix(unknown, "unknown session") {
			t.Errorf("%s: a foreign handle: %q, an unknown one: %q", era, foreign, unknown)
		}
		uri := "artifact://" + handle + "/note.txt"
		if _, err := v.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: uri}); err == nil {
			t.Errorf("%s: v has read %s", era, uri)
		}
		if _, err := u.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: uri}); err != nil {
			t.Errorf("%s: control: %v", era, err)
		}
	}
}

// A session of 2025-11-25 belongs to the user who has opened it: for another one it is not found, as
// one that does not exist.
func TestForeignConnection(t *testing.T) {
	e, url := newEnv(t, readDesk(t), nil, newAuth(t))
	id := connect(t, url+"/apps/desk/mcp", eras[0], tokenU, nil).ID()
	list := func(token, id string) (int, string) {
		w := send(e, "POST", "/apps/desk/mcp", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, "Authorization: Bearer "+token, "Mcp-Session-Id: "+id,
			"Content-Type: application/json", "Accept: application/json, text/event-stream", "MCP-Protocol-Version: 2025-11-25")
		return w.Code, w.Body.String()
	}
	foreign, text := list(tokenV, id)
	unknown, same := list(tokenV, "nope")
	if foreign != 404 || unknown != 404 || text != same {
		t.Errorf("a foreign session is %d %q, an unknown one %d %q", foreign, text, unknown, same)
	}
	if code, text := list(tokenU, id); code != 200 {
		t.Errorf("control: %d %s", code, text)
	}
}

// A request state is valid once, for its caller, tool and arguments. The control is the first use.
func TestRequestState(t *testing.T) {
	_, url := newEnv(t, readDesk(t), nil, newAuth(t))
	raw := &mcp.ClientOptions{MultiRoundTrip: &mcp.MultiRoundTripOptions{Disabled: true}, Capabilities: &mcp.ClientCapabilities{Elicitation: &mcp.ElicitationCapabilities{}}}
	u, v := connect(t, url+"/apps/desk/mcp", eras[1], tokenU, raw), connect(t, url+"/apps/desk/mcp", eras[1], tokenV, raw)
	args := map[string]any{"request": "I want a refund"}
	first, err := u.CallTool(t.Context(), &mcp.CallToolParams{Name: "desk", Arguments: args})
	if err != nil || len(first.InputRequests) != 1 || first.RequestState == "" {
		t.Fatalf("%v %v", first, err)
	}
	responses := mcp.InputResponseMap{"of another call": &mcp.ElicitResult{Action: "accept"}}
	for id := range first.InputRequests {
		responses[id] = &mcp.ElicitResult{Action: "accept", Content: map[string]any{"confirmed": true}}
	}
	answer := func(s *mcp.ClientSession, name string, args map[string]any, state string, responses mcp.InputResponseMap) (*mcp.CallToolResult, error) {
		return s.CallTool(t.Context(), &mcp.CallToolParams{Name: name, Arguments: args, RequestState: state, InputResponses: responses})
	}
	changed := "0" + first.RequestState[1:]
	if changed == first.RequestState { // one state in sixteen
		changed = "1" + first.RequestState[1:]
	}
	const invalid = "requestState is not that of an open question"
	for _, tt := range []struct {
		what  string
		who   *mcp.ClientSession
		tool  string
		args  map[string]any
		state string
		want  string
	}{
		{"changed", u, "desk", args, changed, invalid},
		{"another session", u, "desk", args, first.RequestState + "x", invalid},
		{"no dot", u, "desk", args, "x", invalid},
		{"long", u, "desk", args, strings.Repeat("x.", 2000), invalid},
		{"another user's", v, "desk", args, first.RequestState, invalid},
		{"another tool's", u, "write_note", args, first.RequestState, invalid},
		{"other arguments", u, "desk", map[string]any{"request": "a large refund"}, first.RequestState, invalid},
		{"none", u, "desk", args, "", "inputResponses require the requestState"},
	} {
		if result, err := answer(tt.who, tt.tool, tt.args, tt.state, responses); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v %v, want %s", tt.what, result, err, tt.want)
		}
	}
	for _, bad := range []any{"yes", nil} { // not the form's, or missing
		again := mcp.InputResponseMap{}
		for id := range first.InputRequests {
			if bad != nil {
				again[id] = &mcp.ElicitResult{Action: "accept", Content: map[string]any{"confirmed": bad}}
			}
		}
		if result, err := answer(u, "desk", args, first.RequestState, again); err != nil || len(result.InputRequests) != 1 {
			t.Errorf("the answer %v: %v %v", bad, result, err)
		}
	}
	if result, err := answer(u, "desk", args, first.RequestState, responses); err != nil || textOf(result) != "You have 500 back." {
		t.Errorf("control: %v %v", result, err)
	}
	if result, err := answer(u, "desk", args, first.RequestState, responses); err == nil {
		t.Errorf("the second use: %v", result)
	}
}

// A canceled call stops the run: the session is free, and a later turn in it answers.
func TestCancel(t *testing.T) {
	_, url := newEnv(t, readDesk(t), nil, nil)
	for _, era := range eras {
		s := connect(t, url+"/apps/desk/mcp", era, "", nil)
		_, structured := call(t, s, "desk", map[string]any{"request": "hello"})
		handle := structured["session"]
		ctx, cancel := context.WithCancel(t.Context())
		started := make(chan struct{})
		done := make(chan error, 1)
		go func() {
			close(started)
			_, err := s.CallTool(ctx, &mcp.CallToolParams{Name: "desk", Arguments: map[string]any{"request": "wait", "session": handle}})
			done <- err
		}()
		<-started
		cancel()
		if err := <-done; err == nil {
			t.Errorf("%s: the canceled call has a result", era)
		}
		for attempt := 0; ; attempt++ { // the host waits a millisecond for the canceled run
			text, _ := call(t, s, "desk", map[string]any{"request": "next", "session": handle})
			if strings.HasPrefix(text, "Turn ") {
				break
			}
			if attempt > 5000 {
				t.Fatalf("%s: after a canceled call: %q", era, text)
			}
		}
	}
}

// Bodies, depths, tokens and sessions are bounded.
func TestBounds(t *testing.T) {
	e, url := newEnv(t, readDesk(t), nil, nil)
	headers := []string{"Content-Type: application/json", "Accept: application/json, text/event-stream"}
	huge := `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"` + strings.Repeat("x", 33<<20) + `"}}`
	if w := send(e, "POST", "/apps/desk/mcp", huge, headers...); w.Code != 413 {
		t.Errorf("a huge body: %d %.100s", w.Code, w.Body)
	}
	deep := `{"jsonrpc":"2.0","id":1,"method":"ping","params":` + strings.Repeat(`{"x":`, 100_000) + "1" + strings.Repeat("}", 100_000) + "}"
	if w := send(e, "POST", "/apps/desk/mcp", deep, headers...); w.Code < 400 {
		t.Errorf("a deep body: %d %.100s", w.Code, w.Body)
	}
	s := connect(t, url+"/apps/desk/mcp", eras[1], "", nil)
	params := &mcp.CallToolParams{Name: "desk", Arguments: map[string]any{"request": "x"}}
	params.SetProgressToken(strings.Repeat("x", 300))
	if _, err := s.CallTool(t.Context(), params); err == nil || !strings.Contains(err.Error(), "progressToken exceeds the limit of 256 bytes") {
		t.Errorf("a long token: %v", err)
	}
	const initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`
	for i := range 65 {
		w := send(e, "POST", "/apps/desk/mcp", initialize, headers...)
		if want := map[bool]int{true: 200, false: 429}[i < 64]; w.Code != want {
			t.Fatalf("session %d: %d %s, want %d", i+1, w.Code, w.Body, want)
		}
	}
}
