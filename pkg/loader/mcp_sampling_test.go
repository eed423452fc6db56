package loader

//lint:file-ignore SA1019 servers use sampling until MCP removes it

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"agenthost/pkg/model"
)

// TestSamplingSeesServerMessagesOnly runs an app whose MCP server uses the agent's model during a
// call: the model sees the server's messages only, requests are bounded and count against
// max_llm_calls, and without sampling the server cannot use it.
func TestSamplingSeesServerMessagesOnly(t *testing.T) {
	request := mcp.CreateMessageParams{SystemPrompt: "Shorten.", MaxTokens: 20, Messages: []*mcp.SamplingMessage{{Role: "user", Content: &mcp.TextContent{Text: "a long text"}}}}
	huge := request
	huge.Messages = []*mcp.SamplingMessage{{Role: "user", Content: &mcp.TextContent{Text: strings.Repeat("x", 2<<20)}}}
	link := request
	link.Messages = []*mcp.SamplingMessage{{Role: "user", Content: &mcp.ResourceLink{URI: "file:///etc/passwd", Name: "x"}}}
	empty := mcp.CreateMessageParams{}
	for _, tt := range []struct {
		name, sampling, limit string
		requests              []mcp.CreateMessageParams
		want                  string
	}{
		{"one request", "sampling: {}", "", []mcp.CreateMessageParams{request}, "demo: Shorten./a long text"},
		{"too many requests", "sampling: {max_calls: 1}", "", []mcp.CreateMessageParams{request, request}, "the limit of model requests in a call, 1, is reached"},
		{"not configured", "", "", []mcp.CreateMessageParams{request}, "does not support"},
		{"too large", "sampling: {}", "", []mcp.CreateMessageParams{huge}, "the messages have 2097160 bytes, more than 1048576"},
		{"another content", "sampling: {}", "", []mcp.CreateMessageParams{link}, "invalid params"},
		{"no messages", "sampling: {}", "", []mcp.CreateMessageParams{empty}, "messages are required"},
		{"limit of the run", "sampling: {}", "run_config: {max_llm_calls: 1}", []mcp.CreateMessageParams{request}, "the model failed"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := newMCPApp(t, map[string]string{
				"app.yaml":        "models: {m: {provider: scripted, script: s.yaml, model: demo}}\n" + tt.limit,
				"root_agent.yaml": "name: a\nmodel: m\ninstruction: SECRET\ntools:\n  - mcp: {url: URL, tool_filter: [shorten], " + tt.sampling + "}",
				"s.yaml": `- when: instruction == "Shorten."
  text: "{instruction}/{user}"
- when: responses.shorten == nil
  calls: [{name: shorten}]
- text: "{responses.shorten}"
`,
			})
			var got string
			mcp.AddTool(a.server, &mcp.Tool{Name: "shorten"}, func(ctx context.Context, req *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
				for i := range tt.requests {
					res, err := req.Session.CreateMessage(ctx, &tt.requests[i])
					if err != nil {
						got = err.Error()
						continue
					}
					text, _ := res.Content.(*mcp.TextContent)
					got = res.Model + ": " + text.Text
				}
				return &mcp.CallToolResult{}, nil, nil
			})
			events, _ := a.run(t, model.UserText("go"), nil)
			if !strings.Contains(got, tt.want) {
				t.Errorf("the server got %q, want %q", got, tt.want)
			}
			if tt.limit == "" && strings.Contains(events, "error: ") {
				t.Errorf("the turn failed: %s", events)
			}
			if strings.Contains(fmt.Sprint(got), "SECRET") {
				t.Errorf("the server read the instruction: %s", got)
			}
		})
	}
}
