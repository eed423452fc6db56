package export_test

import (
	"bytes"
	"encoding/json"
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
	"agenthost/wing/adk/export"
)

// TestExportLoadsAgain exports the repository's apps, the conformance agents, the good apps in
// testdata and the graphs in the runtime's transcripts. An exported app has no foreign features,
// the same agents and edges, and sends the same requests to models. The golden file lists why apps
// cannot be exported.
func TestExportLoadsAgain(t *testing.T) {
	dirs := map[string]string{}
	for name, archive := range readArchives(t, "loader/testdata/ok") {
		dirs["ok/"+name] = unpackArchive(t, archive)
	}
	for name, archive := range readArchives(t, "runtime/testdata/transcripts") {
		if slices.ContainsFunc(archive.Files, func(f txtar.File) bool { return bytes.Contains(f.Data, []byte("agent_class: Workflow")) }) {
			dirs["transcripts/"+name] = unpackArchive(t, archive)
		}
	}
	for _, pattern := range []string{"apps/*/root_agent.yaml", "conformance/agents/*/root_agent.yaml"} {
		found, err := filepath.Glob(filepath.Join("../../..", pattern))
		if err != nil || len(found) == 0 {
			t.Fatalf("no apps in %s: %v", pattern, err)
		}
		for _, file := range found {
			dirs[strings.TrimPrefix(filepath.ToSlash(filepath.Dir(file)), "../../../")] = filepath.Dir(file)
		}
	}
	compareExports(t, dirs, "testdata/exports.txt")
}

// TestExportCorpus does the same with the corpus apps.
func TestExportCorpus(t *testing.T) {
	corpus := os.Getenv("AGENTHOST_CORPUS")
	if corpus == "" {
		t.Skip("SKIPPED: no corpus: set AGENTHOST_CORPUS")
	}
	folder := filepath.Join(corpus, "agent-config")
	b, err := os.ReadFile(filepath.Join(folder, "apps.json"))
	if err != nil {
		t.Skipf("SKIPPED: no corpus: set AGENTHOST_CORPUS (%v)", err)
	}
	var all []struct{ Root string }
	if err := json.Unmarshal(b, &all); err != nil {
		t.Fatal(err)
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
	if testenv.IsUpdating() {
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
	files, ds := export.ConvertApp(t.Context(), loader.New(testenv.Kinds(), opts), dir)
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
	for _, d := range export.CheckPortability(t.Context(), loader.New(testenv.Kinds(), plain), again) {
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

// describeTree returns an app's agents, without what the model requests show, and with
// workflow edges in a fixed order.
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

// previewAll returns the model requests from all agents in the tree.
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

// TestExportPrompt: a prompt as instruction cannot be exported to ADK.
func TestExportPrompt(t *testing.T) {
	dir := testenv.Files(t, "x", map[string][]byte{
		"app.yaml":        []byte("tools: {docs: {mcp: {url: https://example.com}}}"),
		"root_agent.yaml": []byte("name: a\ninstruction: {mcp_prompt: {server: docs, name: support}}"),
	})
	_, ds := export.ConvertApp(t.Context(), loader.New(testenv.Kinds(), nil), dir)
	if text := ds.Error(); !ds.HasErrors() || !strings.Contains(text, "ADK requires text here: its McpInstructionProvider is code") {
		t.Errorf("ConvertApp: %s", text)
	}
}
