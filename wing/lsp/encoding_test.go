package lsp_test

import (
	"strings"
	"testing"
)

// Positions count bytes if the editor offers UTF-8, and else UTF-16 code units.
func TestPositionEncodingNegotiated(t *testing.T) {
	for _, tt := range []struct {
		name, want, at string
		offered        []string
	}{
		{"offered", "utf-8", "3:23-27 ", []string{"utf-16", "utf-8"}},
		{"not offered", "utf-16", "3:22-24 ", []string{"utf-32"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := startEditor(t)
			defer e.close()
			var answer struct {
				Capabilities struct{ PositionEncoding string }
			}
			e.call("initialize", map[string]any{"capabilities": map[string]any{"general": map[string]any{"positionEncodings": tt.offered}}}, &answer)
			if answer.Capabilities.PositionEncoding != tt.want {
				t.Errorf("encoding = %q, want %q", answer.Capabilities.PositionEncoding, tt.want)
			}
			got := e.openDocument("root_agent.yaml", "name: desk\nmodel: fast\ninstruction: Help.\nsub_agents: [{\"é\": 1, 𝄞: x}]\n")
			if len(got) == 0 || !strings.HasPrefix(got[len(got)-1], tt.at) {
				t.Errorf("diagnostics = %q, want one at %s", got, tt.at)
			}
		})
	}
}
