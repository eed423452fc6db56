package mcptool

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"agenthost/pkg/tool"
)

// TestResultOf200MB: agenthost stops to read a result when it exceeds its limit: the server cannot write
// most of it.
func TestResultOf200MB(t *testing.T) {
	const size = 200 << 20
	for kind, want := range map[string]string{
		"application/json":  "it exceeds the limit of 16 MiB",
		"text/event-stream": "the response to a request exceeds the limit of 64 MiB",
	} {
		t.Run(kind, func(t *testing.T) {
			s := serveRaw(t)
			s.answer("tools/list", anyTool)
			var written atomic.Int64
			ended := make(chan struct{})
			inner := s.Config.Handler
			s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				raw, _ := io.ReadAll(r.Body)
				r.Body = io.NopCloser(strings.NewReader(string(raw)))
				var req struct {
					ID     json.RawMessage
					Method string
				}
				if json.Unmarshal(raw, &req) != nil || req.Method != "tools/call" {
					inner.ServeHTTP(w, r)
					return
				}
				defer close(ended)
				w.Header().Set("Content-Type", kind)
				begin := ""
				if kind == "text/event-stream" {
					begin = "data: "
				}
				fmt.Fprintf(w, `%s{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"`, begin, req.ID)
				for chunk := strings.Repeat("x", 1<<20); written.Load() < size; {
					n, err := io.WriteString(w, chunk)
					written.Add(int64(n))
					if err != nil {
						return
					}
				}
			})
			_, err := callOf(t, buildSet(t, "mcp", "url: "+s.URL), "t", nil)
			if text := errText(err); !strings.HasSuffix(text, want) {
				t.Errorf("t: %.300s", text)
			}
			<-ended
			if got := written.Load(); got > 100<<20 {
				t.Errorf("the server wrote %d bytes", got)
			}
		})
	}
}

// TestToolRenamedBeforeCall: a call to a tool that the server has renamed since it was listed is an error
// for the model, and is not made to another tool; the next list has the new name.
func TestToolRenamedBeforeCall(t *testing.T) {
	h := serveMCP(t, false)
	called := 0
	add := func(name string) {
		mcp.AddTool(h.serving, &mcp.Tool{Name: name}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
			called++
			return &mcp.CallToolResult{}, nil, nil
		})
	}
	add("read_file")
	set := buildSet(t, "mcp", "url: "+h.URL+"\nheaders: {X-Key: k3y}\ntool_filter: [read_file, delete_file]")
	tools, err := set.Tools(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	h.serving.RemoveTools("read_file")
	add("delete_file")
	call := &tool.Call{State: emptyState{}, Args: map[string]any{}}
	if _, err := tools[0].Run(t.Context(), call); !strings.HasPrefix(errText(err), "MCP tool execution failed: ") || !strings.Contains(errText(err), "read_file") || called != 0 {
		t.Errorf("read_file: %v, %d calls", err, called)
	}
	found, err := tool.FindTool(t.Context(), set, call, "delete_file")
	if err != nil || found.Declaration().Name != "delete_file" {
		t.Errorf("after the change: %v", err)
	}
	if _, err := tool.FindTool(t.Context(), set, call, "read_file"); !strings.Contains(errText(err), `unknown tool "read_file"`) {
		t.Errorf("the old name: %v", err)
	}
}

// TestSchemaBomb: a server's schema with 2^40 paths to one type is checked all the same: the server gets
// the arguments that fit it, and no others.
func TestSchemaBomb(t *testing.T) {
	defs := map[string]any{"d0": map[string]any{"type": "string"}}
	for i := range 40 {
		ref := map[string]any{"$ref": fmt.Sprintf("#/$defs/d%d", i)}
		defs[fmt.Sprintf("d%d", i+1)] = map[string]any{"allOf": []any{ref, ref}}
	}
	schema, err := json.Marshal(map[string]any{"type": "object", "$defs": defs, "properties": map[string]any{"a": map[string]any{"$ref": "#/$defs/d40"}}})
	if err != nil {
		t.Fatal(err)
	}
	s := serveRaw(t)
	s.answer("tools/list", `{"tools":[{"name":"t","inputSchema":`+string(schema)+`}]}`)
	called := 0
	s.answers["tools/call"] = func(id, _ json.RawMessage) string {
		called++
		return `{"jsonrpc":"2.0","id":` + string(id) + `,"result":{"content":[]}}`
	}
	set := buildSet(t, "mcp", "url: "+s.URL)
	if _, err := callOf(t, set, "t", map[string]any{"a": 7.0}); !strings.Contains(errText(err), "got number, want string") || called != 0 {
		t.Errorf("a number: %v, %d calls", err, called)
	}
	if _, err := callOf(t, set, "t", map[string]any{"a": "x"}); err != nil || called != 1 {
		t.Errorf("a string: %v, %d calls", err, called)
	}
}
