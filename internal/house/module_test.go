package house_test

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// `make module PATH=…` gives the module another path: afterwards no package imports the
// old one, and the packages build.
func TestModulePath(t *testing.T) {
	const path = "example.com/team/agenthost"
	root := copyModule(t)
	out, err := exec.Command("make", "-C", root, "module", "PATH="+path).CombinedOutput()
	if err != nil {
		t.Fatalf("make module: %v\n%s", err, out)
	}
	list := exec.Command("go", "list", "-deps", "-test", "./...")
	list.Dir = root
	out, err = list.CombinedOutput()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, out)
	}
	for pkg := range strings.Lines(string(out)) {
		if strings.HasPrefix(pkg, "agenthost/") {
			t.Errorf("a package still imports %s", pkg)
		}
	}
	build := exec.Command("go", "build", "./pkg/spec", "./pkg/template", "./pkg/session")
	build.Dir, build.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Errorf("go build: %v\n%s", err, out)
	}
	for _, nested := range []string{"examples/extend", "qa", "qa/bench", "qa/gcscompat", "qa/kubecompat", "qa/openaicompat", "tools", "tools/release"} {
		mod, err := os.ReadFile(filepath.Join(root, nested, "go.mod"))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(string(mod), "module "+path+"/"+nested+"\n") || strings.Contains(string(mod), "\tagenthost v") {
			t.Errorf("%s/go.mod has the old path:\n%s", nested, mod)
		}
	}
}

// A path that Go would reject changes nothing.
func TestModulePathInvalid(t *testing.T) {
	root := copyModule(t)
	out, err := exec.Command("make", "-C", root, "module", "PATH=Not A Path").CombinedOutput()
	if err == nil || !strings.Contains(string(out), `module path must look like github.com/you/agenthost, got "Not A Path"`) {
		t.Errorf("make module: %v\n%s", err, out)
	}
}

// copyModule copies the Makefile, the tools and all Go files to a test folder.
func copyModule(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	skipped := []string{".git", "node_modules", "bin", "dist", "ui-test"}
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains(skipped, d.Name()):
			return filepath.SkipDir
		case d.IsDir() || !d.Type().IsRegular():
			return nil
		}
		to := filepath.Join(root, strings.TrimPrefix(filepath.ToSlash(path), "../../"))
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		return os.WriteFile(to, b, 0o755)
	})
	if err != nil {
		t.Fatal(err)
	}
	return root
}
