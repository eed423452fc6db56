package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestAttackClasses: each attack class in docs/proofs.md names rows of make proof, has a size and a
// control, and each row that is a test names tests in its packages.
func TestAttackClasses(t *testing.T) {
	text, err := os.ReadFile("../../docs/proofs.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## Attacks by class\n")
	section, _, _ = strings.Cut(section, "\n## ")
	names := map[string]bool{}
	for _, p := range allProofs() {
		names[p.name] = true
	}
	held := map[string]bool{}
	for line := range strings.Lines(section) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) < 4 || strings.HasPrefix(cells[0], " class") || strings.HasPrefix(cells[0], " ---") {
			continue
		}
		for i, cell := range cells {
			if strings.TrimSpace(cell) == "" {
				t.Errorf("column %d is empty: %s", i+1, line)
			}
		}
		rows := regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(cells[1], -1)
		if len(rows) == 0 {
			t.Errorf("no row: %s", line)
		}
		for _, m := range rows {
			if held[m[1]] = true; !names[m[1]] {
				t.Errorf("unknown row %q; rows are the names of proofs: %s", m[1], line)
			}
		}
	}
	if len(held) < 20 {
		t.Errorf("the table names %d rows, want at least 20", len(held))
	}
	for _, p := range testProofs() {
		if !held[p.name] && !slices.Contains([]string{"random histories", "random numbers"}, p.name) {
			t.Errorf("no class of attacks names the row %q", p.name)
		}
	}
}

// TestProofsNameTests: a row that runs tests names tests that its packages have, and at least one
// logs a result and a control.
func TestProofsNameTests(t *testing.T) {
	for _, p := range testProofs() {
		found, controls := map[string]bool{}, 0
		for _, pkg := range p.packages {
			for name, source := range parseTests(t, filepath.Join("../..", pkg)) {
				if slices.Contains(p.tests, name) {
					found[name] = true
					controls += strings.Count(source, "control")
				}
			}
		}
		for _, name := range p.tests {
			if !found[name] {
				t.Errorf("%s: test %s not found in %v", p.name, name, p.packages)
			}
		}
		if controls == 0 {
			t.Errorf("%s: no test of %v has a control", p.name, p.tests)
		}
	}
}

// parseTests returns a package's test sources by name.
func parseTests(t *testing.T, dir string) map[string]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]string{}
	for _, path := range files {
		source, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, source, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && strings.HasPrefix(fn.Name.Name, "Test") {
				start := fn.Pos()
				if fn.Doc != nil {
					start = fn.Doc.Pos()
				}
				tests[fn.Name.Name] = string(source[start-f.FileStart : fn.End()-f.FileStart])
			}
		}
	}
	return tests
}
