package film

import (
	"html"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestFirstMinuteFresh records the film of the first minute, and compares the lines of the terminal with
// those of the stored one: how the output is cut into frames differs between recordings.
func TestFirstMinuteFresh(t *testing.T) {
	svg, lines, err := RecordFirstMinute(t.Context(), buildProgram(t))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join("..", "..", "docs", "first-minute.svg")
	if *update {
		if err := os.WriteFile(file, svg, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	stored, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(stored), "<desc>")
	want, _, _ := strings.Cut(after, "</desc>")
	if diff := cmp.Diff(stableLines([]byte(html.UnescapeString(want))), stableLines([]byte(lines))); diff != "" {
		t.Errorf("the film is not fresh: run make film (-want +got):\n%s", diff)
	}
}
