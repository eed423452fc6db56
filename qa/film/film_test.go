package film

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite docs/film.svg")

// volatile matches text that differs between recordings: times and the session ID.
var volatile = regexp.MustCompile(`\d+\.\d+(%|s\b| s )|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)

func stableLines(svg []byte) []string {
	return strings.Split(volatile.ReplaceAllString(string(svg), "…"), "\n")
}

// TestFilmFresh records the README's film and compares it with the stored one, which make film
// updates.
func TestFilmFresh(t *testing.T) {
	got, err := Record(t.Context(), buildProgram(t))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join("..", "..", "docs", "film.svg")
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(stableLines(want), stableLines(got)); diff != "" {
		t.Errorf("the film is not fresh: run make film (-want +got):\n%s", diff)
	}
}

// buildProgram builds agenthost, and returns its path.
func buildProgram(t *testing.T) string {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "agenthost")
	build := exec.Command("go", "build", "-o", bin, "./cmd/agenthost")
	build.Dir, build.Env = filepath.Join("..", ".."), append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return bin
}
