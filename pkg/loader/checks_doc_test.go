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

// docs is the path to the documentation folder.
const docs = "../../docs"

// TestLanguagePage loads every app on the language pages without errors or warnings.
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

// TestChecksPage runs every example on the page about rules: its files must produce the text that
// follows, with the section's rule.
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

// runExample writes an example's app. It adds a valid root agent if the example has none.
func runExample(t *testing.T, files []block) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "app")
	write(t, filepath.Join(dir, "root_agent.yaml"), "name: a\ninstruction: Answer.\n")
	for _, f := range files {
		write(t, filepath.Join(dir, f.mark), f.text)
	}
	return dir
}

// TestChecksPageIsComplete expects one section for each rule in the code, with an
// example unless no file can violate the rule.
func TestChecksPageIsComplete(t *testing.T) {
	var documented []string
	unplayed := map[string]string{
		"build":       "occurs only if a validated tree cannot be built",
		"model-key":   "depends on the environment; testdata/script/check-key.txtar of cmd/agenthost shows it",
		"deprecated":  "no field is deprecated yet",
		"portable":    "reported only by check --portable and export",
		"test-failed": "reported only when tests run",
		"eval-failed": "reported only when evals run",
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
		t.Errorf("rules (-code +page):\n%s", diff)
	}
}

// rulesOfCode returns the rules in the sources, sorted: the values in Rule fields, and the rule
// arguments passed to functions that create diagnostics.
func rulesOfCode(t *testing.T) []string {
	t.Helper()
	var rules []string
	for _, pkg := range []string{"wing/adk/export", "wing/apptest", "wing/evaluation/evalfile", "wing/evaluation/evalgate", "internal/policy", "internal/toolstub", "internal/agentconfig", "wing/evaluation/eval", "pkg/loader", "pkg/provider", "pkg/runtime", "internal/runconfig", "pkg/spec", "pkg/tool", "pkg/tool/declare", "internal/toolconfig", "internal/toolhttp", "pkg/tool/builtin", "pkg/tool/httptool", "wing/openapitool", "wing/programs", "wing/skills", "wing/vertex/vertextool"} {
		files, err := filepath.Glob(filepath.Join("..", "..", pkg, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("no sources of %s: %v", pkg, err)
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
		if !slices.Contains([]string{"Errorf", "Warnf", "located", "reportBuild", "fail", "NewTemplateDiagnostic"}, calleeOf(n)) {
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

// calleeOf returns the called function's name, or "" for fmt's functions.
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

// A section is the text after a third-level heading. rule is the heading if it names a rule.
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

// A block is a fenced block after a mark <!-- kind: MARK -->. A text block has no mark:
// it ends the preceding example.
type block struct{ mark, language, text, whole string }

// blocksOf returns a page's marked blocks in order, and the text blocks after the first marked one.
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
