package loader_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agenthost/pkg/loader"
	"agenthost/pkg/runtime"
)

func mustLoad(t testing.TB, dir string, opts *loader.Options) *runtime.App {
	t.Helper()
	app, ds := loader.New(opts).Load(t.Context(), dir)
	if app == nil || len(ds) > 0 {
		t.Fatalf("Load(%s):\n%s", dir, renderText(t, ds))
	}
	t.Cleanup(app.Close)
	return app
}

// TestApps loads valid apps. The headline of each archive ends with the agents of its
// tree, from the root down.
func TestApps(t *testing.T) {
	for name, archive := range readArchives(t, "ok") {
		t.Run(name, func(t *testing.T) {
			dir := unpackArchive(t, archive)
			app := mustLoad(t, dir, newOptions(dir))
			_, agents, ok := strings.Cut(string(archive.Comment), "# agents: ")
			if !ok {
				t.Fatal("the headline does not list the agents")
			}
			if diff := cmp.Diff(strings.Fields(agents), app.AgentNames()); diff != "" {
				t.Errorf("AgentNames (-want +got):\n%s", diff)
			}
			dir = unpackArchive(t, archive)
			if again := mustLoad(t, dir, newOptions(dir)); again.Revision() != app.Revision() {
				t.Errorf("the same files have revisions %s and %s", app.Revision(), again.Revision())
			}
		})
	}
}

// TestRevision covers changes with and without effect on the revision of an app.
func TestRevision(t *testing.T) {
	const (
		agent  = "name: a\ninstruction: Say ${env:GREETING:-Hello}\nmodel: m\ndescription: ${file:d.md}"
		doc    = "models: {m: {provider: scripted, script: s.yaml}, n: {provider: gemini, model: gemini-x, api_key: \"${secret:KEY}\"}}"
		script = "- text: hi"
	)
	files := func(agent, doc, script string) map[string]string {
		return map[string]string{"root_agent.yaml": agent, "app.yaml": doc, "s.yaml": script, "d.md": "Greets."}
	}
	with := func(files map[string]string, name, content string) map[string]string {
		files[name] = content
		return files
	}
	for _, tt := range []struct {
		name  string
		files map[string]string
		env   map[string]string
		same  bool
	}{
		{"nothing", files(agent, doc, script), nil, true},
		{"a variable that is not read", files(agent, doc, script), map[string]string{"OTHER": "x"}, true},
		{"a file that is not read", with(files(agent, doc, script), "README.md", "x"), nil, true},
		{"a variable", files(agent, doc, script), map[string]string{"GREETING": "Hi"}, false},
		{"a variable set to its default", files(agent, doc, script), map[string]string{"GREETING": "Hello"}, false},
		{"an empty variable", files(agent, doc, script), map[string]string{"GREETING": ""}, false},
		{"the agent", files(agent+"\n# more", doc, script), nil, false},
		{"app.yaml", files(agent, doc+"\n", script), nil, false},
		{"the script", files(agent, doc, script+"!"), nil, false},
		{"a secret", files(agent, doc, script), map[string]string{"KEY": "other"}, false},
		{"a text file", with(files(agent, doc, script), "d.md", "other"), nil, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before := loadRevision(t, files(agent, doc, script), nil)
			if got := loadRevision(t, tt.files, tt.env) == before; got != tt.same {
				t.Errorf("same revision = %v, want %v", got, tt.same)
			}
		})
	}
}

func loadRevision(t *testing.T, files, env map[string]string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "app")
	for name, content := range files {
		write(t, filepath.Join(dir, name), content)
	}
	lookup := func(name string) (string, bool) {
		v, ok := env[name]
		if !ok && name == "KEY" {
			return "the key", true
		}
		return v, ok
	}
	return mustLoad(t, dir, &loader.Options{Env: lookup}).Revision()
}

// TestDotenv covers the lines of a .env. The environment takes precedence.
func TestDotenv(t *testing.T) {
	for _, tt := range []struct{ line, want string }{
		{"X=plain", "plain"},
		{"  export X = spaced ", "spaced"},
		{`X="in # quotes"`, "in # quotes"},
		{"X='single'", "single"},
		{"X=value # comment", "value"},
		{"X=a=b", "a=b"},
		{"X=", ""},
		{"#X=comment", "default"},
		{"X", "default"},
		{"SET=no\nX=1\r\nX=2", "2"},
	} {
		dir := filepath.Join(t.TempDir(), "app")
		write(t, filepath.Join(dir, ".env"), tt.line)
		write(t, filepath.Join(dir, "root_agent.yaml"), `{name: a, instruction: x, description: "${env:X:-default} ${env:SET:-unset}"}`)
		app := mustLoad(t, dir, &loader.Options{Env: lookUpEnv})
		if want := tt.want + " from the environment"; app.Description() != want {
			t.Errorf("with %q in .env: description %q, want %q", tt.line, app.Description(), want)
		}
	}
}

func TestDiscover(t *testing.T) {
	top := t.TempDir()
	for _, file := range []string{"b/root_agent.yaml", "a/app.yaml", ".hidden/app.yaml", "_shared/app.yaml", "none/README.md", "deep/c/app.yaml", "odd/app.yaml/x"} {
		write(t, filepath.Join(top, file), "")
	}
	for _, tt := range []struct {
		dir  string
		want []string
	}{
		{top, []string{filepath.Join(top, "a"), filepath.Join(top, "b")}},
		{filepath.Join(top, "a"), []string{filepath.Join(top, "a")}},
		{filepath.Join(top, "none"), nil},
	} {
		got, err := loader.Discover(tt.dir)
		if diff := cmp.Diff(tt.want, got); diff != "" || err != nil {
			t.Errorf("Discover(%s): %v (-want +got):\n%s", tt.dir, err, diff)
		}
	}
	if _, err := loader.Discover(filepath.Join(top, "gone")); err == nil || !strings.HasPrefix(err.Error(), "finding apps: ") {
		t.Errorf("Discover of a missing folder: %v", err)
	}
}
