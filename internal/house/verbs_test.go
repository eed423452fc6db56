package house_test

import (
	"go/ast"
	"go/token"
	"os"
	"strings"
	"testing"
	"unicode"
)

// One verb has one meaning: a verb that the glossary in CONTRIBUTING.md replaces by another one
// does not begin a function name, and each verb in the glossary is in use.
func TestGlossaryVerbs(t *testing.T) {
	verbs, replaced := readGlossaryVerbs(t)
	used := map[string]bool{}
	eachFile(t, func(path string, fset *token.FileSet, f *ast.File) {
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Name.IsExported() {
				continue
			}
			verb := firstWord(fn.Name.Name)
			used[verb] = true
			if better := replaced[verb]; better != "" {
				t.Errorf("%s: %s begins with %q: the glossary has %s", fset.Position(fn.Pos()), fn.Name.Name, verb, better)
			}
		}
	})
	for _, verb := range verbs {
		if !used[verb] {
			t.Errorf("no function begins with %q: remove it from the glossary", verb)
		}
	}
}

// readGlossaryVerbs returns the table's verbs, and for each replaced verb the cell with the verbs
// to use.
func readGlossaryVerbs(t *testing.T) (verbs []string, replaced map[string]string) {
	t.Helper()
	b, err := os.ReadFile("../../CONTRIBUTING.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(b), "\n| verb | meaning | not |\n| --- | --- | --- |\n")
	if !found {
		t.Fatal("CONTRIBUTING.md has no table of verbs")
	}
	table, _, _ = strings.Cut(table, "\n\n")
	replaced = map[string]string{}
	for row := range strings.Lines(table) {
		cells := strings.Split(strings.TrimSpace(row), "|")
		if len(cells) != 5 {
			t.Fatalf("want three cells: %s", row)
		}
		verbs = append(verbs, splitList(cells[1])...)
		for _, verb := range splitList(cells[3]) {
			replaced[verb] = strings.TrimSpace(cells[1])
		}
	}
	return verbs, replaced
}

func splitList(cell string) []string {
	return strings.FieldsFunc(cell, func(r rune) bool { return r == ',' || unicode.IsSpace(r) })
}

// firstWord returns an identifier's leading lower-case letters.
func firstWord(name string) string {
	if i := strings.IndexFunc(name, func(r rune) bool { return !unicode.IsLower(r) }); i >= 0 {
		return name[:i]
	}
	return name
}
