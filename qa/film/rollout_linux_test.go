package film

import (
	"html"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// counted matches what differs between recordings of a rollout: the replica's name and what follows it in
// the space that is left, numbers, times and IDs, and the spaces that align them.
var counted = regexp.MustCompile(` +host .*|[0-9a-f]{8}-[0-9a-f-]{27}|\d+| +`)

// TestRolloutFresh records the film of a rollout, and compares the terminal's lines with those of the stored
// one. The film ends within a minute.
func TestRolloutFresh(t *testing.T) {
	svg, lines, err := RecordRollout(t.Context(), buildProgram(t))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join("..", "..", "docs", "rollout.svg")
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
	stable := func(text string) []string { return strings.Split(counted.ReplaceAllString(text, "…"), "\n") }
	if diff := cmp.Diff(stable(html.UnescapeString(want)), stable(lines)); diff != "" {
		t.Errorf("the film is not fresh: run make film (-want +got):\n%s", diff)
	}
	if length := regexp.MustCompile(`animation:terminal (\d+)\.`).FindStringSubmatch(string(stored)); len(length) != 2 || len(length[1]) > 2 || length[1] > "59" {
		t.Errorf("the film has %q seconds, want less than 60", length)
	}
}
