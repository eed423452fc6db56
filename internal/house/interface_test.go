package house_test

import (
	"go/ast"
	"go/token"
	"path"
	"strings"
	"testing"
)

// anonymousAssertions are the exceptions in TestAssertionsNameInterfaces: the package and the
// method, with the reason.
func anonymousAssertions() map[string]string {
	return map[string]string{}
}

// TestAssertionsNameInterfaces rejects assertions to anonymous interfaces: a reader cannot
// find their implementers, and a misspelled method compiles and is never called.
func TestAssertionsNameInterfaces(t *testing.T) {
	used := map[string]bool{}
	eachFile(t, func(file string, fset *token.FileSet, f *ast.File) {
		check := func(x ast.Expr) {
			i, ok := x.(*ast.InterfaceType)
			if !ok || i.Methods.NumFields() == 0 {
				return
			}
			var names []string
			for _, m := range i.Methods.List {
				for _, name := range m.Names {
					names = append(names, name.Name)
				}
			}
			key := path.Dir(file) + " " + strings.Join(names, " ")
			if used[key] = true; anonymousAssertions()[key] == "" {
				t.Errorf("%s:%d: assertion to an anonymous interface with %s: name the interface, and assert that its implementers have it",
					file, fset.Position(i.Pos()).Line, strings.Join(names, ", "))
			}
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.TypeAssertExpr:
				check(n.Type)
			case *ast.TypeSwitchStmt:
				for _, c := range n.Body.List {
					for _, x := range c.(*ast.CaseClause).List {
						check(x)
					}
				}
			}
			return true
		})
	})
	for key := range anonymousAssertions() {
		if !used[key] {
			t.Errorf("exception %q is not needed", key)
		}
	}
}
