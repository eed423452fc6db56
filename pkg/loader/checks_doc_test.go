package loader_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// docs is the folder of the pages, seen from this package.
const docs = "../../docs"

// TestLanguagePage loads every app of the pages about the language: nothing may
// be wrong with it, and nothing be warned of.
func TestLanguagePage(t *testing.T) {
	page := readPage(t, "language.md") + readPage(t, "memory.md")
	apps := map[string][]block{}
	for _, b := range blocksOf(page, "app") {
		name, file, ok := strings.Cut(b.mark, "/")
		if !ok || b.language != "yaml" {
			t.Fatalf("<!-- app: %s -->: want NAME/FILE above a yaml block", b.mark)
		}
		apps[name] = append(apps[name], block{mark: file, text: b.text})
	}
	if len(apps) == 0 {
		t.Fatal("the page has no app")
	}
	for name, files := range apps {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), name)
			for _, f := range files {
				write(t, filepath.Join(dir, f.mark), f.text)
			}
			mustLoad(t, dir, newOptions(dir))
		})
	}
}

// TestChecksPage plays every example of the page about the rules: its files
// must give the text that stands behind them, and that of the rule's section.
func TestChecksPage(t *testing.T) {
	page := readPage(t, "checks.md")
	shown := page
	for _, s := range sectionsOf(page) {
		if s.rule == "" {
			continue
		}
		t.Run(s.rule, func(t *testing.T) {
			var files []block
			for _, b := range blocksOf(s.text, "check") {
				if b.language == "yaml" {
					files = append(files, b)
					continue
				}
				got := renderText(t, check(t, runExample(t, files)))
				if diff := cmp.Diff(b.text, got); diff != "" && !isUpdating() {
					t.Errorf("Check (-want +got):\n%s", diff)
				}
				if !strings.Contains(got, "["+s.rule+"]") {
					t.Errorf("the example does not show the rule:\n%s", got)
				}
				shown = strings.Replace(shown, b.whole, strings.TrimSuffix(b.whole, b.text+"```\n")+got+"```\n", 1)
				files = nil
			}
			if len(files) > 0 {
				t.Errorf("no text block follows %s", files[0].mark)
			}
		})
	}
	if isUpdating() {
		if err := os.WriteFile(filepath.Join(docs, "checks.md"), []byte(shown), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// runExample writes the app of an example. Where it shows no root agent, a
// correct one is beside it.
func runExample(t *testing.T, files []block) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "app")
	write(t, filepath.Join(dir, "root_agent.yaml"), "name: a\ninstruction: Answer.\n")
	for _, f := range files {
		write(t, filepath.Join(dir, f.mark), f.text)
	}
	return dir
}

// TestChecksPageIsComplete wants a section for each rule that the code names,
// and no other; and an example in each, but for rules that no file can break.
func TestChecksPageIsComplete(t *testing.T) {
	var documented []string
	unplayed := map[string]string{
		"build":       "found only when a tree that was checked cannot be built",
		"deprecated":  "no field is deprecated yet",
		"portable":    "asked for by check --portable and export only",
		"test-failed": "found only when tests are run",
	}
	for _, s := range sectionsOf(readPage(t, "checks.md")) {
		if s.rule == "" {
			continue
		}
		documented = append(documented, s.rule)
		if len(blocksOf(s.text, "check")) == 0 && unplayed[s.rule] == "" {
			t.Errorf("the section of %s has no example", s.rule)
		}
	}
	if diff := cmp.Diff(rulesOfCode(t), documented); diff != "" {
		t.Errorf("the rules of the code, sorted, and those of the page (-code +page):\n%s", diff)
	}
}

// rulesOfCode are the rules that the sources name, sorted: the values of a
// field Rule, and the first plain word among the arguments of the functions
// that make diagnostics.
func rulesOfCode(t *testing.T) []string {
	t.Helper()
	var rules []string
	for _, pkg := range []string{"apptest", "loader", "policy", "provider", "runtime", "spec", "tool"} {
		files, err := filepath.Glob(filepath.Join("..", pkg, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("no sources of pkg/%s: %v", pkg, err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(parsed, func(n ast.Node) bool {
				if rule := ruleIn(n); rule != "" {
					rules = append(rules, rule)
				}
				return true
			})
		}
	}
	slices.Sort(rules)
	return slices.Compact(rules)
}

func ruleIn(n ast.Node) string {
	switch n := n.(type) {
	case *ast.KeyValueExpr:
		if key, ok := n.Key.(*ast.Ident); ok && key.Name == "Rule" {
			return ruleOf(n.Value)
		}
	case *ast.CallExpr:
		if !slices.Contains([]string{"Errorf", "Warnf", "located", "reportBuild", "fail"}, calleeOf(n)) {
			return ""
		}
		for _, arg := range n.Args {
			if rule := ruleOf(arg); rule != "" {
				return rule
			}
		}
	}
	return ""
}

// calleeOf is the name of what is called; functions of fmt have none here.
func calleeOf(call *ast.CallExpr) string {
	switch f := call.Fun.(type) {
	case *ast.Ident:
		return f.Name
	case *ast.SelectorExpr:
		if x, ok := f.X.(*ast.Ident); ok && x.Name == "fmt" {
			return ""
		}
		return f.Sel.Name
	}
	return ""
}

var ruleName = regexp.MustCompile(`^[a-z]+(-[a-z]+)*$`)

func ruleOf(e ast.Expr) string {
	lit, ok := e.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return ""
	}
	text, err := strconv.Unquote(lit.Value)
	if err != nil || !ruleName.MatchString(text) {
		return ""
	}
	return text
}

func readPage(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(docs, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// A section is what follows a heading of the third level; its rule is the
// heading when that is the name of one.
type section struct{ rule, text string }

func sectionsOf(page string) []section {
	var all []section
	for _, part := range strings.Split(page, "\n### ")[1:] {
		head, text, _ := strings.Cut(part, "\n")
		if !ruleName.MatchString(head) {
			head = ""
		}
		all = append(all, section{head, text})
	}
	return all
}

// A block is a fenced block below a mark <!-- kind: MARK -->. A text block has
// none: it ends the example that stands above it.
type block struct{ mark, language, text, whole string }

// blocksOf finds the marked blocks of a page in order, and with the first one
// marked also the text blocks.
func blocksOf(page, kind string) []block {
	var all []block
	fence := regexp.MustCompile("(?:<!-- " + kind + ": ([^ ]+) -->\n```(yaml)|```(text))\n((?s:.*?))```\n")
	for _, m := range fence.FindAllStringSubmatch(page, -1) {
		if m[3] != "" && len(all) == 0 {
			continue
		}
		all = append(all, block{mark: m[1], language: m[2] + m[3], text: m[4], whole: m[0]})
	}
	return all
}
