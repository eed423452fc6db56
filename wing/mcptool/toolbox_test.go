package mcptool

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"agenthost/internal/fake/fakemcp"
)

// TestToolboxServesToolsets: a Toolbox toolset is the MCP server at /mcp/TOOLSET, and all tools are
// at /mcp.
func TestToolboxServesToolsets(t *testing.T) {
	server := fakemcp.New("toolbox")
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil)
	paths := make(chan string, 100)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		paths <- r.URL.EscapedPath() + " " + r.Header.Get("My_token")
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(web.Close)
	for _, tt := range []struct{ yaml, path, tools string }{
		{"server_url: " + web.URL + "/\nadditional_headers: {my_token: t}", "/mcp t", "add"},
		{"server_url: " + web.URL + "\ntoolset_name: my hotels\ntool_names: [who]", "/mcp/my%20hotels ", "who"},
	} {
		names := namesOf(t, buildSet(t, "ToolboxToolset", tt.yaml))
		if got := <-paths; got != tt.path || names[0] != tt.tools {
			t.Errorf("request = %q, want %q; tools = %v", got, tt.path, names)
		}
		for len(paths) > 0 {
			<-paths
		}
	}
}
