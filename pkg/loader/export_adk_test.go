package loader_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agenthost/internal/testenv"
	"agenthost/pkg/loader"
	"agenthost/pkg/runtime"
)

// TestExportLoadsAgain exports every good app that ADK supports, from testdata and the
// corpus. The exported app has no foreign features, the same agents, and sends the same
// requests to models.
func TestExportLoadsAgain(t *testing.T) {
	dirs := map[string]string{}
	for name, archive := range readArchives(t, "ok") {
		dirs[name] = unpackArchive(t, archive)
	}
	if folder, all := optionalSamples(t); folder != "" {
		for _, s := range all {
			if filepath.Base(s.Root) == "root_agent.yaml" && s.Verdict == "pure yaml" {
				dirs[s.Root] = filepath.Join(folder, filepath.FromSlash(filepath.Dir(s.Root)))
			}
		}
	}
	exported := 0
	for name, dir := range dirs {
		opts := newOptions(dir)
		opts.Model = newAnsweringModel(t, "It works.")
		files, ds := loader.New(opts).Export(t.Context(), dir)
		if ds.HasErrors() {
			continue
		}
		exported++
		t.Run(name, func(t *testing.T) {
			again := filepath.Join(t.TempDir(), filepath.Base(dir))
			for file, text := range files {
				write(t, filepath.Join(again, file), string(text))
			}
			l := loader.New(&loader.Options{Env: lookUpEnv, Model: opts.Model})
			if ds := l.CheckPortable(t.Context(), again); len(ds) > 0 {
				t.Errorf("Portable:\n%s", renderText(t, ds))
			}
			if diff := cmp.Diff(previewAll(t, dir, opts), previewAll(t, again, &loader.Options{Env: lookUpEnv, Model: opts.Model})); diff != "" {
				t.Errorf("model requests (-app +exported):\n%s", diff)
			}
		})
	}
	if exported < 5 {
		t.Errorf("only %d apps can be exported", exported)
	}
}

// previewAll returns the model requests of all agents in the tree.
func previewAll(t *testing.T, dir string, opts *loader.Options) map[string]*runtime.Preview {
	t.Helper()
	env := testenv.New(t, &testenv.Options{Loader: opts})
	app := env.Load(t, dir)
	all := map[string]*runtime.Preview{}
	for _, name := range app.AgentNames() {
		p, err := env.Host.Preview(t.Context(), &runtime.PreviewRequest{
			App: app.Name(), Agent: name, UserID: "u", Text: "Hello",
			State: map[string]any{"name": "Ana", "topic": "x", "current_document": "x", "criticism": "x"},
		})
		if err != nil && !strings.Contains(err.Error(), "LLM agent") {
			t.Fatalf("Preview(%s): %v", name, err)
		}
		all[name] = p
	}
	return all
}

// optionalSamples returns the samples of the corpus, or none if it is missing.
func optionalSamples(t *testing.T) (string, []sample) {
	t.Helper()
	corpus := os.Getenv("AGENTHOST_CORPUS")
	if corpus == "" {
		return "", nil
	}
	return readSamples(t)
}

// TestCorpusMapped declares a replacement for each name of code in the corpus. The apps
// then load and run a turn.
func TestCorpusMapped(t *testing.T) {
	folder, all := readSamples(t)
	mapped := 0
	for _, s := range all {
		if s.Verdict != "needs code" {
			continue
		}
		root := filepath.Join(folder, filepath.FromSlash(s.Root))
		dir := filepath.Join(t.TempDir(), filepath.Base(filepath.Dir(root)))
		if err := os.CopyFS(dir, os.DirFS(filepath.Dir(root))); err != nil {
			t.Fatal(err)
		}
		functions, ok := stubFunctions(t, dir)
		if !ok {
			continue // an agent class, or an unsupported tool
		}
		mapped++
		t.Run(s.Root, func(t *testing.T) {
			doc := "functions:\n" + functions
			if name := filepath.Base(root); name != "root_agent.yaml" {
				doc += "root_agent: " + name + "\n"
			}
			write(t, filepath.Join(dir, "app.yaml"), doc)
			runSample(t, dir)
		})
	}
	if mapped < 5 {
		t.Errorf("only %d apps can be mapped", mapped)
	}
}

// stubFunctions returns a functions section with an entry for each name of code of an
// app.
func stubFunctions(t *testing.T, dir string) (string, bool) {
	t.Helper()
	var b strings.Builder
	seen := map[string]bool{}
	for _, d := range check(t, dir) {
		what, _, isCode := strings.Cut(d.Message, " is code that")
		words := strings.Fields(what)
		if !isCode || strings.HasPrefix(what, "agent class") {
			return "", false
		}
		name := words[len(words)-1]
		stub := map[string]string{
			"tool": `{expr: {value: '"done"'}}`, "schema": "{answer: string}", "agent": "{description: Helps., instruction: Help.}",
		}[words[0]]
		if stub == "" {
			stub = `{set: {seen: "true"}}`
		}
		if !seen[name] {
			b.WriteString("  " + name + ": " + stub + "\n")
		}
		seen[name] = true
	}
	return b.String(), b.Len() > 0
}
