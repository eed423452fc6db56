package loader

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"google.golang.org/genai"

	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
	"agenthost/pkg/store/storeurl"
)

// An mcpApp is an app x with an MCP server over HTTP, which runs in this process.
type mcpApp struct {
	*watchEnv
	host   *runtime.Host
	server *mcp.Server
	url    string
}

// newMCPApp serves an MCP server, and loads the app whose files contain URL for its address.
func newMCPApp(t *testing.T, files map[string]string) *mcpApp {
	t.Helper()
	server := mcp.NewServer(&mcp.Implementation{Name: "docs", Version: "1"}, nil)
	web := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil))
	t.Cleanup(web.Close)
	a := &mcpApp{watchEnv: newWatchEnv(t), server: server, url: web.URL}
	st, err := storeurl.Open(t.Context(), "memory:", nil)
	a.must(err)
	t.Cleanup(func() { _ = st.Close() })
	a.host = runtime.NewHost(st, nil)
	t.Cleanup(a.host.Close)
	a.watch = NewWatch(New(listKinds(), nil), a.host, []string{a.top}, &WatchOptions{Clock: a.clock})
	for name, text := range files {
		a.writeFile("x/"+name, strings.ReplaceAll(text, "URL", web.URL))
	}
	a.must(a.watch.Sync(t.Context()))
	return a
}

// run runs a turn, and returns its texts and its events.
func (a *mcpApp) run(t *testing.T, message *genai.Content, delta map[string]any) (string, []*session.Event) {
	t.Helper()
	req := &runtime.RunRequest{App: "x", UserID: "u", SessionID: "s", Message: message, CreateSession: true, StateDelta: delta}
	var texts []string
	var events []*session.Event
	for ev, err := range a.host.Run(t.Context(), req) {
		if err != nil {
			return strings.Join(texts, "\n") + "error: " + err.Error(), events
		}
		events = append(events, ev)
		if text := ev.Text(); text != "" && len(ev.Calls()) == 0 {
			texts = append(texts, text)
		}
	}
	return strings.Join(texts, "\n"), events
}

// TestPromptAndResources runs an app whose instruction is its MCP server's prompt, and whose model
// loads a resource from it.
func TestPromptAndResources(t *testing.T) {
	a := newMCPApp(t, map[string]string{
		"app.yaml":        "models: {m: {provider: scripted, script: s.yaml}}\ntools: {docs: {mcp: {url: URL, resources: true}}}",
		"root_agent.yaml": "name: a\nmodel: m\ninstruction: {mcp_prompt: {server: docs, name: support}}\ntools: [use: docs]",
		"s.yaml": `- when: instruction contains "Answer in de." && instruction contains '["terms"]' && responses.load_mcp_resource == nil
  calls: [{name: load_mcp_resource, args: {resource_names: [terms]}}]
- when: responses.load_mcp_resource != nil
  text: "{added}"
- text: "{instruction}"
`,
	})
	a.server.AddPrompt(&mcp.Prompt{Name: "support", Arguments: []*mcp.PromptArgument{{Name: "lang"}}}, func(_ context.Context, req *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		text := fmt.Sprintf("Answer in %s.", req.Params.Arguments["lang"])
		return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{{Role: "user", Content: &mcp.TextContent{Text: text}}}}, nil
	})
	a.server.AddResource(&mcp.Resource{Name: "terms", URI: "mem://terms"}, func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: "mem://terms", Text: "30 days"}}}, nil
	})
	got, _ := a.run(t, model.UserText("terms?"), map[string]any{"lang": "de"})
	if want := "Resource terms is: 30 days"; got != want {
		t.Errorf("answer = %s\nwant %s", got, want)
	}
}

// TestADKCredentialBeforeAppHeader checks that ADK's McpToolset credential authorizes the requests
// to the server, and that an app's header cannot replace it.
func TestADKCredentialBeforeAppHeader(t *testing.T) {
	a := newMCPApp(t, map[string]string{
		".env":     "DOCS_TOKEN=t0ken-of-docs\n",
		"app.yaml": "models: {m: {provider: scripted, script: s.yaml}}",
		"root_agent.yaml": `name: a
model: m
instruction: x
tools:
  - name: McpToolset
    args:
      streamable_http_connection_params: {url: URL, headers: {Authorization: other}}
      auth_scheme: {type: http, scheme: bearer}
      auth_credential: {auth_type: http, http: {scheme: bearer, credentials: {token: "${secret:DOCS_TOKEN}"}}}
`,
		"s.yaml": "- when: responses.who != nil\n  text: \"{responses.who.content}\"\n- calls: [{name: who}]\n",
	})
	seen := make(chan string, 1)
	mcp.AddTool(a.server, &mcp.Tool{Name: "who"}, func(_ context.Context, req *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
		header := req.Extra.Header.Get("Authorization")
		seen <- header
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: header}}}, nil, nil
	})
	got, _ := a.run(t, model.UserText("who am I?"), nil)
	if want := `[{"text":"Bearer ***","type":"text"}]`; got != want {
		t.Errorf("answer = %s, want %s", got, want)
	}
	if header := <-seen; header != "Bearer t0ken-of-docs" {
		t.Errorf("Authorization: %s", header)
	}
}

// askForm is a tool that asks the user for a size, and then to approve the size, before it orders.
func askForm(orders *[]string) mcp.ToolHandlerFor[struct{}, any] {
	return func(ctx context.Context, req *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
		size, err := req.Session.Elicit(ctx, &mcp.ElicitParams{Message: "Which size?", RequestedSchema: map[string]any{
			"type": "object", "required": []string{"size"},
			"properties": map[string]any{"size": map[string]any{"type": "string", "enum": []string{"S", "L"}}, "count": map[string]any{"type": "integer", "default": 1}},
		}})
		if err != nil || size.Action != "accept" {
			return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: "nothing ordered"}}}, nil, err
		}
		gift, err := req.Session.Elicit(ctx, &mcp.ElicitParams{Message: fmt.Sprint("Is ", size.Content["size"], " a gift?"), RequestedSchema: map[string]any{
			"type": "object", "properties": map[string]any{"gift": map[string]any{"type": "boolean"}},
		}})
		if err != nil || gift.Action != "accept" {
			return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: "nothing ordered"}}}, nil, err
		}
		*orders = append(*orders, fmt.Sprint(size.Content["size"], " ", size.Content["count"], " ", gift.Content["gift"]))
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "ordered"}}}, nil, nil
	}
}

// findConfirmation returns the request for confirmation in events.
func findConfirmation(t *testing.T, events []*session.Event) (id, hint string, payload map[string]any) {
	t.Helper()
	for _, ev := range events {
		for _, c := range ev.Calls() {
			if c.Name == runtime.RequestConfirmation {
				asked, _ := c.Args["toolConfirmation"].(map[string]any)
				hint, _ = asked["hint"].(string)
				payload, _ = asked["payload"].(map[string]any)
				id = c.ID
			}
		}
	}
	if id == "" {
		t.Fatal("no request for confirmation")
	}
	return id, hint, payload
}

func newConfirmation(id string, response map[string]any) *genai.Content {
	return &genai.Content{Role: genai.RoleUser, Parts: []*genai.Part{{FunctionResponse: &genai.FunctionResponse{
		ID: id, Name: runtime.RequestConfirmation, Response: response,
	}}}}
}

// TestElicitationRepeatsCallWithAnswers: a server's questions end the turn with a request for
// confirmation, and the call is made again with the answers, in resumable apps as well, also after
// the call itself was approved, and by another host. After a wrong answer the request is repeated,
// and a rejected question does not call the server.
func TestElicitationRepeatsCallWithAnswers(t *testing.T) {
	for _, resumable := range []bool{false, true} {
		t.Run(fmt.Sprint("resumable ", resumable), func(t *testing.T) {
			a := newMCPApp(t, map[string]string{
				"app.yaml":        fmt.Sprintf("models: {m: {provider: scripted, script: s.yaml}}\nresumability_config: {is_resumable: %v}", resumable),
				"root_agent.yaml": "name: a\nmodel: m\ninstruction: x\ntools: [mcp: {url: URL, elicitation: true, confirm: true}]",
				"s.yaml":          "- {when: responses.order == nil, calls: [{name: order}]}\n- {text: '{responses.order}'}\n",
			})
			var orders []string
			mcp.AddTool(a.server, &mcp.Tool{Name: "order"}, askForm(&orders))
			_, events := a.run(t, model.UserText("order"), nil)
			id, _, _ := findConfirmation(t, events)
			_, events = a.run(t, newConfirmation(id, map[string]any{"confirmed": true}), nil)
			id, hint, payload := findConfirmation(t, events)
			if want := "mcp server " + strings.TrimPrefix(a.url, "http://") + " (root_agent.yaml:4:20) asks: Which size?"; hint != want {
				t.Errorf("hint = %s\nwant %s", hint, want)
			}
			if diff := cmp.Diff(map[string]any{"size": nil, "count": 1.0}, payload["content"]); diff != "" {
				t.Errorf("content (-want +got):\n%s", diff)
			}
			_, events = a.run(t, newConfirmation(id, map[string]any{"confirmed": true, "payload": map[string]any{"content": map[string]any{"size": "XXL"}}}), nil)
			if id, hint, _ = findConfirmation(t, events); !strings.HasSuffix(hint, "Which size?") {
				t.Errorf("after a wrong answer: %s", hint)
			}
			payload["content"] = map[string]any{"size": "L", "count": int64(2)}
			_, events = a.run(t, newConfirmation(id, map[string]any{"confirmed": true, "payload": payload}), nil)
			if id, hint, _ = findConfirmation(t, events); !strings.HasSuffix(hint, "Is L a gift?") {
				t.Errorf("second question: %s", hint)
			}
			got, _ := a.run(t, newConfirmation(id, map[string]any{"confirmed": true, "payload": map[string]any{"gift": true}}), nil)
			if !strings.Contains(got, "ordered") || strings.Join(orders, ", ") != "L 2 true" {
				t.Errorf("answer = %s, orders = %v", got, orders)
			}
			_, events = a.run(t, model.UserText("order"), nil)
			id, _, _ = findConfirmation(t, events)
			_, events = a.run(t, newConfirmation(id, map[string]any{"confirmed": true}), nil)
			id, _, _ = findConfirmation(t, events)
			got, _ = a.run(t, newConfirmation(id, map[string]any{"confirmed": false}), nil)
			if !strings.Contains(got, "This tool call is rejected.") || len(orders) != 1 {
				t.Errorf("rejected: %s, orders = %v", got, orders)
			}
		})
	}
}
