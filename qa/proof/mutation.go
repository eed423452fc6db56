package main

import (
	"cmp"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/txtar"
)

// loadRealTrees returns the repository's apps, the loader tests' apps, and the corpus's if it is
// available.
func loadRealTrees() ([]files, error) {
	all, err := brokenApps()
	if err != nil {
		return nil, err
	}
	ok, err := filepath.Glob(filepath.Join("pkg", "loader", "testdata", "ok", "*.txtar"))
	if err != nil {
		return nil, err
	}
	for _, name := range ok {
		archive, err := txtar.ParseFile(name)
		if err != nil {
			return nil, err
		}
		app := files{}
		for _, f := range archive.Files {
			app[f.Name] = string(f.Data)
		}
		all[name] = app
	}
	for _, top := range []string{"apps", filepath.Join(cmp.Or(os.Getenv("AGENTHOST_CORPUS"), filepath.Join("..", "shared", "corpus")), "agent-config")} {
		if err := addTrees(all, top); err != nil {
			return nil, err
		}
	}
	var trees []files
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if all[name]["root_agent.yaml"] != "" {
			trees = append(trees, all[name])
		}
	}
	return trees, nil
}

// addTrees adds each folder with a root agent below top, if top exists.
func addTrees(all map[string]files, top string) error {
	return filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		if os.IsNotExist(err) {
			return nil
		}
		if err != nil || d.Name() != "root_agent.yaml" {
			return err
		}
		app, dir := files{}, filepath.Dir(path)
		all[dir] = app
		return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || filepath.Ext(path) != ".yaml" {
				return err
			}
			text, err := os.ReadFile(path)
			name, _ := filepath.Rel(dir, path)
			app[filepath.ToSlash(name)] = string(text)
			return err
		})
	})
}

// A mutator derives damaged trees from valid ones.
type mutator struct {
	seeds  []files
	lines  []string // from all seeds
	tokens []string // strings to insert
	random *rand.Rand
}

func newMutator(seeds []files, seed uint64, marks []string) *mutator {
	d := &mutator{seeds: seeds, tokens: marks, random: rand.New(rand.NewPCG(seed, 3))}
	for _, tree := range seeds {
		for _, name := range slices.Sorted(maps.Keys(tree)) {
			d.lines = append(d.lines, strings.SplitAfter(tree[name], "\n")...)
		}
	}
	return d
}

func (d *mutator) pickTree() files { return d.seeds[d.random.IntN(len(d.seeds))] }

// mutateTree returns a tree with up to four mutations and their description.
func (d *mutator) mutateTree(tree files) (files, string) {
	tree = maps.Clone(tree)
	var changes []string
	for range 1 + d.random.IntN(4) {
		names := slices.Sorted(maps.Keys(tree))
		name := names[d.random.IntN(len(names))]
		change := mutations[d.random.IntN(len(mutations))]
		tree[name] = change.apply(d, tree[name])
		changes = append(changes, change.name+" in "+name)
		if other := names[d.random.IntN(len(names))]; d.random.IntN(20) == 0 {
			tree[name], tree[other] = tree[other], tree[name]
			changes = append(changes, "swapped with "+other)
		}
		if d.random.IntN(20) == 0 && name != "root_agent.yaml" {
			delete(tree, name)
			changes = append(changes, "removed")
		}
	}
	return tree, strings.Join(changes, ", ")
}

// A mutation changes a file's content.
type mutation struct {
	name  string
	apply func(d *mutator, text string) string
}

var mutations = []mutation{
	{"truncated", func(d *mutator, text string) string { return text[:d.pickOffset(text)] }},
	{"range removed", func(d *mutator, text string) string {
		from := d.pickOffset(text)
		return text[:from] + text[from+d.random.IntN(len(text)-from+1):]
	}},
	{"byte changed", func(d *mutator, text string) string {
		if text == "" {
			return text
		}
		b := []byte(text)
		b[d.random.IntN(len(b))] = byte(d.random.IntN(256))
		return string(b)
	}},
	{"token inserted", func(d *mutator, text string) string {
		at := d.pickOffset(text)
		return text[:at] + d.pickToken() + text[at:]
	}},
	{"foreign line inserted", (*mutator).insertForeignLine},
	{"line duplicated", func(d *mutator, text string) string {
		return d.mutateLine(text, func(line string) string { return line + line })
	}},
	{"line removed", func(d *mutator, text string) string { return d.mutateLine(text, func(string) string { return "" }) }},
	{"line indented", func(d *mutator, text string) string {
		return d.mutateLine(text, func(line string) string { return strings.Repeat(" ", 1+d.random.IntN(4)) + line })
	}},
	{"line dedented", func(d *mutator, text string) string {
		return d.mutateLine(text, func(line string) string { return strings.TrimPrefix(line, "  ") })
	}},
	{"value replaced", func(d *mutator, text string) string {
		return d.mutateLine(text, func(line string) string {
			key, _, ok := strings.Cut(line, ":")
			if !ok {
				return line
			}
			return key + ": " + d.pickToken() + "\n"
		})
	}},
	{"line repeated", func(d *mutator, text string) string {
		return d.mutateLine(text, func(line string) string { return strings.Repeat(line, 1<<d.random.IntN(9)) })
	}},
}

// pickOffset returns a random offset.
func (d *mutator) pickOffset(text string) int { return d.random.IntN(len(text) + 1) }

func (d *mutator) pickToken() string { return d.tokens[d.random.IntN(len(d.tokens))] }

// mutateLine changes one random line.
func (d *mutator) mutateLine(text string, change func(string) string) string {
	lines := strings.SplitAfter(text, "\n")
	i := d.random.IntN(len(lines))
	lines[i] = change(lines[i])
	return strings.Join(lines, "")
}

// insertForeignLine inserts a line from any file in any app.
func (d *mutator) insertForeignLine(text string) string {
	other := d.lines[d.random.IntN(len(d.lines))]
	return d.mutateLine(text, func(line string) string { return other + line })
}

// yamlTokens are strings with a meaning in YAML, templates, expressions or paths.
func yamlTokens() []string {
	return []string{
		"*a", "&a ", "<<: *a\n", "!!binary ", "!!python/object:os.system ", "${env:HOME}", "${file:/etc/passwd}", "${", "{", "}", "[", "]",
		"{{", "\"", "'", "|\n", ">-\n", "? ", ": ", "- ", "\t", "\r", "\x00", "\uFEFF", "\u2028", "\xff", "---\n", "...\n", "%YAML 9.9\n", "#",
		"null", "~", "yes", "1e999", ".nan", "-.inf", "0x", "9223372036854775808", "2001-02-30", "12:30:45", "../../../../etc/passwd",
		"{a: {b: {c: [1, [2, [3]]]}}}", "{artifact.x}", "{user:x?}", "state.x ? 1 :", "filter(1..9999999, true)", "a.b.c.d()", "(a+)+$",
	}
}

// expansionBombs are small strings that expand to large values.
func expansionBombs() []string {
	return []string{
		strings.Repeat("[", 20_000), strings.Repeat("{a: ", 5_000), strings.Repeat("- ", 5_000), strings.Repeat("a", 1<<17),
		strings.Repeat("((", 4_000), strings.Repeat("{a}", 5_000), billionLaughs(9), fmt.Sprint("\"", strings.Repeat("\\u00e9", 20_000), "\""),
	}
}

// billionLaughs returns nested aliases, each nine times as large as the previous one.
func billionLaughs(levels int) string {
	var b strings.Builder
	b.WriteString("{l0: &l0 [x, x, x, x, x, x, x, x, x]")
	for i := 1; i < levels; i++ {
		fmt.Fprintf(&b, ", l%d: &l%d [%s]", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*l%d, ", i-1), 9), ", "))
	}
	return b.String() + "}"
}
