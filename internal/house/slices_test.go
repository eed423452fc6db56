package house_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"testing"
)

// A slice is a function of at most maxSliceLines lines that is named once besides its declaration.
// A few name an idea; many make a reader put long functions together again. maxSlices is their
// number in 1000 lines.
const (
	maxSlices     = 7.9
	maxSliceLines = 12
)

// A slicedPackage counts the uses of names in a package, and the lines of its short functions.
type slicedPackage struct {
	uses  map[string]int
	short map[string]int // declarations by name
}

func (p *slicedPackage) addFile(fset *token.FileSet, f *ast.File) {
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Ident:
			p.uses[n.Name]++
		case *ast.FuncDecl:
			lines := fset.Position(n.End()).Line - fset.Position(n.Pos()).Line + 1
			if n.Body != nil && lines <= maxSliceLines && !n.Name.IsExported() {
				p.short[n.Name.Name]++
			}
		}
		return true
	})
}

// listSlices returns the names of the slices, sorted. A name with two declarations is a method of
// several types, and not counted.
func (p *slicedPackage) listSlices() []string {
	var names []string
	for name, declared := range p.short {
		if declared == 1 && p.uses[name] == 2 {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// TestSlicedFunctions: few functions are slices of the only function that calls them.
func TestSlicedFunctions(t *testing.T) {
	packages := map[string]*slicedPackage{}
	count, lines := 0, 0
	eachFile(t, func(path string, fset *token.FileSet, f *ast.File) {
		dir := filepath.Dir(path)
		if packages[dir] == nil {
			packages[dir] = &slicedPackage{uses: map[string]int{}, short: map[string]int{}}
		}
		packages[dir].addFile(fset, f)
		lines += fset.Position(f.FileEnd).Line
	})
	for _, p := range packages {
		count += len(p.listSlices())
	}
	if density := 1000 * float64(count) / float64(lines); density > maxSlices {
		t.Errorf("%d functions of at most %d lines are used once, %.2f in 1000 lines, at most %.2f are allowed: put them back into the function whose story they are part of",
			count, maxSliceLines, density, maxSlices)
	}
}

// The control: only the function that is short, used once and declared once is a slice.
func TestSlicedFunctionsControl(t *testing.T) {
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, "control.go", `package control
func Story() { slice(); helper(); helper() }
func slice() {}
func helper() {}
func (a) method() {}
func (b) method() {}
`, 0)
	if err != nil {
		t.Fatal(err)
	}
	p := &slicedPackage{uses: map[string]int{}, short: map[string]int{}}
	p.addFile(fset, f)
	if got := p.listSlices(); !slices.Equal(got, []string{"slice"}) {
		t.Errorf("slices: %q, want only slice", got)
	}
}
