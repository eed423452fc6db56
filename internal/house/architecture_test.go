package house_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// maxWalkFiles limits the files that a reader opens to follow one path.
const maxWalkFiles = 20

// walkRow matches a row in a path: its file and its function, which may have a receiver.
var walkRow = regexp.MustCompile("(?m)^\\| `([a-z0-9_/]+\\.go)` \\|(?: `([A-Za-z.]+)`)? \\|")

// TestArchitecturePathsExist finds each function in the paths of docs/architecture.md in its file.
func TestArchitecturePathsExist(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "architecture.md"))
	if err != nil {
		t.Fatal(err)
	}
	paths := 0
	for _, section := range strings.Split(string(page), "\n## ") {
		title, _, _ := strings.Cut(section, "\n")
		files := map[string]bool{}
		for _, row := range walkRow.FindAllStringSubmatch(section, -1) {
			file, function := row[1], row[2]
			files[file] = true
			declared := functionsOf(t, file)
			switch {
			case declared == nil:
				t.Errorf("%s: %s not found", title, file)
			case !declared[function]:
				t.Errorf("%s: %s does not declare the function %q", title, file, function)
			}
		}
		if len(files) > maxWalkFiles {
			t.Errorf("%s: the path has %d files, at most %d are allowed", title, len(files), maxWalkFiles)
		}
		if len(files) > 0 {
			paths++
		}
	}
	if paths < 3 {
		t.Errorf("docs/architecture.md has %d paths, want a request, a saved file and a confirmation", paths)
	}
}

// functionsOf returns the functions in a file below pkg, internal or cmd, methods with and without
// their receivers; nil if there is no such file.
func functionsOf(t *testing.T, file string) map[string]bool {
	t.Helper()
	for _, top := range []string{"pkg", "wing", "internal", "cmd"} {
		at := filepath.Join("..", "..", top, file)
		if _, err := os.Stat(at); err != nil {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), at, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		found := map[string]bool{}
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			found[fn.Name.Name] = true
			if fn.Recv != nil {
				found[receiverName(fn.Recv.List[0].Type)+"."+fn.Name.Name] = true
			}
		}
		return found
	}
	return nil
}

func receiverName(x ast.Expr) string {
	switch x := x.(type) {
	case *ast.StarExpr:
		return receiverName(x.X)
	case *ast.IndexExpr:
		return receiverName(x.X)
	case *ast.Ident:
		return x.Name
	}
	return ""
}
