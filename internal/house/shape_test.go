package house_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// Limits for files and functions, not goals: a file that reads from top to bottom may be long.
const (
	maxFileLines = 600
	maxFuncLines = 80
	maxMethods   = 5
	maxParams    = 4
)

// eachFile visits every Go file in the product, tests apart.
func eachFile(t *testing.T, visit func(path string, fset *token.FileSet, f *ast.File)) {
	t.Helper()
	fset := token.NewFileSet()
	for _, top := range []string{".", "cmd", "internal", "pkg", "wing", "qa", "tools/release"} {
		root := filepath.Join("..", "..", top)
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err == nil && top == "." && d.IsDir() && path != root {
				return filepath.SkipDir // only the front's own files
			}
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			f, err := parser.ParseFile(fset, path, nil, parser.ParseComments)
			if err == nil {
				visit(strings.TrimPrefix(filepath.ToSlash(path), "../../"), fset, f)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestFileAndFunctionLimits(t *testing.T) {
	eachFile(t, func(path string, fset *token.FileSet, f *ast.File) {
		lines := func(n ast.Node) int { return fset.Position(n.End()).Line - fset.Position(n.Pos()).Line + 1 }
		if n := fset.Position(f.End()).Line; n > maxFileLines {
			t.Errorf("%s has %d lines, at most %d are allowed", path, n, maxFileLines)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				if l := lines(n); l > maxFuncLines {
					t.Errorf("%s: %s has %d lines, at most %d are allowed", path, n.Name.Name, l, maxFuncLines)
				}
				if p := countParams(n.Type); p > maxParams {
					t.Errorf("%s: %s has %d parameters besides the context, at most %d are allowed", path, n.Name.Name, p, maxParams)
				}
			case *ast.InterfaceType:
				if m := n.Methods.NumFields(); m > maxMethods {
					t.Errorf("%s:%d: an interface has %d methods, at most %d are allowed", path, fset.Position(n.Pos()).Line, m, maxMethods)
				}
			}
			return true
		})
	})
}

func countParams(f *ast.FuncType) int {
	n := 0
	for _, p := range f.Params.List {
		if s, ok := p.Type.(*ast.SelectorExpr); ok && s.Sel.Name == "Context" {
			continue
		}
		n += max(1, len(p.Names))
	}
	return n
}

func TestPackageComments(t *testing.T) {
	commented := map[string]bool{}
	eachFile(t, func(path string, _ *token.FileSet, f *ast.File) {
		dir := filepath.Dir(path)
		commented[dir] = commented[dir] || f.Doc != nil
	})
	for dir, ok := range commented {
		if !ok {
			t.Errorf("package %s has no comment", dir)
		}
	}
}

func TestExportedComments(t *testing.T) {
	eachFile(t, func(path string, fset *token.FileSet, f *ast.File) {
		missing := func(n ast.Node, name string) {
			t.Errorf("%s:%d: %s has no comment", path, fset.Position(n.Pos()).Line, name)
		}
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Name.IsExported() && d.Doc == nil && receiverIsExported(d) {
					missing(d, d.Name.Name)
				}
			case *ast.GenDecl:
				for _, s := range d.Specs {
					if ts, ok := s.(*ast.TypeSpec); ok && ts.Name.IsExported() && ts.Doc == nil && d.Doc == nil {
						missing(ts, ts.Name.Name)
					}
					if vs, ok := s.(*ast.ValueSpec); ok && vs.Names[0].IsExported() && vs.Doc == nil && vs.Comment == nil && d.Doc == nil {
						missing(vs, vs.Names[0].Name)
					}
				}
			}
		}
	})
}

func receiverIsExported(d *ast.FuncDecl) bool {
	if d.Recv == nil {
		return true
	}
	name := fmt.Sprint(d.Recv.List[0].Type)
	if star, ok := d.Recv.List[0].Type.(*ast.StarExpr); ok {
		name = fmt.Sprint(star.X)
	}
	return ast.IsExported(name)
}

// vagueFileNames name no content.
var vagueFileNames = []string{"util", "utils", "helper", "helpers", "common", "manager", "impl", "types", "misc"}

func TestVagueFileNames(t *testing.T) {
	eachFile(t, func(path string, _ *token.FileSet, _ *ast.File) {
		name := strings.TrimSuffix(filepath.Base(path), ".go")
		for _, b := range vagueFileNames {
			if name == b || filepath.Base(filepath.Dir(path)) == b {
				t.Errorf("%s: %q does not describe the content", path, b)
			}
		}
	})
}
