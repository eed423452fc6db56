package house_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// maxRuntimeModules is the number of third-party modules that a program with the runtime
// links, beyond those of google.golang.org/genai.
const maxRuntimeModules = 8

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
