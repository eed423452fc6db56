package loader_test

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"agenthost/internal/testenv"
	"agenthost/pkg/loader"
	"agenthost/pkg/runtime"
	"agenthost/pkg/spec"
)

// TestExportLoadsAgain exports the apps of the repository, the conformance agents, the good apps of
// testdata and the graphs of the runtime's transcripts. An exported app has no foreign
// features, the same agents and edges, and sends the same requests to models. The golden
// file lists the reasons of the apps that cannot be exported.
func TestExportLoadsAgain(t *testing.T) {
	dirs := map[string]string{}
	for name, archive := range readArchives(t, "ok") {
		dirs["ok/"+name] = unpackArchive(t, archive)
	}
	for name, archive := range readArchives(t, "../../runtime/testdata/transcripts") {
		if slices.ContainsFunc(archive.Files, func(f txtar.File) bool { return bytes.Contains(f.Data, []byte("agent_class: Workflow")) }) {
			dirs["transcripts/"+name] = unpackArchive(t, archive)
		}
	}
	for _, pattern := range []string{"apps/*/root_agent.yaml", "conformance/agents/*/root_agent.yaml"} {
		found, err := filepath.Glob(filepath.Join("../..", pattern))
		if err != nil || len(found) == 0 {
			t.Fatalf("no apps in %s: %v", pattern, err)
		}
		for _, file := range found {
			dirs[strings.TrimPrefix(filepath.ToSlash(filepath.Dir(file)), "../../")] = filepath.Dir(file)
		}
	}
	compareExports(t, dirs, "testdata/exports.txt")
}

// TestExportCorpus does the same with the apps of the corpus.
func TestExportCorpus(t *testing.T) {
	folder, all := optionalSamples(t)
	if folder == "" {
		t.Skip("SKIPPED: no corpus: set AGENTHOST_CORPUS")
	}
	dirs := map[string]string{}
	for _, s := range all {
		if filepath.Base(s.Root) == "root_agent.yaml" {
			dirs[s.Root] = filepath.Join(folder, filepath.FromSlash(filepath.Dir(s.Root)))
		}
	}
	compareExports(t, dirs, "testdata/exports_corpus.txt")
}

// compareExports exports apps, loads the exports again, and compares the outcomes with a
// golden file.
func compareExports(t *testing.T, dirs map[string]string, golden string) {
	t.Helper()
	var got strings.Builder
	for _, name := range slices.Sorted(maps.Keys(dirs)) {
		t.Run(name, func(t *testing.T) {
			reasons := exportAndReload(t, dirs[name])
			if len(reasons) == 0 {
				reasons = []string{"exported"}
			}
			got.WriteString(name + "\n  " + strings.Join(reasons, "\n  ") + "\n")
		})
	}
	if isUpdating() {
		write(t, golden, got.String())
		return
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Errorf("exports (-want +got; run with -update to accept):\n%s", diff)
	}
}

// exportAndReload returns the reasons why an app cannot be exported. If it can, the
// exported app is the same app.
func exportAndReload(t *testing.T, dir string) []string {
	t.Helper()
	opts := newOptions(dir)
	opts.Model = newAnsweringModel(t, "It works.")
	files, ds := loader.ConvertApp(t.Context(), loader.New(testenv.Kinds(), opts), dir)
	var reasons []string
	for _, d := range ds {
		if d.Severity == spec.Error {
			reasons = append(reasons, filepath.Base(d.Pos.File)+": "+d.Message)
		}
	}
	if len(reasons) > 0 {
		slices.Sort(reasons)
		return slices.Compact(reasons)
	}
	again := filepath.Join(t.TempDir(), filepath.Base(dir))
	for file, text := range files {
		write(t, filepath.Join(again, file), string(text))
	}
	plain := &loader.Options{Env: lookUpEnv, Model: opts.Model}
	for _, d := range loader.CheckPortability(t.Context(), loader.New(testenv.Kinds(), plain), again) {
		if d.Rule == "portable" || d.Severity == spec.Error {
			t.Errorf("Portable: %s", d)
		}
	}
	if diff := cmp.Diff(describeTree(t, dir, opts), describeTree(t, again, plain)); diff != "" {
		t.Errorf("agents (-app +exported):\n%s", diff)
	}
	if diff := cmp.Diff(previewAll(t, dir, opts), previewAll(t, again, plain)); diff != "" {
		t.Errorf("model requests (-app +exported):\n%s", diff)
	}
	return nil
}

// describeTree returns the agents of an app, without what the requests to models show, and
// with the edges of workflows in a fixed order.
func describeTree(t *testing.T, dir string, opts *loader.Options) *runtime.AgentInfo {
	t.Helper()
	env := testenv.New(t, &testenv.Options{Loader: opts})
	info := env.Load(t, dir).AgentInfo()
	normalizeInfo(info)
	return info
}

func normalizeInfo(info *runtime.AgentInfo) {
	info.Model, info.Instruction = "", ""
	slices.SortFunc(info.Edges, func(a, b runtime.Edge) int { return strings.Compare(fmt.Sprintf("%#v", a), fmt.Sprintf("%#v", b)) })
	for _, sub := range info.Agents {
		normalizeInfo(sub)
	}
	for _, tool := range info.Tools {
		if tool.Agent != nil {
			normalizeInfo(tool.Agent)
		}
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
			State: map[string]any{"name": "Ana", "topic": "x", "current_document": "x", "criticism": "x", "first": "x", "second": "x", "l": "x", "r": "x", "m": "x"},
		})
		if err != nil && !strings.Contains(err.Error(), "LLM agent") && !strings.Contains(err.Error(), "does not use a model") {
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
