package house_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// errorCode matches an error code in the source, errorRow a row in docs/errors.md.
var (
	errorCode = regexp.MustCompile(`^[A-Z]+(_[A-Z]+)*$`)
	errorRow  = regexp.MustCompile("(?m)^\\| `([A-Z_]+)` \\|")
)

// TestErrorsPage: docs/errors.md has a row for each error code in the source, and no other.
func TestErrorsPage(t *testing.T) {
	codes := collectErrorCodes(t)
	delete(codes, "OK") // turns without an error
	if len(codes) < 40 {
		t.Fatalf("the source has only the codes %v", codes)
	}
	rows := map[string]bool{}
	for _, row := range errorRow.FindAllStringSubmatch(readDoc(t, "errors.md"), -1) {
		rows[row[1]] = true
		if codes[row[1]] == "" {
			t.Errorf("docs/errors.md: the source has no code %s", row[1])
		}
	}
	for code, place := range codes {
		if !rows[code] {
			t.Errorf("%s: docs/errors.md has no row for the code %s", place, code)
		}
	}
}

// collectErrorCodes returns the source's error codes, each with a place.
func collectErrorCodes(t *testing.T) map[string]string {
	t.Helper()
	codes, files := map[string]string{}, token.NewFileSet()
	for _, top := range []string{"../../pkg", "../../wing", "../../internal/modelcall", "../../internal/agentconfig"} {
		err := filepath.WalkDir(top, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(n ast.Node) bool {
				for _, e := range codesIn(n) {
					text, ok := e.(*ast.BasicLit)
					if !ok || text.Kind != token.STRING {
						continue
					}
					if code, err := strconv.Unquote(text.Value); err == nil && errorCode.MatchString(code) {
						codes[code] = files.Position(e.Pos()).String()
					}
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return codes
}

// codesIn returns a node's expressions that are error codes: constants whose name begins with Code,
// error fields, errorCode values, and the results of functions that name a status.
func codesIn(n ast.Node) []ast.Expr {
	switch n := n.(type) {
	case *ast.ValueSpec:
		if strings.HasPrefix(strings.ToLower(n.Names[0].Name), "code") {
			return n.Values
		}
	case *ast.CompositeLit:
		return codesOfLiteral(n)
	case *ast.CallExpr:
		if name, ok := n.Fun.(*ast.Ident); ok && name.Name == "failf" {
			return n.Args[:1]
		}
	case *ast.AssignStmt:
		for i, left := range n.Lhs {
			if field, ok := left.(*ast.SelectorExpr); ok && field.Sel.Name == "ErrorCode" && i < len(n.Rhs) {
				return n.Rhs[i : i+1]
			}
		}
	case *ast.FuncDecl:
		if n.Name.Name == "StatusWord" || n.Name.Name == "EventCode" {
			return returnedIn(n)
		}
	}
	return nil
}

// codesOfLiteral returns the codes in an error literal.
func codesOfLiteral(n *ast.CompositeLit) []ast.Expr {
	name := ""
	switch typ := n.Type.(type) {
	case *ast.Ident:
		name = typ.Name
	case *ast.SelectorExpr:
		name = typ.Sel.Name
	}
	switch name {
	case "failure":
		return n.Elts
	case "RunError", "Error":
		var codes []ast.Expr
		for _, e := range n.Elts {
			if field, ok := e.(*ast.KeyValueExpr); ok {
				if key, ok := field.Key.(*ast.Ident); ok && (key.Name == "Code" || key.Name == "Status") {
					codes = append(codes, field.Value)
				}
			}
		}
		return codes
	}
	return nil
}

// returnedIn returns a function's results.
func returnedIn(f *ast.FuncDecl) (results []ast.Expr) {
	ast.Inspect(f, func(n ast.Node) bool {
		if r, ok := n.(*ast.ReturnStmt); ok {
			results = append(results, r.Results...)
		}
		return true
	})
	return results
}
