package loader_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agenthost/internal/testenv"
	"agenthost/pkg/loader"
	"agenthost/pkg/runtime"
)

func mustLoad(t testing.TB, dir string, opts *loader.Options) *runtime.App {
	t.Helper()
	app, ds := loader.New(testenv.Kinds(), opts).Load(t.Context(), dir)
	if app == nil || len(ds) > 0 {
		t.Fatalf("Load(%s):\n%s", dir, renderText(t, ds))
	}
	t.Cleanup(app.Close)
	return app
}

// TestValidAppsLoad loads valid apps. Each archive's headline ends with the agents in its tree,
// from the root down.
func TestValidAppsLoad(t *testing.T) {
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

// TestRevisionChangesOnlyWithEffect covers changes with and without effect on an app's revision.
func TestRevisionChangesOnlyWithEffect(t *testing.T) {
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

// TestDotenvYieldsToEnvironment covers variables in a .env. The environment takes precedence over
// them, but not inside their values, where the earlier lines do.
func TestDotenvYieldsToEnvironment(t *testing.T) {
	for _, tt := range []struct{ lines, want string }{
		{"X=plain", "plain"},
		{"\uFEFFX=after a byte order mark", "after a byte order mark"},
		{"X=\"two\nlines\\n\"", "two\nlines\n"},
		{"X=", ""},
		{"X", "default"},
		{"SET=no\nX=1\r\nX=2", "2"},
		{"Y=1\nX=\"${Y}, ${Z:-3}, ${W:-}${Y\"", "1, 3, ${Y"},
		{"X='${SET}'", "from the environment"},
		{"SET=own\nX=${SET:-d}", "own"},
		{"SET\nX=[${SET:-d}]", "[]"},
		{"X=1\nX=${X}${X}2", "112"},
		{"X=$SET ${:-e}", "$SET e"},
	} {
		dir := filepath.Join(t.TempDir(), "app")
		write(t, filepath.Join(dir, ".env"), tt.lines)
		write(t, filepath.Join(dir, "root_agent.yaml"), `{name: a, instruction: x, description: "${env:X:-default} ${env:SET:-unset}"}`)
		app := mustLoad(t, dir, &loader.Options{Env: lookUpEnv})
		if want := tt.want + " from the environment"; app.Description() != want {
			t.Errorf("with %q in .env: description %q, want %q", tt.lines, app.Description(), want)
		}
	}
}

// TestDotenvProblems reports .env lines without their text, which may be secret.
func TestDotenvProblems(t *testing.T) {
	const isBinding = "warning: this line is not NAME=value, and is ignored [env]"
	for _, tt := range []struct{ lines, want string }{
		{"A=1\nX=\"he\n\nB=2", "app/.env:2:1: " + isBinding},
		{"X=\"a\" b", "app/.env:1:1: " + isBinding},
		{"\n=1\nX Y", "app/.env:2:1: warning: this line is not NAME=value, and is ignored; also at 1 other place [env]"},
		{"X=a${NOT_SET}b", "app/.env:1:1: warning: variable NOT_SET is not set: ${NOT_SET} is replaced by nothing [env]"},
		{"X=\xff", "app: cannot read the app's folder: reading app/.env: not valid UTF-8 [file]"},
		{"A=" + strings.Repeat("a", 1<<20) + "\nX=" + strings.Repeat("${A}", 5), "app: cannot read the app's folder: reading app/.env: the value of X in line 2 exceeds the limit of 4 MiB [file]"},
		{"#" + strings.Repeat("a", 4<<20), "app: cannot read the app's folder: reading app/.env: exceeds the limit of 4 MiB [file]"},
	} {
		top := t.TempDir()
		dir := filepath.Join(top, "app")
		write(t, filepath.Join(dir, ".env"), tt.lines)
		write(t, filepath.Join(dir, "root_agent.yaml"), `{name: a, instruction: x}`)
		var got []string
		for _, d := range loader.New(testenv.Kinds(), &loader.Options{Env: lookUpEnv}).Check(t.Context(), dir) {
			got = append(got, strings.ReplaceAll(d.String(), filepath.ToSlash(top)+"/", ""))
		}
		if diff := cmp.Diff(tt.want, strings.Join(got, "\n")); diff != "" {
			t.Errorf("with %.40q in .env (-want +got):\n%s", tt.lines, diff)
		}
	}
}

// TestRouteKeys expects a mapping's routes to have the types in ADK's YAML, unless they have
// quotes.
func TestRouteKeys(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "app")
	write(t, filepath.Join(dir, "root_agent.yaml"), `agent_class: Workflow
name: flow
edges:
  - [START, a, {1: b, true: c, "2": d, "false": e, yes: f}]
agents:
  a: {instruction: A., include_contents: none}
  b: {instruction: B.}
  c: {instruction: C.}
  d: {instruction: D.}
  e: {instruction: E.}
  f: {instruction: F.}
`)
	var got []any
	for _, e := range mustLoad(t, dir, &loader.Options{Env: lookUpEnv}).AgentInfo().Edges[1:] {
		got = append(got, e.Route)
	}
	if diff := cmp.Diff([]any{int64(1), true, "2", "false", "yes"}, got); diff != "" {
		t.Errorf("routes (-want +got):\n%s", diff)
	}
}

func TestDiscoverSkipsHiddenFolders(t *testing.T) {
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
