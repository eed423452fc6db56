package loader

import (
	"regexp"
	"strings"
	"testing"
)

// TestPlainName: a new name must match this expression. It is not used itself, because compiled it takes
// 5 MB.
func TestPlainName(t *testing.T) {
	rule := regexp.MustCompile(`^[\pL\pN_][\pL\pN\pM_./:-]{0,199}$`)
	names := []string{
		"", "a", "_a", "9", "-a", ".a", "a-b.c/d:e_f", "a b", "ünïcode", "u\u0308", "\u0308u", "日本", "a\n", "a!", "a\x80", "²", "٣",
		strings.Repeat("é", 200), strings.Repeat("é", 201),
	}
	for _, name := range names {
		if got, want := isPlainName(name), rule.MatchString(name); got != want {
			t.Errorf("%q: %t, want %t", name, got, want)
		}
	}
}
