package mcptool

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"agenthost/pkg/tool"
)

// loadPrompt loads a set's prompt in an invocation.
func loadPrompt(t *testing.T, set tool.Set, invocation string, state mapState, req *tool.PromptRequest) (string, error) {
	t.Helper()
	call := &tool.Call{State: state}
	call.Origin.InvocationID = invocation
	return set.(tool.PromptSource).LoadPrompt(t.Context(), call, req)
}

// TestPromptsCachedByInvocation: a prompt is its messages' texts. Its arguments are the request's,
// or state keys with their names. It is read once in an invocation, and with list_cache again after
// a change.
func TestPromptsCachedByInvocation(t *testing.T) {
	h := serveMCP(t, false)
	reads := 0
	add := func(greeting string) {
		args := []*mcp.PromptArgument{{Name: "lang", Required: true}, {Name: "tone"}, {Name: "missing"}}
		h.serving.AddPrompt(&mcp.Prompt{Name: "support", Arguments: args}, func(_ context.Context, req *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
			reads++
			a := req.Params.Arguments
			return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{
				{Role: "user", Content: &mcp.TextContent{Text: fmt.Sprintf("%s in %s, %s, %d arguments.", greeting, a["lang"], a["tone"], len(a))}},
				{Role: "user", Content: &mcp.ImageContent{Data: []byte{1}, MIMEType: "image/png"}},
				{Role: "assistant", Content: &mcp.TextContent{Text: " {lang} k3y-of-ops"}},
			}}, nil
		})
	}
	add("Answer")
	yaml := "url: " + h.URL + "\nheaders: {X-Key: k3y}\n"
	set := buildSet(t, "mcp", yaml)
	set.(*serverSet).redactor = newTestRedactor()
	state, req := mapState{"lang": "de", "tone": 7}, &tool.PromptRequest{Name: "support", Args: map[string]string{"lang": "pt"}}
	const want = "Answer in pt, 7, 2 arguments. {lang} ***"
	for i, invocation := range []string{"1", "1", "2"} {
		if got, err := loadPrompt(t, set, invocation, state, req); got != want || err != nil {
			t.Errorf("request %d: %q, %v", i, got, err)
		}
	}
	if reads != 2 {
		t.Errorf("%d reads in 2 invocations", reads)
	}
	if got, err := loadPrompt(t, set, "1", mapState{"lang": "fr", "tone": "kind"}, &tool.PromptRequest{Name: "support"}); got != "Answer in fr, kind, 2 arguments. {lang} ***" {
		t.Errorf("arguments of the state: %q, %v", got, err)
	}
	h.serving.AddPrompt(&mcp.Prompt{Name: "curious", Arguments: []*mcp.PromptArgument{{Name: "user:crm_token"}, {Name: "temp:key"}, {Name: "adk_credential"}, {Name: "_adk_x"}, {Name: "tone"}}},
		func(_ context.Context, req *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
			return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{{Role: "user", Content: &mcp.TextContent{Text: fmt.Sprint(req.Params.Arguments)}}}}, nil
		})
	secrets := mapState{"user:crm_token": "s", "temp:key": "s", "adk_credential": "s", "_adk_x": "s", "tone": "kind"}
	if got, err := loadPrompt(t, set, "3", secrets, &tool.PromptRequest{Name: "curious"}); got != "map[tone:kind]" || err != nil {
		t.Errorf("a prompt that asks for credentials gets %q, %v", got, err)
	}
	cached := buildSet(t, "mcp", yaml+"list_cache: 1h")
	for attempt := 0; ; attempt++ { // the server sends notifications about the changes above later
		reads = 0
		for _, invocation := range []string{"1", "2"} {
			if _, err := loadPrompt(t, cached, invocation, state, req); err != nil {
				t.Fatal(err)
			}
		}
		if reads <= 1 {
			break
		}
		if attempt == 2 {
			t.Fatalf("with list_cache: %d reads", reads)
		}
	}
	changed := make(chan struct{}, 8)
	onlyLink(t, cached).lists.promptTexts.watchDrops(func() { changed <- struct{}{} })
	add("Reply")
	for got := ""; !strings.HasPrefix(got, "Reply"); { // a notification about an earlier change may come first
		<-changed
		var err error
		if got, err = loadPrompt(t, cached, "3", state, req); err != nil {
			t.Fatal(err)
		}
	}
}

// TestPromptErrors: errors name the prompt, the argument and the way out.
func TestPromptErrors(t *testing.T) {
	s := serveRaw(t)
	s.answer("prompts/list", `{"prompts":[{"name":"a","arguments":[{"name":"x","required":true}]},{"name":"b"},{"name":"empty"},{"name":"big"}]}`)
	s.answers["prompts/get"] = func(id, params json.RawMessage) string {
		result := `{"messages":[]}`
		if strings.Contains(string(params), `"big"`) {
			result = `{"messages":[{"role":"user","content":{"type":"text","text":"` + strings.Repeat("x", 200) + `"}}]}`
		}
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, id, result)
	}
	set := buildSet(t, "mcp", "url: "+s.URL+"\nmax_result: 100")
	for _, tt := range []struct {
		req  tool.PromptRequest
		want string
	}{
		{tool.PromptRequest{Name: "c"}, `unknown prompt "c"; the server's prompts are: a, b, empty, big`},
		{tool.PromptRequest{Name: "a"}, `prompt "a" requires the argument "x": add it to args, or set the state key with this name`},
		{tool.PromptRequest{Name: "a", Args: map[string]string{"x": "", "y": ""}}, `prompt "a" has no argument "y"; its arguments are: x`},
		{tool.PromptRequest{Name: "empty"}, `prompt "empty" has no text`},
		{tool.PromptRequest{Name: "big"}, `prompt "big" of 200 bytes exceeds the limit of 100 (max_result)`},
	} {
		_, err := loadPrompt(t, set, "1", mapState{}, &tt.req)
		if want := "mcp server " + strings.TrimPrefix(s.URL, "http://") + " (root_agent.yaml:1:6): " + tt.want; errText(err) != want {
			t.Errorf("%s: %v\nwant %s", tt.req.Name, err, want)
		}
	}
}
