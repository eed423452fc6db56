package mcptool

import (
	"testing"

	"agenthost/pkg/tool"
)

// BenchmarkCall measures a call over HTTP to a server that costs nothing: one without sessions, and
// one with them. The first must cost about as much as the second.
func BenchmarkCall(b *testing.B) {
	for _, name := range []string{"session", "stateless"} {
		b.Run(name, func(b *testing.B) {
			s := serveRaw(b)
			if name == "stateless" {
				s.answer(discoverMethod, `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}`)
			}
			s.answer("tools/list", anyTool)
			s.answer("tools/call", done)
			tools, err := buildSet(b, "mcp", "url: "+s.URL).Tools(b.Context())
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := tools[0].Run(b.Context(), &tool.Call{State: emptyState{}}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
