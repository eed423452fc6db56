package mcptool

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"agenthost/pkg/session"
	"agenthost/pkg/spec"
	"agenthost/pkg/tool"
)

func newTestRedactor() *spec.Redactor { return spec.NewRedactor("k3y-of-ops") }

// A mapState is a session's state, as a map.
type mapState map[string]any

func (s mapState) Get(key string) (any, bool)          { v, ok := s[key]; return v, ok }
func (s mapState) Set(key string, value any)           { s[key] = value }
func (s mapState) Update(...session.StateUpdate) error { return nil }
func (s mapState) All() map[string]any                 { return s }

// runAs calls a set's tool for a user with a token.
func runAs(t *testing.T, set tool.Set, token, name string) (string, error) {
	t.Helper()
	call := &tool.Call{State: mapState{"user:token": token}, Args: map[string]any{}}
	tools, err := set.(tool.SessionSet).ListTools(t.Context(), call)
	if err != nil {
		return "", err
	}
	for _, one := range tools {
		if one.Declaration().Name == name {
			res, err := one.Run(t.Context(), call)
			if err != nil {
				return "", err
			}
			return fmt.Sprint(res.Response["content"]), nil
		}
	}
	return "", fmt.Errorf("no tool %s", name)
}

// serveTokens serves tools over HTTP; each server session belongs to the bearer token that began
// it. The tool token returns it.
func serveTokens(t *testing.T, opened *atomic.Int64) *mcpHost {
	h := &mcpHost{}
	of := func(r *http.Request) *mcp.Server {
		token := r.Header.Get("Authorization")
		s := mcp.NewServer(&mcp.Implementation{Name: "tokens", Version: "1"}, &mcp.ServerOptions{
			InitializedHandler: func(context.Context, *mcp.InitializedRequest) { opened.Add(1) },
		})
		mcp.AddTool(s, &mcp.Tool{Name: "token"}, func(_ context.Context, req *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
			text := token + " " + req.Extra.Header.Get("Authorization")
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}, nil, nil
		})
		return s
	}
	h.Server = httptest.NewServer(mcp.NewStreamableHTTPHandler(of, nil))
	t.Cleanup(h.Close)
	return h
}

// TestLinksOfUsers: headers with placeholders are those of each call's session. Users share no
// connection, a connection is used again, and the token is redacted.
func TestLinksOfUsers(t *testing.T) {
	var opened atomic.Int64
	h := serveTokens(t, &opened)
	set := buildSet(t, "mcp", "url: "+h.URL+"\nheaders: {Authorization: 'Bearer {user:token}', X-Agent: '{agent}'}")
	for range 3 {
		for _, user := range []string{"alice-alice", "bob-bob-bob"} {
			got, err := runAs(t, set, user, "token")
			if err != nil || strings.Contains(got, user) || !strings.Contains(got, "Bearer *** Bearer ***") {
				t.Errorf("token of %s = %s, %v", user, got, err)
			}
		}
	}
	if n := opened.Load(); n != 2 {
		t.Errorf("%d sessions for 2 users", n)
	}
	set.(*serverSet).secrets = nil
	if got, _ := runAs(t, set, "eve", "token"); !strings.Contains(got, "Bearer eve Bearer eve") {
		t.Errorf("a short token: %s", got)
	}
	_, err := set.Tools(t.Context())
	if want := "header Authorization: user:token has no value; if it is optional, write {user:token?}"; !strings.HasSuffix(errText(err), want) {
		t.Errorf("Tools without a session: %v", err)
	}
	_, err = runAs(t, set, "a\r\nX-Admin: 1", "token")
	if want := "header Authorization: the value contains a line break"; !strings.HasSuffix(errText(err), want) {
		t.Errorf("a token with a line break: %v", err)
	}
}

// TestLinksBounded: users' connections close when they are idle, the oldest closes when there are
// too many, and none is opened while all are in use.
func TestLinksBounded(t *testing.T) {
	var opened atomic.Int64
	h := serveTokens(t, &opened)
	set := buildSet(t, "mcp", "url: "+h.URL+"\nheaders: {X-Token: '{user:token}'}").(*serverSet)
	now := time.Unix(0, 0)
	set.now = func() time.Time { return now }
	for i := range 3 {
		if _, err := runAs(t, set, fmt.Sprint("user", i), "token"); err != nil {
			t.Fatal(err)
		}
	}
	now = now.Add(maxIdleLinks / 2)
	if _, err := runAs(t, set, "user0", "token"); err != nil {
		t.Fatal(err)
	}
	now = now.Add(maxIdleLinks / 2)
	set.links.closeIdle()
	if n := len(set.links.links); n != 1 {
		t.Errorf("%d links are open after the idle ones were closed, want 1", n)
	}
	var held []func()
	for i := range maxLinks {
		_, release, err := set.acquireLink(t.Context(), &tool.Call{State: mapState{"user:token": fmt.Sprint("other", i)}})
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, release)
	}
	_, err := runAs(t, set, "late", "token")
	if want := "100 connections with different headers are in use, the limit; try again later"; !strings.HasSuffix(errText(err), want) {
		t.Errorf("with all links in use: %v", err)
	}
	held[0]()
	if _, err := runAs(t, set, "late", "token"); err != nil {
		t.Errorf("with an unused link: %v", err)
	}
	for _, release := range held[1:] {
		release()
	}
	if n := len(set.links.links); n != maxLinks {
		t.Errorf("%d links, want %d", n, maxLinks)
	}
}

// TestListCache: with list_cache the tools are listed once, until the time is over or the
// server reports a change. Without it they are listed each time.
func TestListCache(t *testing.T) {
	h := serveMCP(t, false)
	lists := 0
	changed := make(chan struct{}, 1)
	h.serving.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			if method == "tools/list" {
				lists++
			}
			return next(ctx, method, req)
		}
	})
	yaml := "streamable_http_connection_params: {url: '" + h.URL + "', headers: {X-Key: k3y}}\n"
	now := time.Unix(0, 0)
	open := func(more string) *serverSet {
		lists = 0
		set := buildSet(t, "McpToolset", yaml+more).(*serverSet)
		set.now = func() time.Time { return now }
		return set
	}
	set := open("")
	namesOf(t, set)
	namesOf(t, set)
	if lists != 2 {
		t.Errorf("without a cache: %d lists, want 2", lists)
	}
	set = open("tool_list_cache_ttl_seconds: 60")
	namesOf(t, set)
	namesOf(t, set)
	if lists != 1 {
		t.Errorf("with a cache: %d lists, want 1", lists)
	}
	now = now.Add(time.Minute)
	namesOf(t, set)
	if lists != 2 {
		t.Errorf("after the time of the cache: %d lists, want 2", lists)
	}
	onlyLink(t, set).lists.tools.watchDrops(func() { changed <- struct{}{} })
	mcp.AddTool(h.serving, &mcp.Tool{Name: "aaa"}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
		return nil, nil, nil
	})
	<-changed
	if names := namesOf(t, set); names[0] != "aaa" || lists != 3 {
		t.Errorf("after a change: %v, %d lists", names, lists)
	}
}

// TestConfirmByAnnotations: confirm can use the server's hints about the tool; without hints a tool
// is destructive.
func TestConfirmByAnnotations(t *testing.T) {
	s := serveRaw(t)
	s.answer("tools/list", `{"tools":[
		{"name":"drop","inputSchema":{"type":"object"}},
		{"name":"find","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}},
		{"name":"note","inputSchema":{"type":"object"},"annotations":{"destructiveHint":false,"openWorldHint":false}}
	]}`)
	set := buildSet(t, "mcp", "url: "+s.URL+"\nconfirm: mcp.destructive || mcp.tool == 'note' && state.careful")
	tools, err := set.Tools(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, careful := range []bool{false, true} {
		for _, one := range tools {
			needed, err := tool.CapabilitiesOf(one).Confirm.NeedsConfirmation(t.Context(), &tool.Call{State: mapState{"careful": careful}})
			got = append(got, fmt.Sprint(one.Declaration().Name, " ", needed, " ", err))
		}
	}
	want := []string{"drop true <nil>", "find false <nil>", "note false <nil>", "drop true <nil>", "find false <nil>", "note true <nil>"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("confirmations (-want +got):\n%s", diff)
	}
}
