package export_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"go.uber.org/goleak"

	"agenthost/internal/fake/fakemcp"
	"agenthost/pkg/loader"
	"agenthost/pkg/model"
	"agenthost/pkg/provider"
	"agenthost/pkg/spec"
)

// TestMain also runs the test binary as an MCP server.
func TestMain(m *testing.M) {
	fakemcp.ServeIfAsked()
	goleak.VerifyTestMain(m)
}

// lookUpEnv returns the environment for test apps.
func lookUpEnv(name string) (string, bool) {
	v, ok := map[string]string{"SET": "from the environment", "SIXTY": "60", "ORDERS_KEY": "key", "OTHER_KEY": "key"}[name]
	return v, ok
}

// readArchives returns the txtar files from a folder of pkg by name.
func readArchives(t testing.TB, folder string) map[string]*txtar.Archive {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("../../../pkg", folder, "*.txtar"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no files in pkg/%s: %v", folder, err)
	}
	all := make(map[string]*txtar.Archive, len(files))
	for _, file := range files {
		archive, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if len(strings.TrimSpace(string(archive.Comment))) == 0 {
			t.Errorf("%s has no headline that names its rule", file)
		}
		all[strings.TrimSuffix(filepath.Base(file), ".txtar")] = archive
	}
	return all
}

// unpackArchive writes an archive's files, except want, to a new folder. It returns the app's
// folder: app, or the first path element if the paths are in a folder in apps/. Files in
// secrets/ are the app's secrets.
func unpackArchive(t testing.TB, archive *txtar.Archive) string {
	t.Helper()
	top := t.TempDir()
	name := "app"
	for _, f := range archive.Files {
		if f.Name == "want" {
			continue
		}
		file := filepath.Join("app", f.Name)
		if rest, ok := strings.CutPrefix(f.Name, "apps/"); ok {
			file = rest
			if folder, _, ok := strings.Cut(rest, "/"); ok {
				name = folder
			}
		}
		if strings.HasPrefix(f.Name, "secrets/") {
			file = f.Name
		}
		write(t, filepath.Join(top, file), string(f.Data))
	}
	return filepath.Join(top, name)
}

func write(t testing.TB, file, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// newOptions returns the options for tests: the overlay app.prod.yaml and the secrets folder
// next to the app are used.
func newOptions(dir string) *loader.Options {
	opts := &loader.Options{Env: lookUpEnv, Overlay: "prod"}
	if secrets := filepath.Join(filepath.Dir(dir), "secrets"); isFolder(secrets) {
		opts.Secrets = secrets
	}
	return opts
}

func isFolder(dir string) bool {
	info, err := os.Stat(dir)
	return err == nil && info.IsDir()
}

// newAnsweringModel returns a scripted model with one answer. It calls exit_loop if
// available, so that loops end.
func newAnsweringModel(t *testing.T, text string) model.LLM {
	t.Helper()
	n, ds := spec.Parse("script.yaml", []byte(`
- when: '"exit_loop" in tools and responses.exit_loop == nil'
  calls: [{name: exit_loop}]
- text: `+text))
	script, more := provider.DecodeScript(n)
	if ds = append(ds, more...); len(ds) > 0 {
		t.Fatalf("DecodeScript: %s", ds.Error())
	}
	return provider.NewScripted(script, nil)
}
