package house_test

import (
	"flag"
	"go/ast"
	"go/token"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
	"unicode"
)

var update = flag.Bool("update", false, "rewrite testdata")

// oneWordNames lists the unexported functions and methods whose name is one word, one
// a line: their package, their receiver and their name. `go test ./internal/house
// -run TestOneWordNames -update` rewrites it.
const oneWordNames = "testdata/one_word_names.txt"

// A new unexported function is named by a verb and its object: `reloadIfChanged`, not
// `compare`. One word is enough where the receiver is the object, as in `cache.get`;
// such a name is added to the list by hand or by -update, and a reviewer sees it.
func TestOneWordNames(t *testing.T) {
	var found []string
	eachFile(t, func(file string, _ *token.FileSet, f *ast.File) {
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && isOneWord(fn.Name.Name) {
				found = append(found, strings.TrimSpace(path.Dir(file)+" "+qualifiedName(fn)))
			}
		}
	})
	slices.Sort(found)
	found = slices.Compact(found)
	if *update {
		if err := os.WriteFile(oneWordNames, []byte(strings.Join(found, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	b, err := os.ReadFile(oneWordNames)
	if err != nil {
		t.Fatal(err)
	}
	accepted := strings.Split(strings.TrimSpace(string(b)), "\n")
	for _, name := range found {
		if !slices.Contains(accepted, name) {
			t.Errorf("%s: name it by a verb and its object, or add it to %s", name, oneWordNames)
		}
	}
	for _, name := range accepted {
		if !slices.Contains(found, name) {
			t.Errorf("%s is declared no more: remove it from %s", name, oneWordNames)
		}
	}
}

// isOneWord reports whether an unexported name is a single word. main and init are
// Go's own.
func isOneWord(name string) bool {
	return !ast.IsExported(name) && name != "main" && name != "_" &&
		!strings.ContainsFunc(name, func(r rune) bool { return r == '_' || unicode.IsUpper(r) })
}

// qualifiedName is a function's name, after its receiver's type if it is a method.
func qualifiedName(fn *ast.FuncDecl) string {
	if fn.Recv == nil {
		return fn.Name.Name
	}
	return receiverName(fn.Recv.List[0].Type) + "." + fn.Name.Name
}

func TestIsOneWord(t *testing.T) {
	for name, want := range map[string]bool{"take": true, "takeLease": false, "Take": false, "main": false} {
		if got := isOneWord(name); got != want {
			t.Errorf("isOneWord(%q) = %v, want %v", name, got, want)
		}
	}
}
