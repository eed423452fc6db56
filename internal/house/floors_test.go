package house_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// A floor is a group of packages that import only packages from lower floors, and never one
// another.
type floor struct {
	name     string
	packages []string
}

// floors is the house's plan, from the bottom to the top: the ground, which each package may use,
// the kernel, and what several wings share. The wings lie above all floors, and cmd/agenthost above
// the wings; [TestFloors] tests all.
var floors = []floor{
	{"ground: limits and numbers", []string{"internal/limit", "internal/number"}},
	{"ground", []string{
		"internal/adkjson", "internal/adktools", "internal/baseurl", "internal/buffers", "internal/charset", "internal/fence", "internal/jsonschema",
		"internal/junit", "internal/regular", "internal/safe", "internal/statistics", "internal/terminal", "internal/textdiff", "pkg/store/sqlstore/internal/engine",
	}},
	{"kernel: language", []string{"pkg/model", "pkg/spec", "pkg/template"}},
	{"kernel: sessions and grants", []string{"pkg/session", "pkg/connection"}},
	{"kernel: tools and encodings", []string{"pkg/tool", "internal/auth", "internal/appfolder", "internal/codec", "internal/jsonbody", "internal/modelcall", "pkg/store/backend"}},
	{"kernel: declarations of tools", []string{"pkg/tool/declare"}},
	{"kernel: settings of tools, grants of programs", []string{"internal/toolconfig", "internal/policy", "internal/textlive"}},
	{"kernel: requests of tools", []string{"internal/toolhttp"}},
	{"kernel: kinds of tools", []string{"pkg/tool/builtin", "pkg/tool/httptool"}},
	{"kernel: models and stores", []string{"pkg/provider", "pkg/store"}},
	{"shared: models of vendors", []string{"internal/modelapi"}},
	{"shared: requests to vendors", []string{"internal/legalrequest"}},
	{"kernel: stores and drivers", []string{
		"pkg/store/memstore", "pkg/store/dirstore",
		"pkg/store/sqlstore/sqlite", "pkg/store/sqlstore/postgres", "pkg/store/sqlstore/mysql",
	}},
	{"kernel: runtime and schemes of stores", []string{"pkg/runtime", "pkg/store/storeurl"}},
	{"kernel: configuration and databases", []string{"internal/agentconfig", "internal/runconfig", "pkg/store/sqlstore"}},
	{"shared: code in programs", []string{"internal/codeprogram"}},
	{"shared: turns of tests and evaluations", []string{"internal/turn", "internal/toolstub"}},
	{"kernel: loader", []string{"pkg/loader"}},
	{"kernel: server", []string{"pkg/server"}},
	{"shared: doors of protocols", []string{"pkg/protocol", "pkg/protocol/task"}},
	{"shared: messages of A2A", []string{"internal/a2acard", "internal/a2apart"}},
	{"kernel: front", []string{"agenthost"}},
	{"shared: commands", []string{"internal/command"}},
}

// isTestSupport reports whether only tests, and qa's programs, import a package.
func isTestSupport(pkg string) bool {
	if pkg == "internal/fake" || strings.HasPrefix(pkg, "internal/fake/") || strings.HasPrefix(pkg, "ui-test/") {
		return true
	}
	return slices.Contains([]string{"internal/house", "internal/legalrequest/legaltest", "internal/modeltest", "internal/number/numbertest", "internal/servertest", "internal/testdb", "internal/testenv", "internal/tooltest", "pkg/store/storetest"}, pkg)
}

// isTop reports whether a package is a program that may import each package.
func isTop(pkg string) bool {
	return strings.HasPrefix(pkg, "cmd/") || strings.HasPrefix(pkg, "examples/")
}

// wingOf returns the wing that a package belongs to, or "".
func wingOf(pkg string) string {
	path, ok := strings.CutPrefix(pkg, "wing/")
	if !ok {
		return ""
	}
	name, _, _ := strings.Cut(path, "/")
	return name
}

// floorOf returns a package's floor number; ok is false if it has none.
func floorOf(pkg string) (number int, ok bool) {
	number = slices.IndexFunc(floors, func(f floor) bool { return slices.Contains(f.packages, pkg) })
	return number, number >= 0
}

// checkImport returns why a package may not import another one, or "".
func checkImport(from, to string) string {
	low, _ := floorOf(to)
	high, placed := floorOf(from)
	switch {
	case isTestSupport(to) && !isTestSupport(from):
		return "a package for tests"
	case isTestSupport(from) || isTop(from):
		return ""
	case isTop(to):
		return "a program"
	case wingOf(from) != "":
		if wing := wingOf(to); wing != "" && wing != wingOf(from) {
			return "another wing"
		}
		return ""
	case wingOf(to) != "":
		return "a wing: only cmd, tests, examples and qa import wings"
	case placed && low >= high:
		return "which is not on a lower floor (" + floors[high].name + ", " + floors[low].name + ")"
	}
	return ""
}

// Each package has a place, and imports only what lies below it: a wing the kernel and
// internal, never another wing; the kernel no wing.
func TestFloors(t *testing.T) {
	for from, imports := range listImports(t) {
		if _, ok := floorOf(from); !ok && wingOf(from) == "" && !isTestSupport(from) && !isTop(from) {
			t.Errorf("%s has no floor", from)
			continue
		}
		for _, to := range imports {
			if reason := checkImport(from, to); reason != "" {
				t.Errorf("%s imports %s: %s", from, to, reason)
			}
		}
	}
}

// A package that a floor lists exists.
func TestFloorsListPackages(t *testing.T) {
	imports := listImports(t)
	for _, f := range floors {
		for _, pkg := range f.packages {
			if _, ok := imports[pkg]; !ok {
				t.Errorf("%s: %s does not exist", f.name, pkg)
			}
		}
	}
}

// TestCheckImport is [TestFloors]'s control.
func TestCheckImport(t *testing.T) {
	for tie, allowed := range map[string]bool{
		"pkg/spec > internal/limit":                      true,
		"internal/limit > pkg/spec":                      false,
		"pkg/store/memstore > pkg/store/dirstore":        false,
		"pkg/runtime > wing/live":                        false,
		"internal/turn > wing/live":                      false,
		"wing/live > pkg/runtime":                        true,
		"wing/live > internal/safe":                      true,
		"wing/live > wing/evaluation/eval":               false,
		"wing/evaluation/evalrun > wing/evaluation/eval": true,
		"wing/live > cmd/agenthost":                      false,
		"wing/live > internal/testdb":                    false,
		"cmd/agenthost > wing/live":                      true,
		"examples/embed > wing/live":                     true,
		"internal/testenv > wing/mcptool":                true,
		"internal/testenv > internal/fake":               true,
	} {
		from, to, _ := strings.Cut(tie, " > ")
		if reason := checkImport(from, to); (reason == "") != allowed {
			t.Errorf("%s: reason %q, want allowed %v", tie, reason, allowed)
		}
	}
}

// listImports returns the module's packages and what each imports from it, tests apart.
func listImports(t *testing.T) map[string][]string {
	t.Helper()
	const module = "agenthost/"
	out, err := exec.Command("go", "list", "-json=ImportPath,Imports", module+"...").Output()
	if err != nil {
		t.Fatal(err)
	}
	imports := map[string][]string{}
	for dec := json.NewDecoder(strings.NewReader(string(out))); dec.More(); {
		var p struct {
			ImportPath string
			Imports    []string
		}
		if err := dec.Decode(&p); err != nil {
			t.Fatal(err)
		}
		from := strings.TrimPrefix(p.ImportPath, module)
		imports[from] = nil
		for _, imp := range p.Imports {
			if to, ours := strings.CutPrefix(imp, module); ours {
				imports[from] = append(imports[from], to)
			}
		}
	}
	return imports
}

// TestOneJSONSchemaPackage: only internal/jsonschema uses the library for JSON Schema, because it
// bounds what a schema costs. Tests may use the library on agenthost's schemas.
func TestOneJSONSchemaPackage(t *testing.T) {
	out, err := exec.Command("go", "list", "-f", `{{range .Imports}}{{$.ImportPath}} {{.}}{{"\n"}}{{end}}`, "agenthost/...").Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		from, imported, _ := strings.Cut(strings.TrimSpace(line), " ")
		if strings.Contains(imported, "/jsonschema/") && from != "agenthost/internal/jsonschema" && !isTestSupport(strings.TrimPrefix(from, "agenthost/")) {
			t.Errorf("%s imports %s: use internal/jsonschema", from, imported)
		}
	}
}

// docs/architecture.md has a row for each wing.
func TestWingsAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	wings, err := os.ReadDir("../../wing")
	if err != nil {
		t.Fatal(err)
	}
	for _, wing := range wings {
		if !strings.Contains(string(page), "`wing/"+wing.Name()+"`") {
			t.Errorf("docs/architecture.md has no row for `wing/%s`", wing.Name())
		}
	}
}
