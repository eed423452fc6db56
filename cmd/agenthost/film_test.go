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

// volatile is what each recording has anew: times, and the id of the session.
var volatile = regexp.MustCompile(`\d+\.\d+(%|s\b| s )|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)

func stableLines(svg []byte) []string {
	return strings.Split(volatile.ReplaceAllString(string(svg), "…"), "\n")
}

// TestFilmFresh plays the film of the README again, and wants what is there.
// make film draws it anew.
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
		t.Errorf("make film draws the film anew (-want +got):\n%s", diff)
	}
}
