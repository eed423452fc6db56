package main

import (
	"bufio"
	"io"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// In both eras the server has the app's tools and the program's, and ends with its input. The suite
// itself runs with make mcp-suite.
func TestServe(t *testing.T) {
	in, stop := io.Pipe()
	read, out := io.Pipe()
	served := make(chan error, 1)
	go func() { served <- serveApp("apps/everything", in, out) }()
	url, err := bufio.NewReader(read).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	for _, era := range []string{"2025-11-25", "2026-07-28"} {
		client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
		s, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: strings.TrimSpace(url)}, &mcp.ClientSessionOptions{ProtocolVersion: era})
		if err != nil {
			t.Fatal(err)
		}
		for name, want := range map[string]string{
			"test_simple_text":         "This is a simple text response for testing.",
			"test_trigger_tool_change": "The tools have changed.",
		} {
			result, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: name})
			if err != nil {
				t.Fatal(err)
			}
			if text, ok := result.Content[0].(*mcp.TextContent); !ok || text.Text != want {
				t.Errorf("%s at %s: %v, want %q", name, era, result.Content, want)
			}
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	stop.Close()
	if err := <-served; err != nil {
		t.Error(err)
	}
}
