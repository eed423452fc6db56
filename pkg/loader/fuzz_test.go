package loader_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"agenthost/internal/testenv"
	"agenthost/pkg/loader"
	"agenthost/pkg/spec"
)

// FuzzLoad loads an app from arbitrary bytes. No file causes a panic, and every problem
// has a position.
func FuzzLoad(f *testing.F) {
	for _, folder := range []string{"err", "ok"} {
		for _, archive := range readArchives(f, folder) {
			files := map[string]string{}
			for _, file := range archive.Files {
				files[file.Name] = string(file.Data)
			}
			f.Add(files["app.yaml"], files["root_agent.yaml"], files["s.yaml"]+files["demo.script.yaml"]+files["b.yaml"])
		}
	}
	with, without := newEmptyApp(f, "app.yaml"), newEmptyApp(f)
	var unsaved map[string]string
	l := loader.New(testenv.Kinds(), &loader.Options{Env: lookUpEnv, Open: func(path string) ([]byte, bool) {
		text, ok := unsaved[filepath.Base(path)]
		return []byte(text), ok
	}})
	f.Fuzz(func(t *testing.T, app, agent, other string) {
		dir := without
		unsaved = map[string]string{"root_agent.yaml": agent}
		if app != "" {
			dir, unsaved["app.yaml"] = with, app
		}
		for _, name := range otherFiles() {
			unsaved[name] = other
		}
		loaded, ds := l.Load(t.Context(), dir)
		if loaded != nil {
			loaded.Close()
		}
		if ds.HasErrors() != (loaded == nil) {
			t.Errorf("an app is %v, with problems %s", loaded != nil, ds.Error())
		}
		for _, d := range ds {
			whole := d.Pos.Line == 0 && d.Pos.Col == 0
			if d.Pos.File == "" || !whole && (d.Pos.Line < 1 || d.Pos.Col < 1) || d.Rule == "" {
				t.Errorf("%+v has no position or no rule", d)
			}
		}
		if slices.ContainsFunc(ds, func(d spec.Diagnostic) bool { return d.Fix != (spec.Fix{}) }) {
			checkFixIdempotent(t, unsaved)
		}
	})
}

// otherFiles returns the other files with the same text.
func otherFiles() []string { return []string{"s.yaml", "demo.script.yaml", "b.yaml"} }

// newEmptyApp returns a folder in memory, because a disk would slow down the loads.
func newEmptyApp(f *testing.F, more ...string) string {
	dir := filepath.Join(f.TempDir(), "app")
	for _, name := range append(append(otherFiles(), "root_agent.yaml"), more...) {
		write(f, filepath.Join(dir, name), "")
	}
	return dir
}

// checkFixIdempotent expects that fixing an app a second time changes nothing.
func checkFixIdempotent(t *testing.T, files map[string]string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "app")
	for name, text := range files {
		write(t, filepath.Join(dir, name), text)
	}
	l := loader.New(testenv.Kinds(), &loader.Options{Env: lookUpEnv})
	if _, _, err := l.Fix(t.Context(), dir); err != nil {
		t.Fatalf("Fix: %v", err)
	}
	if again, left, err := l.Fix(t.Context(), dir); len(again) > 0 || err != nil {
		t.Errorf("second Fix applied %v and left %v: %v", again, left, err)
	}
}

// BenchmarkCheck1000 checks 100 apps with 10 agents each, one file for each agent.
func BenchmarkCheck1000(b *testing.B) {
	top := b.TempDir()
	for i := range 100 {
		dir := filepath.Join(top, fmt.Sprintf("app%d", i))
		var root strings.Builder
		root.WriteString("agent_class: SequentialAgent\nname: root\nstate_schema: {order: string, answer: string}\nsub_agents:\n")
		for k := range 9 {
			fmt.Fprintf(&root, "  - config_path: agents/a%d.yaml\n", k)
			write(b, filepath.Join(dir, fmt.Sprintf("agents/a%d.yaml", k)), fmt.Sprintf(benchAgent, k))
		}
		write(b, filepath.Join(dir, "root_agent.yaml"), root.String())
	}
	apps, err := loader.Discover(top)
	if err != nil || len(apps) != 100 {
		b.Fatalf("Discover: %d apps, %v", len(apps), err)
	}
	l := loader.New(testenv.Kinds(), &loader.Options{Env: lookUpEnv})
	for b.Loop() {
		for _, dir := range apps {
			if ds := l.Check(b.Context(), dir); len(ds) > 0 {
				b.Fatal(ds.Error())
			}
		}
	}
}

const benchAgent = `name: a%d
model: gemini-flash-latest
description: Finds orders and refunds them.
instruction: |
  You help {user:name?} with order {order}.
  Be kind and short.
output_key: answer
generate_content_config: {temperature: 0.2, max_output_tokens: 400}
tools:
  - name: google_search
  - http:
      name: order
      description: Finds an order.
      url: https://crm.example/orders/{args.id}
      query: {note: "{args.note?}"}
      params: {id: string, note: "string?"}
      result: body.id
  - expr: {name: vat, params: {net: number}, value: round(args.net * 21) / 100}
`
