package house_test

import (
	"encoding/json"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// floors is the plan of the house: a package imports only packages of lower floors.
var floors = map[string]int{
	"internal/limit": -1, "internal/number": -1, "internal/number/numbertest": -1,
	"pkg/spec": 0, "pkg/template": 0, "pkg/model": 0, "internal/safe": 0, "internal/regular": 0, "internal/adkjson": 0, "internal/buffers": 0, "internal/charset": 0, "internal/baseurl": 0, "internal/jsonschema": 0,
	"internal/jsonbody": 2,
	"pkg/session":       1, "pkg/connection": 1, "internal/policy": 1, "internal/textlive": 1, "wing/programs/sandbox": 1, "wing/programs": 3, "wing/wasi": 3,
	"wing/live": 2, "wing/evaluation/eval": 2, "pkg/provider": 3, "pkg/tool": 2, "wing/mcptool": 3, "wing/openapitool": 3, "internal/toolstub": 3, "internal/auth": 2, "internal/a2a": 2,
	"internal/textdiff": 0, "wing/adk/conformance": 10, "internal/codec": 2, "pkg/store": 3, "pkg/store/memstore": 4, "pkg/store/kvstore": 4,
	"pkg/store/dirstore": 4, "wing/bucketstore": 4, "wing/vertex/vertexstore": 4, "pkg/store/sqlstore": 5, "pkg/store/storeurl": 6,
	"pkg/runtime": 5, "wing/adk/adkdb": 6,
	"pkg/agentconfig": 6, "internal/turn": 6, "wing/apptest": 7, "wing/evaluation/evalfile": 7, "wing/evaluation/evalrun": 8,
	"pkg/loader": 9,
	"pkg/server": 10, "wing/evaluation/evaltest": 10, "internal/lsp": 10,
	"cmd/agenthost": 11, "examples/embed": 11, "internal/junit": 0, "wing/evaluation/evalstats": 0, "wing/evaluation/evalreport": 9, "wing/evaluation/optimize": 9,

	// Test support: only tests import it.
	"internal/fake": 0, "internal/fake/fakeodd": 0, "internal/fake/fakeanthropic": 1, "internal/fake/fakeidp": 0, "internal/fake/fakegemini": 1, "internal/fake/fakeollama": 1, "internal/fake/fakeopenai": 1, "internal/fake/fakebucket": 0, "internal/fake/fakevertex": 0, "internal/fake/fakevertex/serve": 1, "internal/testdb": 0, "internal/fake/fakemcp": 0, "ui-test/fakelive": 0, "ui-test/fakeauth": 1, "pkg/store/storetest": 5, "internal/testenv": 10,
}

func TestFloors(t *testing.T) {
	const module = "agenthost/"
	out, err := exec.Command("go", "list", "-json=ImportPath,Imports", module+"...").Output()
	if err != nil {
		t.Fatal(err)
	}
	for dec := json.NewDecoder(strings.NewReader(string(out))); dec.More(); {
		var p struct {
			ImportPath string
			Imports    []string
		}
		if err := dec.Decode(&p); err != nil {
			t.Fatal(err)
		}
		from := strings.TrimPrefix(p.ImportPath, module)
		if from == "internal/house" {
			continue
		}
		floor, ok := floors[from]
		if !ok {
			t.Errorf("%s has no floor", from)
			continue
		}
		for _, imp := range p.Imports {
			to, ours := strings.CutPrefix(imp, module)
			if !ours {
				continue
			}
			if floors[to] >= floor {
				t.Errorf("%s (floor %d) imports %s (floor %d)", from, floor, to, floors[to])
			}
			if testOnly(to) && !testOnly(from) {
				if from != "internal/testenv" {
					t.Errorf("%s imports %s, a package for tests", from, to)
				}
			}
		}
	}
}

// TestOneJSONSchemaPackage: only internal/jsonschema uses the library for JSON Schema, because it
// bounds what a schema costs. Tests may use the library on the schemas of agenthost.
func TestOneJSONSchemaPackage(t *testing.T) {
	out, err := exec.Command("go", "list", "-f", `{{range .Imports}}{{$.ImportPath}} {{.}}{{"\n"}}{{end}}`, "agenthost/...").Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		from, imported, _ := strings.Cut(strings.TrimSpace(line), " ")
		if strings.Contains(imported, "/jsonschema/") && from != "agenthost/internal/jsonschema" {
			t.Errorf("%s imports %s: use internal/jsonschema", from, imported)
		}
	}
}

func testOnly(pkg string) bool {
	return slices.Contains([]string{"internal/fake", "internal/fake/fakeodd", "internal/fake/fakeanthropic", "internal/fake/fakeidp", "internal/fake/fakegemini", "internal/fake/fakeollama", "internal/fake/fakeopenai", "internal/fake/fakebucket", "internal/testdb", "pkg/store/storetest", "internal/fake/fakemcp", "internal/testenv", "internal/number/numbertest"}, pkg)
}
