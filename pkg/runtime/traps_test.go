package runtime_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestTraps: each trace and trap in the semantics has a line in traps.md, and what the line names
// is there.
func TestTraps(t *testing.T) {
	page, err := os.ReadFile("testdata/traps.md")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{}
	for i := range 13 {
		want = append(want, fmt.Sprint("T", i+1))
	}
	for i := range 28 {
		want = append(want, fmt.Sprint(i+1))
	}
	rows := regexp.MustCompile(`(?m)^\| (T?\d+) [^|]+ \| ([^|]+) \|$`).FindAllStringSubmatch(string(page), -1)
	if len(rows) != len(want) {
		t.Fatalf("traps.md has %d lines, want %d", len(rows), len(want))
	}
	names := regexp.MustCompile("`([^`]+)`")
	for i, row := range rows {
		if row[1] != want[i] {
			t.Errorf("line %d is of %s, want %s", i+1, row[1], want[i])
		}
		guards := names.FindAllStringSubmatch(row[2], -1)
		if len(guards) == 0 && !strings.HasPrefix(row[2], "– ") {
			t.Errorf("%s names no test and no reason", row[1])
		}
		for _, g := range guards {
			if !testExists(t, g[1]) {
				t.Errorf("%s names %s, which is not there", row[1], g[1])
			}
		}
	}
}

// testExists finds a transcript, or a test in a package or in a suite.
func testExists(t *testing.T, name string) bool {
	t.Helper()
	if strings.HasSuffix(name, ".txtar") {
		_, err := os.Stat(filepath.Join("testdata", name))
		return err == nil
	}
	dir, test, ok := strings.Cut(name, ".")
	if !ok {
		dir, test = "pkg/runtime", name
	}
	files, err := filepath.Glob(filepath.Join("..", "..", dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		src, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(src), "\nfunc "+test+"(t *testing.T) {") || strings.Contains(string(src), "Suite) "+test+"(t *testing.T) {") {
			return true
		}
	}
	return false
}
