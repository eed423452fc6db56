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

// realTrees are the apps of the project, those of the loader's tests, and those
// of the corpus where there is one.
func realTrees() ([]files, error) {
	all, err := broken()
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

// addTrees adds each folder with a root agent, if the one above them is there.
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

// A damager makes wrong trees of right ones.
type damager struct {
	seeds  []files
	lines  []string // of all of them
	marks  []string // what it puts in
	random *rand.Rand
}

func newDamager(seeds []files, seed uint64, marks []string) *damager {
	d := &damager{seeds: seeds, marks: marks, random: rand.New(rand.NewPCG(seed, 3))}
	for _, tree := range seeds {
		for _, name := range slices.Sorted(maps.Keys(tree)) {
			d.lines = append(d.lines, strings.SplitAfter(tree[name], "\n")...)
		}
	}
	return d
}

func (d *damager) pick() files { return d.seeds[d.random.IntN(len(d.seeds))] }

// damaged is a tree with up to four damages, and what they are.
func (d *damager) damaged(tree files) (files, string) {
	tree = maps.Clone(tree)
	var how []string
	for range 1 + d.random.IntN(4) {
		names := slices.Sorted(maps.Keys(tree))
		name := names[d.random.IntN(len(names))]
		one := damages[d.random.IntN(len(damages))]
		tree[name] = one.do(d, tree[name])
		how = append(how, one.name+" in "+name)
		if other := names[d.random.IntN(len(names))]; d.random.IntN(20) == 0 {
			tree[name], tree[other] = tree[other], tree[name]
			how = append(how, "exchanged with "+other)
		}
		if d.random.IntN(20) == 0 && name != "root_agent.yaml" {
			delete(tree, name)
			how = append(how, "taken away")
		}
	}
	return tree, strings.Join(how, ", ")
}

// A damage changes a text.
type damage struct {
	name string
	do   func(d *damager, text string) string
}

var damages = []damage{
	{"cut off", func(d *damager, text string) string { return text[:d.in(text)] }},
	{"a piece left out", func(d *damager, text string) string {
		from := d.in(text)
		return text[:from] + text[from+d.random.IntN(len(text)-from+1):]
	}},
	{"a byte changed", func(d *damager, text string) string {
		if text == "" {
			return text
		}
		b := []byte(text)
		b[d.random.IntN(len(b))] = byte(d.random.IntN(256))
		return string(b)
	}},
	{"a mark put in", func(d *damager, text string) string {
		at := d.in(text)
		return text[:at] + d.mark() + text[at:]
	}},
	{"another's line", (*damager).alien},
	{"a line twice", func(d *damager, text string) string {
		return d.line(text, func(line string) string { return line + line })
	}},
	{"a line left out", func(d *damager, text string) string { return d.line(text, func(string) string { return "" }) }},
	{"a line moved in", func(d *damager, text string) string {
		return d.line(text, func(line string) string { return strings.Repeat(" ", 1+d.random.IntN(4)) + line })
	}},
	{"a line moved out", func(d *damager, text string) string {
		return d.line(text, func(line string) string { return strings.TrimPrefix(line, "  ") })
	}},
	{"another value", func(d *damager, text string) string {
		return d.line(text, func(line string) string {
			key, _, ok := strings.Cut(line, ":")
			if !ok {
				return line
			}
			return key + ": " + d.mark() + "\n"
		})
	}},
	{"much more of it", func(d *damager, text string) string {
		return d.line(text, func(line string) string { return strings.Repeat(line, 1<<d.random.IntN(9)) })
	}},
}

// in is a place in a text.
func (d *damager) in(text string) int { return d.random.IntN(len(text) + 1) }

// mark is something to be put in.
func (d *damager) mark() string { return d.marks[d.random.IntN(len(d.marks))] }

// line changes one line of a text.
func (d *damager) line(text string, change func(string) string) string {
	lines := strings.SplitAfter(text, "\n")
	i := d.random.IntN(len(lines))
	lines[i] = change(lines[i])
	return strings.Join(lines, "")
}

// alien puts a line of any file of any app before one of this.
func (d *damager) alien(text string) string {
	other := d.lines[d.random.IntN(len(d.lines))]
	return d.line(text, func(line string) string { return other + line })
}

// marks are what means something to somebody who reads files.
func marks() []string {
	return []string{
		"*a", "&a ", "<<: *a\n", "!!binary ", "!!python/object:os.system ", "${env:HOME}", "${file:/etc/passwd}", "${", "{", "}", "[", "]",
		"{{", "\"", "'", "|\n", ">-\n", "? ", ": ", "- ", "\t", "\r", "\x00", "\uFEFF", "\u2028", "\xff", "---\n", "...\n", "%YAML 9.9\n", "#",
		"null", "~", "yes", "1e999", ".nan", "-.inf", "0x", "9223372036854775808", "2001-02-30", "12:30:45", "../../../../etc/passwd",
		"{a: {b: {c: [1, [2, [3]]]}}}", "{artifact.x}", "{user:x?}", "state.x ? 1 :", "filter(1..9999999, true)", "a.b.c.d()", "(a+)+$",
	}
}

// bombs are small and want to be large.
func bombs() []string {
	return []string{
		strings.Repeat("[", 20_000), strings.Repeat("{a: ", 5_000), strings.Repeat("- ", 5_000), strings.Repeat("a", 1<<17),
		strings.Repeat("((", 4_000), strings.Repeat("{a}", 5_000), laughs(9), fmt.Sprint("\"", strings.Repeat("\\u00e9", 20_000), "\""),
	}
}

// laughs is a value that is nine times the one before it, level by level.
func laughs(levels int) string {
	var b strings.Builder
	b.WriteString("{l0: &l0 [x, x, x, x, x, x, x, x, x]")
	for i := 1; i < levels; i++ {
		fmt.Fprintf(&b, ", l%d: &l%d [%s]", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*l%d, ", i-1), 9), ", "))
	}
	return b.String() + "}"
}
