package mcptool

import (
	"net/http"
	"testing"

	"agenthost/pkg/tool"
)

// BenchmarkCall measures what a turn does with an MCP tool over HTTP, with a server that costs
// nothing: it lists the tools and calls one. A server without sessions must not cost more than one
// with them.
func BenchmarkCall(b *testing.B) {
	for _, name := range []string{"session", "stateless"} {
		b.Run(name, func(b *testing.B) {
			s := serveRaw(b)
			if name == "stateless" {
				s.answer(discoverMethod, `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}`)
			}
			s.answer("tools/list", anyTool)
			s.answer("tools/call", done)
			client := &http.Client{Transport: &http.Transport{}}
			b.Cleanup(client.CloseIdleConnections)
			set := buildSetWith(b, client, "mcp", "url: "+s.URL)
			b.ReportAllocs()
			for b.Loop() {
				tools, err := set.Tools(b.Context())
				if err != nil {
					b.Fatal(err)
				}
				if _, err := tools[0].Run(b.Context(), &tool.Call{State: emptyState{}}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
