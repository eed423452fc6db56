package mcptool

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"agenthost/pkg/spec"
	"agenthost/pkg/tool"
)

// TestMCPStream: with stream, the progress that the server reports during a call are results,
// and its result is the last. Secrets are redacted.
func TestMCPStream(t *testing.T) {
	h := serveMCP(t, false)
	received := make(chan struct{})
	mcp.AddTool(h.serving, &mcp.Tool{Name: "count"}, func(ctx context.Context, req *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
		for i, text := range []string{"", "half, t0ken"} {
			err := req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{
				ProgressToken: req.Params.GetProgressToken(), Progress: float64(i + 1), Total: float64(4 * i), Message: text,
			})
			if err != nil {
				return nil, nil, err
			}
		}
		select {
		case <-received:
		case <-ctx.Done():
		}
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "done"}}}, nil, nil
	})
	set := buildSet(t, "mcp", "url: "+h.URL+"\nheaders: {X-Key: k3y}\ntool_filter: [count]\nstream: {}\n")
	set.(*serverSet).redactor = spec.NewRedactor("t0ken")
	tools, err := set.Tools(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for result, err := range tools[0].(tool.Streamer).Stream(t.Context(), &tool.Call{Args: map[string]any{}}) {
		if err != nil {
			t.Fatal(err)
		}
		text, _ := json.Marshal(result.Response)
		if got = append(got, string(text)); len(got) == 2 {
			close(received)
		}
	}
	want := `{"progress":1}
{"message":"half, ***","progress":2,"total":4}
{"content":[{"text":"done","type":"text"}],"isError":false}`
	if diff := cmp.Diff(want, strings.Join(got, "\n")); diff != "" {
		t.Errorf("results (-want +got):\n%s", diff)
	}
}
