package loader_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"go.uber.org/goleak"

	"agenthost/internal/fake/fakemcp"
	"agenthost/internal/testenv"
	"agenthost/pkg/loader"
	"agenthost/pkg/spec"
)

// isUpdating reports whether golden files are updated. Package testenv shares the flag
// -update.
func isUpdating() bool { return flag.Lookup("update").Value.String() == "true" }

// TestMain also runs the test binary as an MCP server.
func TestMain(m *testing.M) {
	loader.SetTestKinds(testenv.Kinds())
	fakemcp.ServeIfAsked()
	goleak.VerifyTestMain(m)
}

// lookUpEnv returns the test apps' environment.
func lookUpEnv(name string) (string, bool) {
	v, ok := map[string]string{"SET": "from the environment", "SIXTY": "60", "ORDERS_KEY": "key", "OTHER_KEY": "key"}[name]
	return v, ok
}

// readArchives returns the txtar files in a testdata folder by name.
func readArchives(t testing.TB, folder string) map[string]*txtar.Archive {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", folder, "*.txtar"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no files in testdata/%s: %v", folder, err)
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

// unpackArchive writes an archive's files, except want, to a new folder. It returns the app folder:
// app, or the first path element if they are in a folder below apps/. Files in secrets/ are the
// app's secrets.
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

// newOptions returns the options for the tests: the overlay app.prod.yaml and the secrets folder
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

// check runs Check and makes the problems' paths relative to the app's parent folder.
func check(t testing.TB, dir string) spec.Diagnostics {
	t.Helper()
	return checkWith(t, dir, newOptions(dir))
}

func checkWith(t testing.TB, dir string, opts *loader.Options) spec.Diagnostics {
	t.Helper()
	ds := loader.New(testenv.Kinds(), opts).Check(t.Context(), dir)
	above := filepath.ToSlash(filepath.Dir(dir)) + "/"
	for i := range ds {
		ds[i].Pos.File = strings.TrimPrefix(ds[i].Pos.File, above)
		ds[i].Message = strings.ReplaceAll(ds[i].Message, above, "")
		ds[i].Hint = strings.ReplaceAll(ds[i].Hint, above, "")
		for k := range ds[i].Also {
			ds[i].Also[k].Pos.File = strings.TrimPrefix(ds[i].Also[k].Pos.File, above)
		}
	}
	return ds
}

func renderText(t testing.TB, ds spec.Diagnostics) string {
	t.Helper()
	var b strings.Builder
	if err := ds.WriteText(&b); err != nil {
		t.Fatalf("WriteText: %v", err)
	}
	return b.String()
}
