package house_test

import (
	"go/ast"
	"go/token"
	"maps"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"testing"
)

// A package of ten files or more reads from top to bottom: in its files' best order, at most 12 %
// of the arrows point back, in the runtime at most 10 %. An arrow leads from a file to another that
// declares a name which the first file uses.
const (
	minOrderedFiles       = 10
	maxBackPercent        = 12
	maxRuntimeBackPercent = 10
	maxTypeMethods        = 90
)

func TestArrowsPointForward(t *testing.T) {
	for dir, files := range parsePackages(t) {
		if len(files) < minOrderedFiles {
			continue
		}
		g := newFileGraph(files)
		back, all := g.countBackArrows(), g.countArrows()
		most := maxBackPercent
		if dir == "pkg/runtime" {
			most = maxRuntimeBackPercent
		}
		if back*100 > most*all {
			t.Errorf("%s: %d of %d arrows between its %d files point back, at most %d %% are allowed: move functions to the file where a reader looks for them; back: %s",
				dir, back, all, len(files), most, strings.Join(g.listBackArrows(), ", "))
		}
	}
}

// The measure is checked by graphs whose best order is known.
func TestCountBackArrows(t *testing.T) {
	tests := []struct {
		name   string
		arrows string
		back   int
	}{
		{"a chain has none", "a>b b>c c>d", 0},
		{"a circle has one", "a>b b>c c>d d>a", 1},
		{"two files that use each other have one", "a>b b>a b>c", 1},
		{"the order of names does not count", "d>c c>b b>a d>a", 0},
		{"circles that share an arrow have one", "a>b b>c c>a c>d d>b", 1},
		{"a clique of four has six", "a>b a>c a>d b>a b>c b>d c>a c>b c>d d>a d>b d>c", 6},
	}
	for _, test := range tests {
		g := &fileGraph{}
		for arrow := range strings.FieldsSeq(test.arrows) {
			from, to, _ := strings.Cut(arrow, ">")
			g.addArrow(from, to)
		}
		g.arrange()
		if got := g.countBackArrows(); got != test.back {
			t.Errorf("%s: got %d back arrows in %v, want %d", test.name, got, g.listBackArrows(), test.back)
		}
	}
}

// No type is a house of its own.
func TestMethodsOfTypes(t *testing.T) {
	methods := map[string]int{}
	eachFile(t, func(file string, _ *token.FileSet, f *ast.File) {
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv != nil {
				methods[path.Dir(file)+" "+receiverName(fn.Recv.List[0].Type)]++
			}
		}
	})
	for name, n := range methods {
		if n > maxTypeMethods {
			t.Errorf("%s has %d methods, at most %d are allowed: split it by subject", name, n, maxTypeMethods)
		}
	}
}

// parsePackages returns the files in each of the product's packages, by folder and path.
func parsePackages(t *testing.T) map[string]map[string]*ast.File {
	t.Helper()
	packages := map[string]map[string]*ast.File{}
	eachFile(t, func(file string, _ *token.FileSet, f *ast.File) {
		dir := path.Dir(file)
		if packages[dir] == nil {
			packages[dir] = map[string]*ast.File{}
		}
		packages[dir][path.Base(file)] = f
	})
	return packages
}

// A fileGraph has a package's files and the arrows between them, in the best order that arrange has
// found.
type fileGraph struct {
	files []string
	index map[string]int
	uses  [][]bool // uses[i][j]: file i uses a name that file j declares
	order []int
}

func newFileGraph(files map[string]*ast.File) *fileGraph {
	g := &fileGraph{}
	owner := findOwners(files)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		g.addFile(name)
	}
	for name, f := range files {
		var visit func(n ast.Node) bool
		visit = func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.SelectorExpr:
				if !isImported(f, n.X) {
					g.addUse(name, owner["."+n.Sel.Name])
					ast.Inspect(n.X, visit)
				}
				return false // a field's name is not a name in the package
			case *ast.Ident:
				g.addUse(name, owner[n.Name])
			}
			return true
		}
		for _, d := range f.Decls { // the package name is none of its names
			ast.Inspect(d, visit)
		}
	}
	g.arrange()
	return g
}

// findOwners returns the file that declares each name in a package: functions, types, variables
// and, with a leading dot, methods. A name that two files declare is left out.
func findOwners(files map[string]*ast.File) map[string]string {
	owner := map[string]string{}
	declare := func(name, file string) {
		if known, ok := owner[name]; ok && known != file {
			file = ""
		}
		owner[name] = file
	}
	for name, f := range files {
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Recv != nil {
					declare("."+d.Name.Name, name)
				} else {
					declare(d.Name.Name, name)
				}
			case *ast.GenDecl:
				for _, s := range d.Specs {
					switch s := s.(type) {
					case *ast.TypeSpec:
						declare(s.Name.Name, name)
					case *ast.ValueSpec:
						for _, id := range s.Names {
							declare(id.Name, name)
						}
					}
				}
			}
		}
	}
	return owner
}

// isImported reports whether an expression names an imported package.
func isImported(f *ast.File, x ast.Expr) bool {
	id, ok := x.(*ast.Ident)
	return ok && slices.ContainsFunc(f.Imports, func(i *ast.ImportSpec) bool {
		if i.Name != nil {
			return i.Name.Name == id.Name
		}
		return path.Base(strings.Trim(i.Path.Value, `"`)) == id.Name
	})
}

func (g *fileGraph) addFile(name string) int {
	if i, ok := g.index[name]; ok {
		return i
	}
	if g.index == nil {
		g.index = map[string]int{}
	}
	i := len(g.files)
	g.index[name], g.files = i, append(g.files, name)
	for k := range g.uses {
		g.uses[k] = append(g.uses[k], false)
	}
	g.uses = append(g.uses, make([]bool, i+1))
	return i
}

func (g *fileGraph) addUse(from, to string) {
	if to != "" && to != from {
		g.addArrow(from, to)
	}
}

func (g *fileGraph) addArrow(from, to string) {
	i, j := g.addFile(from), g.addFile(to)
	g.uses[i][j] = true
}

// arrange orders the files so that few arrows point back: it starts with the files that use most
// and are used least, and moves each file to its best place until no move helps. Then it exchanges
// some files and tries again, the same way in each test run.
func (g *fileGraph) arrange() {
	weight := func(i int) int {
		n := 0
		for j := range g.files {
			n += asNumber(g.uses[j][i]) - asNumber(g.uses[i][j])
		}
		return n
	}
	g.order = make([]int, len(g.files))
	for i := range g.order {
		g.order[i] = i
	}
	slices.SortFunc(g.order, func(a, b int) int {
		if d := weight(a) - weight(b); d != 0 {
			return d
		}
		return strings.Compare(g.files[a], g.files[b])
	})
	var best []int
	bestBack, random := 0, rand.New(rand.NewPCG(1, 2))
	for range 40 {
		for improved := true; improved; {
			improved = false
			for i := range g.files {
				improved = g.moveToBestPlace(i) || improved
			}
		}
		back := g.countBackArrows()
		if best == nil || back < bestBack {
			best, bestBack = slices.Clone(g.order), back
		}
		g.order = slices.Clone(best)
		for range 1 + len(g.order)/8 {
			from, to := random.IntN(len(g.order)), random.IntN(len(g.order))
			g.order[from], g.order[to] = g.order[to], g.order[from]
		}
	}
	g.order = best
}

// moveToBestPlace moves a file to where its fewest arrows point back, and reports whether that
// place is better than the last one.
func (g *fileGraph) moveToBestPlace(file int) bool {
	old := slices.Index(g.order, file)
	rest := slices.Delete(slices.Clone(g.order), old, old+1)
	back := 0 // arrows from the file when it is first
	for _, other := range rest {
		back += asNumber(g.uses[other][file])
	}
	best, place, current := back, 0, back
	for i, other := range rest {
		back += asNumber(g.uses[file][other]) - asNumber(g.uses[other][file])
		if i+1 == old {
			current = back
		}
		if back < best {
			best, place = back, i+1
		}
	}
	if best >= current {
		return false
	}
	g.order = slices.Insert(rest, place, file)
	return true
}

func (g *fileGraph) countArrows() int {
	n := 0
	for _, row := range g.uses {
		for _, used := range row {
			n += asNumber(used)
		}
	}
	return n
}

func (g *fileGraph) countBackArrows() int { return len(g.listBackArrows()) }

func (g *fileGraph) listBackArrows() []string {
	var back []string
	for k, from := range g.order {
		for _, to := range g.order[:k] {
			if g.uses[from][to] {
				back = append(back, g.files[from]+" → "+g.files[to])
			}
		}
	}
	return back
}

func asNumber(b bool) int {
	if b {
		return 1
	}
	return 0
}
