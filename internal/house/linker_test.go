package house_test

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The linker removes the methods that nothing calls: no reachable function looks up a
// method by a name that is not a constant. One such function costs 8 MB of the binary (see
// docs/decisions/0027-dead-methods.md).
func TestDeadMethodsRemoved(t *testing.T) {
	for _, program := range []string{"./examples/embed"} {
		build := exec.CommandContext(t.Context(), "go", "build", "-tags=grpcnotrace", "-ldflags=-dumpdep", "-o", filepath.Join(t.TempDir(), "program"), program)
		build.Dir, build.Env = "../..", append(os.Environ(), "CGO_ENABLED=0")
		arrows, err := build.CombinedOutput()
		if err != nil {
			t.Fatalf("go build %s: %v", program, err)
		}
		if !bytes.Contains(arrows, []byte("main.main -> ")) {
			t.Fatalf("go build %s printed no arrows", program)
		}
		for lines := bufio.NewScanner(bytes.NewReader(arrows)); lines.Scan(); {
			if from, to, _ := strings.Cut(lines.Text(), " -> "); strings.HasSuffix(to, " <ReflectMethod>") {
				t.Errorf("%s: %s calls %s", program, from, to)
			}
		}
	}
}
