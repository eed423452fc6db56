package house_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// maxRuntimeModules is how many third-party modules a program with the runtime may link, beyond
// those that google.golang.org/genai needs.
const maxRuntimeModules = 8

// maxLinkedPackages is how many packages a program may link beyond those that
// google.golang.org/genai needs. They only fall.
var maxLinkedPackages = map[string]int{
	"agenthost/pkg/runtime":    38,
	"agenthost/examples/embed": 155,
}

// A program that embeds agenthost links little beyond a bare model client.
func TestLinkedPackages(t *testing.T) {
	known := listDeps(t, "google.golang.org/genai")
	for program, limit := range maxLinkedPackages {
		var own []string
		for _, pkg := range listDeps(t, program) {
			if !slices.Contains(known, pkg) {
				own = append(own, pkg)
			}
		}
		if len(own) > limit {
			t.Errorf("%s links %d packages beyond those of genai, at most %d are allowed: %s", program, len(own), limit, strings.Join(own, " "))
		}
	}
}

// listDeps returns the packages that a package links.
func listDeps(t *testing.T, pkg string) []string {
	t.Helper()
	out, err := exec.Command("go", "list", "-deps", pkg).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(string(out))
}

// A program that embeds the runtime links neither a database nor a cloud client.
func TestRuntimeModules(t *testing.T) {
	known := listModules(t, "google.golang.org/genai")
	var own []string
	for _, module := range listModules(t, "agenthost/pkg/runtime") {
		if !slices.Contains(known, module) && module != "agenthost" {
			own = append(own, module)
		}
	}
	if len(own) > maxRuntimeModules {
		t.Errorf("pkg/runtime links %d modules beyond those of genai, at most %d are allowed: %s", len(own), maxRuntimeModules, strings.Join(own, " "))
	}
}

// listModules returns the modules whose packages a package links.
func listModules(t *testing.T, pkg string) []string {
	t.Helper()
	out, err := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", pkg).Output()
	if err != nil {
		t.Fatal(err)
	}
	modules := strings.Fields(string(out))
	slices.Sort(modules)
	return slices.Compact(modules)
}
