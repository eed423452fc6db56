package mcptool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"agenthost/pkg/session"
	"agenthost/pkg/tool"
)

// TestElicitRefused: a server without elicitation cannot ask, and one with it cannot open a URL,
// ask with a huge form, or ask outside a call. The call gets "cancel".
func TestElicitRefused(t *testing.T) {
	h := serveMCP(t, false)
	var params *mcp.ElicitParams
	mcp.AddTool(h.serving, &mcp.Tool{Name: "ask"}, func(ctx context.Context, req *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
		res, err := req.Session.Elicit(ctx, params)
		text := errText(err)
		if err == nil {
			text = res.Action
		}
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}, nil, nil
	})
	big := map[string]any{"type": "object", "properties": map[string]any{"a": map[string]any{"type": "string", "description": strings.Repeat("x", 20<<10)}}}
	yaml := "url: " + h.URL + "\nheaders: {X-Key: k3y}\ntool_filter: [ask]\n"
	for _, tt := range []struct {
		name, yaml string
		params     mcp.ElicitParams
		want       string
	}{
		{"not configured", "", mcp.ElicitParams{Message: "x"}, "does not support"},
		{"a URL", "elicitation: true", mcp.ElicitParams{Mode: "url", Message: "x", URL: "https://evil.example.com", ElicitationID: "1"}, "does not support"},
		{"a large form", "elicitation: true", mcp.ElicitParams{Message: "x", RequestedSchema: big}, "cancel"},
	} {
		params = &tt.params
		call := &tool.Call{State: emptyState{}, Actions: &session.Actions{}}
		tools, err := buildSet(t, "mcp", yaml+tt.yaml).Tools(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		res, err := tools[0].Run(t.Context(), call)
		if err != nil || !strings.Contains(fmt.Sprint(res.Response["content"]), tt.want) || len(call.Actions.RequestedToolConfirmations) > 0 {
			t.Errorf("%s: %v, %v", tt.name, res, err)
		}
	}
	l := &link{}
	if res, err := l.handleElicit(t.Context(), &mcp.ElicitRequest{Params: &mcp.ElicitParams{}}); err != nil || res.Action != "cancel" {
		t.Errorf("outside of a call: %v, %v", res, err)
	}
}

// TestElicitWaits: calls to a server that may ask run one after the other, and a call that waits
// for another ends when it is canceled.
func TestElicitWaits(t *testing.T) {
	h := serveMCP(t, false)
	began, end := make(chan struct{}), make(chan struct{})
	mcp.AddTool(h.serving, &mcp.Tool{Name: "wait"}, func(ctx context.Context, _ *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
		close(began)
		<-end
		return &mcp.CallToolResult{}, nil, nil
	})
	tools, err := buildSet(t, "mcp", "url: "+h.URL+"\nheaders: {X-Key: k3y}\ntool_filter: [wait]\nelicitation: true").Tools(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	first := make(chan error)
	go func() {
		_, err := tools[0].Run(t.Context(), &tool.Call{State: emptyState{}})
		first <- err
	}()
	<-began
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := tools[0].Run(ctx, &tool.Call{State: emptyState{}}); !errors.Is(err, context.Canceled) {
		t.Errorf("second call: %v", err)
	}
	close(end)
	if err := <-first; err != nil {
		t.Errorf("first call: %v", err)
	}
}

// TestElicitBetweenStreams: a server may ask over the stream that belongs to no request, as servers
// of the official TypeScript SDK do; the question belongs to the call that waits.
func TestElicitBetweenStreams(t *testing.T) {
	s := serveFlood(t)
	asked := make(chan struct{})
	s.stream = func(w http.ResponseWriter, _ json.RawMessage) {
		_ = http.NewResponseController(w).Flush()
		select {
		case <-asked:
			fmt.Fprint(w, `data: {"jsonrpc":"2.0","id":"q1","method":"elicitation/create","params":{"message":"Where?","requestedSchema":{"type":"object","properties":{"city":{"type":"string"}}}}}`+"\n\n")
			_ = http.NewResponseController(w).Flush()
		case <-s.stopped:
		}
		<-s.stopped
	}
	s.call = func(w http.ResponseWriter, id json.RawMessage) {
		close(asked)
		for s.most.Load() == 0 { // until the response to the question has arrived
			if _, err := fmt.Fprint(w, ": wait\n"); err != nil {
				return
			}
			_ = http.NewResponseController(w).Flush()
		}
		writeResult(w, id, done)
	}
	res, call, err := answerLater(t, buildSet(t, "mcp", "url: "+s.URL+"\nelicitation: true"), "t", nil, nil)
	if got := askedOf(call); err != nil || res != nil || got == nil || !strings.HasSuffix(got.Hint, " asks: Where?") {
		t.Errorf("%v, %v, asked %+v", res, err, got)
	}
}
