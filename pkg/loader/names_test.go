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
	"agenthost/pkg/store"
)

// exampleApps returns the folders of the apps in this repository and in testdata/ok, by name.
func exampleApps(t *testing.T) map[string]string {
	t.Helper()
	dirs := map[string]string{}
	files, err := filepath.Glob("../../apps/*/root_agent.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal("no apps found", err)
	}
	for _, file := range files {
		dirs["apps/"+filepath.Base(filepath.Dir(file))] = filepath.Dir(file)
	}
	for name, archive := range readArchives(t, "ok") {
		dirs[name] = unpackArchive(t, archive)
	}
	return dirs
}

// The index has each place where a load finds a state key, an agent or a tool. This keeps the two from
// drifting apart: a new tool kind that reads state is found by both, or fails here.
func TestNamesCoverLoad(t *testing.T) {
	places := 0
	for name, dir := range exampleApps(t) {
		t.Run(name, func(t *testing.T) {
			l := loader.New(testenv.Kinds(), &loader.Options{Offline: true})
			table, err := l.NewNameIndex(dir).Refresh(t.Context())
			if err != nil || len(table.Problems) > 0 {
				t.Fatalf("Refresh() = %v, %v", table.Problems, err)
			}
			app, ds := l.LoadFiles(t.Context(), dir)
			if app == nil { // it needs a variable or a secret that this environment does not have
				if !slices.ContainsFunc(ds, func(d spec.Diagnostic) bool { return d.Rule == "env" || d.Rule == "secret" }) {
					t.Errorf("loading: %v", ds)
				}
				return
			}
			defer app.App.Close()
			rev := &store.Revision{App: app.App.Name(), ID: app.App.Revision(), Files: app.Files}
			count := func(key, at string, roles ...loader.NameRole) {
				places++
				file, _, _ := strings.Cut(at, ":")
				found := slices.ContainsFunc(table.Find(loader.StateNames, key), func(u loader.NameUse) bool {
					return u.File == strings.TrimPrefix(file, app.App.Name()+"/") && slices.Contains(roles, u.Role)
				})
				if !found && !strings.HasSuffix(file, ".md") {
					t.Errorf("the index lacks state key %s at %s", key, at)
				}
			}
			for _, agent := range table.Uses {
				if agent.Kind != loader.AgentNames || agent.Role != loader.NameDeclared {
					continue
				}
				for _, o := range l.Origins(t.Context(), rev, agent.Name) {
					for _, p := range append(append(o.Tools, o.Callbacks...), o.StateUse) {
						for _, read := range p.Reads {
							count(read.Key, read.At, loader.NameUsed)
						}
						for _, write := range p.Writes {
							count(write.Key, write.At, loader.NameWritten)
						}
					}
				}
			}
			for _, u := range table.Uses {
				if got := string(table.Text(u.File)[u.Range.Start:u.Range.End]); !u.Exact || got != u.Name {
					t.Errorf("%s at %s %v is not exact, or another text: %q", u.Name, u.File, u.Range, got)
				}
			}
		})
	}
	if places < 50 {
		t.Errorf("compared %d places, want more", places)
	}
}

// A refresh parses the files that have changed, and those that it finds for the first time. This
// counts work instead of time: the number of agents does not matter.
func TestNamesParseChangedFiles(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "app")
	root := "name: root\nagent_class: ParallelAgent\nsub_agents:\n"
	for i := range 100 {
		file := fmt.Sprintf("agents/a%d.yaml", i)
		root += "  - config_path: " + file + "\n"
		write(t, filepath.Join(dir, file), fmt.Sprintf("name: a%d\ninstruction: ${file:p.md}\noutput_key: k%d\n", i, i))
	}
	write(t, filepath.Join(dir, "root_agent.yaml"), root)
	write(t, filepath.Join(dir, "p.md"), "Follow {k1?}.\n")
	open := map[string]string{}
	x := loader.New(testenv.Kinds(), &loader.Options{Open: func(path string) ([]byte, bool) {
		text, ok := open[path]
		return []byte(text), ok
	}}).NewNameIndex(dir)
	for _, tt := range []struct {
		name   string
		change func()
		want   int
	}{
		{"first", func() {}, 102},
		{"nothing", func() {}, 0},
		{"a keystroke in an open file", func() {
			open[filepath.Join(dir, "agents/a7.yaml")] = "name: a7\ninstruction: Follow {k2?}.\noutput_key: k7\n"
		}, 1},
		{"the same text again", func() {}, 0},
		{"a keystroke that breaks it", func() { open[filepath.Join(dir, "agents/a7.yaml")] = "name: [a7\n" }, 1},
		{"a file on disk", func() { write(t, filepath.Join(dir, "p.md"), "Follow {k3?} and {k4?}.\n") }, 1},
		{"a new test", func() { write(t, filepath.Join(dir, "a.test.yaml"), "- {name: a, user: b}\n") }, 1},
		{"a new agent", func() {
			write(t, filepath.Join(dir, "agents/new.yaml"), "name: new\ninstruction: x\n")
			open[filepath.Join(dir, "root_agent.yaml")] = root + "  - config_path: agents/new.yaml\n"
		}, 2},
		{"closed without saving", func() { clear(open) }, 2},
	} {
		before := x.FilesParsed()
		tt.change()
		if _, err := x.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := x.FilesParsed() - before; got != tt.want {
			t.Errorf("%s: parsed %d files, want %d", tt.name, got, tt.want)
		}
	}
}

// Names in parts that the desk's test in wing/lsp does not have: functions, workflows, connections, and
// ADK's syntax. Each name is found so often.
func TestNamesInParts(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "app")
	for file, text := range map[string]string{
		"app.yaml": `functions:
  my.guard: {when: state.blocked == true, respond: "No {who?}."}
  my.rules: [{set: {seen: "true"}}]
  my.find: {expr: {value: state.seen}}
  my.Verdict: {score: Points}
schemas: {Points: {n: integer}}
connections:
  shop: {hosts: [shop.test], bearer: x}
tools:
  find: {http: {name: find, url: https://shop.test, auth: shop}}
  ask: {agent: {use: clerk}}
agents:
  clerk: {instruction: Ask., model: fast}
models:
  fast: {provider: route, routes: [{when: state.vip == true, model: slow}, {model: slow}]}
  slow: {provider: scripted, script: s.yaml}
events_compaction_config: {summarizer: {model: slow}}
`,
		"app.prod.yaml": "models: {slow: {provider: scripted, script: s.yaml}}\n",
		"root_agent.yaml": `agent_class: Workflow
name: flow
edges:
  - [START, first, second]
  - [second, {route: state.next, to: {a: first}}]
agents:
  first:
    instruction_provider: inject("Hi {who}, {who?}") + file("p.md")
    tools: [{name: my.find}, {use: find}, {name: AgentTool, args: {agent: {use: clerk}}}]
    before_agent_callbacks: [{name: my.guard}, {name: my.rules}]
    output_schema: {name: my.Verdict}
  second: {instruction: x, state_schema: {next: string}, output_key: next, output_schema: [Points]}
`,
		"p.md":   "{who} and {artifact.seen}\n",
		"s.yaml": "- calls: [{name: transfer_to_agent, args: {agent_name: clerk}}, {name: find}]\n",
		"x.evalset.json": `{"eval_set_id": "x", "eval_cases": [{"eval_id": "a", "session_input": {"state": {"who": 1}},
 "conversation": [{"intermediate_data": {"tool_uses": [{"name": "find", "args": {"state": {"who": 2}}}]}}], "final_session_state": {"seen": 1}}]}`,
	} {
		write(t, filepath.Join(dir, file), text)
	}
	table, err := loader.New(testenv.Kinds(), nil).NewNameIndex(dir).Refresh(t.Context())
	if err != nil || len(table.Problems) > 0 {
		t.Fatalf("Refresh() = %v, %v", table.Problems, err)
	}
	for _, tt := range []struct {
		kind loader.NameKind
		name string
		want int
	}{
		{loader.StateNames, "who", 5},
		{loader.StateNames, "seen", 3},
		{loader.StateNames, "blocked", 1},
		{loader.StateNames, "vip", 1},
		{loader.StateNames, "next", 3},
		{loader.AgentNames, "first", 3},
		{loader.AgentNames, "second", 3},
		{loader.AgentNames, "clerk", 4},
		{loader.ToolNames, "find", 5},
		{loader.ToolNames, "ask", 1},
		{loader.ToolNames, "transfer_to_agent", 1},
		{loader.ModelNames, "slow", 5},
		{loader.ModelNames, "fast", 2},
		{loader.SchemaNames, "Points", 3},
		{loader.ConnectionNames, "shop", 2},
		{loader.FunctionNames, "my.find", 2},
		{loader.FunctionNames, "my.guard", 2},
		{loader.FunctionNames, "my.rules", 2},
		{loader.FunctionNames, "my.Verdict", 2},
	} {
		found := table.Find(tt.kind, tt.name)
		if len(found) != tt.want {
			t.Errorf("%s %s is at %d places, want %d: %v", tt.kind, tt.name, len(found), tt.want, found)
		}
		for _, u := range found {
			if got := string(table.Text(u.File)[u.Range.Start:u.Range.End]); got != tt.name {
				t.Errorf("%s %s at %s %v is %q", tt.kind, tt.name, u.File, u.Range, got)
			}
		}
	}
}

// A function's last part is the name of a tool without its own.
func TestRenameFunction(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "app")
	write(t, filepath.Join(dir, "app.yaml"), "functions:\n  my.find: {expr: {value: '1'}}\n  my.free: {deny: No.}\n")
	write(t, filepath.Join(dir, "root_agent.yaml"), "name: a\ninstruction: x\ntools: [{name: my.find}]\nbefore_agent_callbacks: [{name: my.free}]\n")
	write(t, filepath.Join(dir, "a.test.yaml"), "- name: t\n  user: x\n  expect: ['calls[0].name == \"find\"']\n  tools: {find: {return: 1}}\n")
	x := loader.New(testenv.Kinds(), nil).NewNameIndex(dir)
	table, err := x.Refresh(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if edits, err := x.Rename(table, loader.FunctionNames, "my.free", "my.other"); err != nil || len(edits) != 2 {
		t.Errorf("Rename(my.free) = %v, %v", edits, err)
	}
	_, err = x.Rename(table, loader.FunctionNames, "my.find", "my.search")
	want := "cannot rename function my.find: a tool or agent without a name has its last part, find, which is at a.test.yaml:4"
	if err == nil || err.Error() != want {
		t.Errorf("Rename(my.find) = %v, want %s", err, want)
	}
}

// A skill that a tool uses names tools, and state keys if it inserts state. Another file with its name
// does not matter.
func TestNamesInSkills(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "app")
	for file, text := range map[string]string{
		"app.yaml":        "tools: {refund: {expr: {name: refund, value: '1'}}}\n",
		"root_agent.yaml": "name: a\ninstruction: x\noutput_key: name\ntools:\n  - skills: {from: [skills], additional_tools: [{use: refund}]}\n",
		"skills/letter/SKILL.md": "---\nname: letter\ndescription: Writes.\nmetadata:\n  adk_additional_tools: [refund]\n  adk_inject_state: true\n---\n" +
			"Call `refund` for {name?}.\n",
		"skills/plain/SKILL.md": "---\nname: plain\ndescription: Writes.\n---\nDear {name?}.\n",
		"docs/SKILL.md":         "no skill\n",
	} {
		write(t, filepath.Join(dir, file), text)
	}
	table, err := loader.New(testenv.Kinds(), nil).NewNameIndex(dir).Refresh(t.Context())
	if err != nil || len(table.Problems) > 0 {
		t.Fatalf("Refresh() = %v, %v", table.Problems, err)
	}
	for name, want := range map[string]int{"refund": 5, "name": 2} {
		kind := loader.ToolNames
		if name == "name" {
			kind = loader.StateNames
		}
		found := table.Find(kind, name)
		if len(found) != want {
			t.Errorf("%s is at %d places, want %d: %v", name, len(found), want, found)
		}
		for _, u := range found {
			if got := string(table.Text(u.File)[u.Range.Start:u.Range.End]); got != name || !u.Exact {
				t.Errorf("%s at %s %v is %q", name, u.File, u.Range, got)
			}
		}
	}
}
