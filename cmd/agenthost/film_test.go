package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agenthost/internal/film"
)

// volatile matches text that differs between recordings: times and the session ID.
var volatile = regexp.MustCompile(`\d+\.\d+(%|s\b| s )|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)

func stableLines(svg []byte) []string {
	return strings.Split(volatile.ReplaceAllString(string(svg), "…"), "\n")
}

// TestFilmFresh records the film of the README and compares it with the stored one,
// which make film updates.
func TestFilmFresh(t *testing.T) {
	bin, err := exec.LookPath("agenthost")
	if err != nil {
		t.Fatal(err)
	}
	got, err := film.Record(t.Context(), bin)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(repo, "docs", "film.svg")
	if updating() {
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
