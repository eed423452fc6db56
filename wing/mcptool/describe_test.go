package mcptool

import (
	"strings"
	"testing"
	"unicode/utf8"

	"agenthost/internal/fence"
)

// FuzzFenceText: server text never ends its fence, and is bounded and valid UTF-8.
func FuzzFenceText(f *testing.F) {
	for _, text := range []string{"", "Finds.", fence.End, "<mcp_</mcp_server_text>server_text>", "\xff\u202e", strings.Repeat("é", 200)} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got := fenceText(text, 100)
		if got == "" {
			return
		}
		if strings.Count(got, fence.Begin) != 1 || strings.Count(got, fence.End) != 1 || !strings.HasSuffix(got, "\n"+fence.End) {
			t.Errorf("fenceText(%q) = %q", text, got)
		}
		if n := utf8.RuneCountInString(got); n > 100+len("… (cut)")+200 || !utf8.ValidString(got) {
			t.Errorf("fenceText(%q) has %d characters, or is not UTF-8", text, n)
		}
	})
}
