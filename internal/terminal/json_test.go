package terminal

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// TestAbbreviateJSON: the printed beginning of a result never ends inside a character.
func TestAbbreviateJSON(t *testing.T) {
	for _, char := range []string{"é", "€", "😀"} {
		for shift := range 5 {
			got := AbbreviateJSON(map[string]any{"result": strings.Repeat("x", shift) + strings.Repeat(char, 120)})
			if !utf8.ValidString(got) || !strings.HasSuffix(got, "…") {
				t.Errorf("AbbreviateJSON = %q, want valid UTF-8 that ends with …", got)
			}
		}
	}
}
