package lsp_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agenthost/internal/testenv"
	"agenthost/pkg/loader"
)

// deskFiles is an app with a name in each place: two agents, an instruction file, a test and an eval
// set. The instruction has characters outside of UTF-16's first plane before its placeholders.
func deskFiles() map[string]string {
	return map[string]string{
		"app.yaml": `models:
  fast: {provider: scripted, script: s.script.yaml, fallback: [slow]}
  slow: {provider: scripted, script: s.script.yaml}
schemas:
  Plan: {steps: [string]}
tools:
  stock: {http: {name: stock, description: Counts., url: "https://shop.test/{args.id}?for={state.plan}", params: {id: string}}}
`,
		"root_agent.yaml": `agent_class: SequentialAgent
name: desk
sub_agents:
  - name: planner
    model: fast
    instruction: Plan it.
    output_schema: {first: Plan}
    output_key: plan
  - config_path: agents/writer.yaml
`,
		"agents/writer.yaml": `name: writer
model: ${env:WRITER:-fast}
description: Writes.
instruction: ${file:prompts/writer.md}
tools: [{use: stock}]
before_agent_callbacks:
  - when: state.plan == nil and agent == "x"
    respond: >-
      é𝄞 folded {plan?}
      over lines {plan?}.
`,
		"prompts/writer.md": "é𝄞 Follow {plan}.\nCall `stock`, {plan?} and {other?}.\n",
		"root_agent.test.yaml": `- name: writes
  user: hi
  model:
    planner: [{text: "{}"}]
    writer: [{calls: [{name: stock, args: {id: a}}], text: x}, {text: Done.}]
  tools: {stock: {return: 1}}
  state: {"plan": []}
  expect:
    - state.plan != nil and state["plan"] == state.plan
    - any(calls, .name == "stock")
`,
		"desk.eval.yaml": `metrics:
  has_plan: {expr: 'state.plan != nil'}
cases:
  - name: one
    user: hi
    expect: {text: x, calls: [{name: stock, args: {plan: no}}]}
    state: {plan: []}
    final_state: {plan: [a]}
`,
		"s.script.yaml": "- text: Hello {responses.stock.result}.\n",
	}
}

// startDesk starts a server for the app desk, whose edits may have versions.
func startDesk(t *testing.T) *editor {
	t.Helper()
	e := startEditorWith(t, testenv.Kinds())
	if err := os.RemoveAll(e.dir); err != nil {
		t.Fatal(err)
	}
	e.writeFiles(deskFiles())
	e.call("initialize", map[string]any{
		"rootUri": "file://" + e.dir, "capabilities": map[string]any{"workspace": map[string]any{"workspaceEdit": map[string]any{"documentChanges": true}}},
	}, nil)
	return e
}

func (e *editor) writeFiles(files map[string]string) {
	e.Helper()
	for file, text := range files {
		path := filepath.Join(e.dir, file)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			e.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			e.Fatal(err)
		}
	}
}

func (e *editor) readFile(file string) string {
	e.Helper()
	text, err := os.ReadFile(filepath.Join(e.dir, file))
	if err != nil {
		e.Fatal(err)
	}
	return string(text)
}

// positionOf returns the position of the n-th word in a file on disk, at its second byte.
func (e *editor) positionOf(file, word string, n int) map[string]any {
	e.Helper()
	text, at := e.readFile(file), 0
	for range n {
		at += strings.Index(text[at:], word) + 1
	}
	before := text[:at]
	line := before[strings.LastIndex(before, "\n")+1:]
	return map[string]any{
		"textDocument": map[string]any{"uri": e.uri(file)},
		"position":     map[string]any{"line": strings.Count(before, "\n"), "character": utf16Length(line)},
	}
}

func utf16Length(s string) int {
	n := 0
	for _, r := range s {
		if n++; r > 0xFFFF {
			n++
		}
	}
	return n
}

type wireRange struct{ Start, End struct{ Line, Character int } }

type wireLocation struct {
	URI   string
	Range wireRange
}

// places returns locations as file:line:character-character, each of which must be the word.
func (e *editor) places(word string, found []wireLocation) []string {
	e.Helper()
	all := []string{}
	for _, l := range found {
		file := strings.TrimPrefix(l.URI, "file://"+e.dir+"/")
		if got := textIn(e.readFile(file), l.Range); got != word {
			e.Errorf("%s %v is %q, want %q", file, l.Range, got, word)
		}
		all = append(all, fmt.Sprintf("%s:%d:%d-%d", file, l.Range.Start.Line, l.Range.Start.Character, l.Range.End.Character))
	}
	return all
}

// textIn returns a range in one line of a string, in UTF-16 units.
func textIn(text string, r wireRange) string {
	line := strings.Split(text, "\n")[r.Start.Line]
	start, end := 0, 0
	for i := range line + " " {
		if utf16Length(line[:i]) <= r.Start.Character {
			start = i
		}
		if utf16Length(line[:i]) <= r.End.Character {
			end = i
		}
	}
	return line[start:end]
}

// Definitions are the declarations of names, and for state keys their writers.
func TestDefinitionOfNames(t *testing.T) {
	e := startDesk(t)
	defer e.close()
	for _, tt := range []struct {
		name, file, word string
		n                int
		want             []string
	}{
		{"a state key in an instruction file", "prompts/writer.md", "plan", 1, []string{"root_agent.yaml:7:16-20"}},
		{"a state key in an expression", "agents/writer.yaml", "plan", 1, []string{"root_agent.yaml:7:16-20"}},
		{"a state key in a folded block", "agents/writer.yaml", "plan", 3, []string{"root_agent.yaml:7:16-20"}},
		{"a state key in a tool's template", "app.yaml", "plan", 1, []string{"root_agent.yaml:7:16-20"}},
		{"a state key in a test", "root_agent.test.yaml", "plan", 4, []string{"root_agent.yaml:7:16-20"}},
		{"a state key in an eval set", "desk.eval.yaml", "plan", 4, []string{"root_agent.yaml:7:16-20"}},
		{"an argument with the name of a state key", "desk.eval.yaml", "plan", 3, []string{}},
		{"a tool that an agent uses", "agents/writer.yaml", "stock", 1, []string{"app.yaml:6:2-7", "app.yaml:6:23-28"}},
		{"a tool in backticks", "prompts/writer.md", "stock", 1, []string{"app.yaml:6:2-7", "app.yaml:6:23-28"}},
		{"a tool in an expectation", "root_agent.test.yaml", "stock", 3, []string{"app.yaml:6:2-7", "app.yaml:6:23-28"}},
		{"a tool in a script", "s.script.yaml", "stock", 1, []string{"app.yaml:6:2-7", "app.yaml:6:23-28"}},
		{"an agent in a test", "root_agent.test.yaml", "writer", 1, []string{"agents/writer.yaml:0:6-12"}},
		{"a model", "root_agent.yaml", "fast", 1, []string{"app.yaml:1:2-6"}},
		{"a model in a default", "agents/writer.yaml", "fast", 1, []string{"app.yaml:1:2-6"}},
		{"a fallback", "app.yaml", "slow", 1, []string{"app.yaml:2:2-6"}},
		{"a schema", "root_agent.yaml", "Plan", 2, []string{"app.yaml:4:2-6"}},
		{"no name", "agents/writer.yaml", "description", 1, []string{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e.T = t
			var found []wireLocation
			e.call("textDocument/definition", e.positionOf(tt.file, tt.word, tt.n), &found)
			if diff := cmp.Diff(tt.want, e.places(tt.word, found)); diff != "" {
				t.Errorf("definition (-want +got):\n%s", diff)
			}
		})
	}
	e.T = t
}

// References are all places in all files, with or without the declarations.
func TestReferencesInAllFiles(t *testing.T) {
	e := startDesk(t)
	defer e.close()
	find := func(file, word string, n int, declarations bool) []string {
		var found []wireLocation
		p := e.positionOf(file, word, n)
		p["context"] = map[string]any{"includeDeclaration": declarations}
		e.call("textDocument/references", p, &found)
		return e.places(word, found)
	}
	for _, tt := range []struct {
		name      string
		got, want []string
	}{
		{"a state key", find("root_agent.yaml", "plan", 2, true), []string{
			"agents/writer.yaml:6:16-20", "agents/writer.yaml:8:18-22", "agents/writer.yaml:9:18-22", "app.yaml:6:97-101",
			"desk.eval.yaml:1:26-30", "desk.eval.yaml:6:12-16", "desk.eval.yaml:7:18-22",
			"prompts/writer.md:0:12-16", "prompts/writer.md:1:15-19", "root_agent.test.yaml:6:11-15",
			"root_agent.test.yaml:8:12-16", "root_agent.test.yaml:8:35-39", "root_agent.test.yaml:8:51-55", "root_agent.yaml:7:16-20",
		}},
		{"a tool", find("app.yaml", "stock", 1, false), []string{
			"agents/writer.yaml:4:14-19", "desk.eval.yaml:5:37-42", "prompts/writer.md:1:6-11",
			"root_agent.test.yaml:4:29-34", "root_agent.test.yaml:5:10-15", "root_agent.test.yaml:9:27-32", "s.script.yaml:0:25-30",
		}},
		{"an agent", find("agents/writer.yaml", "writer", 1, true), []string{"agents/writer.yaml:0:6-12", "root_agent.test.yaml:4:4-10"}},
		{"a model", find("app.yaml", "fast", 1, true), []string{"agents/writer.yaml:1:21-25", "app.yaml:1:2-6", "root_agent.yaml:4:11-15"}},
		{"no name", find("app.yaml", "models", 1, true), []string{}},
	} {
		if diff := cmp.Diff(tt.want, tt.got); diff != "" {
			t.Errorf("references of %s (-want +got):\n%s", tt.name, diff)
		}
	}
}

// Highlights are the places in one document: 2 reads a name, 3 writes or declares it, 1 is text.
func TestHighlightsInDocument(t *testing.T) {
	e := startDesk(t)
	defer e.close()
	for _, tt := range []struct {
		file, word string
		want       string
	}{
		{"root_agent.test.yaml", "plan", "[6:11-15 3, 8:12-16 2, 8:35-39 2, 8:51-55 2]"},
		{"prompts/writer.md", "stock", "[1:6-11 1]"},
		{"app.yaml", "stock", "[6:2-7 3, 6:23-28 3]"},
	} {
		var found []struct {
			Range wireRange
			Kind  int
		}
		n := 1
		if tt.file == "root_agent.test.yaml" {
			n = 2 // after planner
		}
		e.call("textDocument/documentHighlight", e.positionOf(tt.file, tt.word, n), &found)
		var got []string
		for _, h := range found {
			got = append(got, fmt.Sprintf("%d:%d-%d %d", h.Range.Start.Line, h.Range.Start.Character, h.Range.End.Character, h.Kind))
		}
		if text := "[" + strings.Join(got, ", ") + "]"; text != tt.want {
			t.Errorf("highlights of %s in %s = %s, want %s", tt.word, tt.file, text, tt.want)
		}
	}
}

// rename renames a word and returns the edits, or the error.
func (e *editor) rename(file, word string, n int, to string) ([]wireDocumentEdit, string) {
	e.Helper()
	p := e.positionOf(file, word, n)
	p["newName"] = to
	var edit struct{ DocumentChanges []wireDocumentEdit }
	if m := e.call("textDocument/rename", p, &edit); m.Error != nil {
		return nil, m.Error.Message
	}
	return edit.DocumentChanges, ""
}

type wireDocumentEdit struct {
	TextDocument struct {
		URI     string
		Version *int
	}
	Edits []struct {
		Range   wireRange
		NewText string
	}
}

// apply writes edits to the files on disk, from the last to the first.
func (e *editor) apply(changes []wireDocumentEdit) {
	e.Helper()
	for _, d := range changes {
		file := strings.TrimPrefix(d.TextDocument.URI, "file://"+e.dir+"/")
		lines := strings.Split(e.readFile(file), "\n")
		for _, edit := range slices.Backward(d.Edits) {
			line := lines[edit.Range.Start.Line]
			word := textIn(strings.Join(lines, "\n"), edit.Range)
			start := 0
			for i := range line {
				if utf16Length(line[:i]) <= edit.Range.Start.Character {
					start = i
				}
			}
			lines[edit.Range.Start.Line] = line[:start] + edit.NewText + line[start+len(word):]
		}
		e.writeFiles(map[string]string{file: strings.Join(lines, "\n")})
	}
}

// A rename changes all places in all files. The app then has the same diagnostics, none, and the rename
// back gives the bytes from before.
func TestRenameAndBack(t *testing.T) {
	for _, tt := range []struct {
		name, file, word string
		n                int
		to               string
		files            int
	}{
		{"a state key", "root_agent.yaml", "plan", 2, "outline", 6},
		{"a state key to a longer name with other letters", "prompts/writer.md", "plan", 1, "größe", 6},
		{"a tool", "agents/writer.yaml", "stock", 1, "counting", 6},
		{"an agent", "root_agent.test.yaml", "writer", 1, "author", 2},
		{"a model", "app.yaml", "fast", 1, "quick", 3},
		{"a schema", "app.yaml", "Plan", 1, "Steps", 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := startDesk(t)
			defer e.close()
			before := deskFiles()
			changes, failed := e.rename(tt.file, tt.word, tt.n, tt.to)
			if failed != "" || len(changes) != tt.files {
				t.Fatalf("rename = %d files, %s, want %d", len(changes), failed, tt.files)
			}
			e.apply(changes)
			l := loader.New(testenv.Kinds(), &loader.Options{Env: func(string) (string, bool) { return "", false }})
			if app, ds := l.Load(t.Context(), e.dir); app == nil || len(ds) > 0 {
				t.Fatalf("Load() after the rename = %v", ds)
			} else {
				app.Close()
			}
			if _, ds := l.Outline(t.Context(), e.dir, nil); len(ds) > 0 {
				t.Errorf("check after the rename = %v", ds)
			}
			for file := range before {
				if text := e.readFile(file); strings.Contains(text, tt.word+"}") || strings.Contains(text, "state."+tt.word) {
					t.Errorf("%s still has %s:\n%s", file, tt.word, text)
				}
			}
			if changes, failed = e.rename(tt.file, tt.to, 1, tt.word); failed != "" {
				t.Fatal(failed)
			}
			e.apply(changes)
			for _, file := range slices.Sorted(maps.Keys(before)) {
				if diff := cmp.Diff(before[file], e.readFile(file)); diff != "" {
					t.Errorf("%s after renaming back (-want +got):\n%s", file, diff)
				}
			}
		})
	}
}

// A rename that would miss a place, or make another app of it, is refused with the reason.
func TestRenameRefused(t *testing.T) {
	for _, tt := range []struct {
		name, file, word string
		n                int
		to               string
		files            map[string]string
		want             string
	}{
		{"a key that clients write", "prompts/writer.md", "other", 1, "more", nil, "cannot rename state key other: nothing in the app writes it, so clients or other programs do"},
		{"a built-in tool", "agents/writer.yaml", "exit_loop", 1, "leave", map[string]string{"agents/writer.yaml": "name: writer\nmodel: fast\ndescription: W.\ninstruction: x\ntools: [{name: exit_loop}]\n"}, "cannot rename tool exit_loop: it is a built-in tool"},
		{"a vendor's model", "agents/writer.yaml", "gpt-4o", 1, "gpt-5", map[string]string{"agents/writer.yaml": "name: writer\nmodel: gpt-4o\ndescription: W.\ninstruction: x\n"}, "cannot rename model gpt-4o: the app does not declare it"},
		{"an invalid key", "root_agent.yaml", "plan", 2, "my plan", nil, `invalid name "my plan": state key must be letters, digits and underscores, beginning with a letter`},
		{"another scope", "root_agent.yaml", "plan", 2, "user:plan", nil, `invalid name "user:plan": the state key has no prefix, and another one has other values`},
		{"a taken key", "root_agent.yaml", "plan", 2, "other", nil, "cannot rename state key plan to other: the name is taken at prompts/writer.md:2"},
		{"a taken agent", "root_agent.test.yaml", "writer", 1, "stock", nil, "cannot rename agent writer to stock: the name is taken at agents/writer.yaml:5"},
		{"a name that YAML reads as null", "root_agent.yaml", "plan", 2, "null", nil, "cannot rename state key plan to null: "},
		{"an agent named user", "root_agent.test.yaml", "writer", 1, "user", nil, `invalid name "user": agent must be letters, digits and underscores, beginning with a letter, and not user`},
		{"a schema named as a type", "app.yaml", "Plan", 1, "string", nil, `invalid name "string": schema must be letters, digits and underscores, beginning with a letter, and not a type`},
		{"a broken file", "root_agent.yaml", "plan", 2, "outline", map[string]string{"agents/writer.yaml": "name: [\n"}, "cannot rename state key plan: not all its places are known, because agents/writer.yaml:1:7 has an error: "},
		{"a misspelled field", "root_agent.yaml", "plan", 2, "outline", map[string]string{"agents/writer.yaml": "name: writer\ninstrction: Follow {plan}.\n"}, `cannot rename state key plan: not all its places are known, because agents/writer.yaml:2:1 has an error: unknown field "instrction"`},
		{"a key with an escape", "root_agent.yaml", "plan", 2, "outline", map[string]string{"agents/writer.yaml": "name: writer\nmodel: fast\ndescription: W.\ninstruction: \"Follow {pl\\x61n}.\"\n"}, "cannot rename state key plan: at agents/writer.yaml:4 it is part of a variable, or written with an escape"},
		{"a name in a shared file", "agents/writer.yaml", "shared", 1, "common", map[string]string{
			"agents/writer.yaml": "name: writer\nmodel: fast\ndescription: W.\ninstruction: x\ntools: [{use: shared}]\n", "app.yaml": "include: [../both.yaml]\n",
			"../both.yaml": "models: {fast: {provider: scripted, script: s.script.yaml}}\ntools: {shared: {expr: {name: f, value: '1'}}}\n",
		}, "cannot rename tool shared: ../both.yaml is outside of the app folder, and other apps may include it"},
		{"no name", "root_agent.yaml", "agent_class", 1, "x", nil, "cannot rename: there is no name at the cursor"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := startDesk(t)
			defer e.close()
			e.writeFiles(tt.files)
			if _, failed := e.rename(tt.file, tt.word, tt.n, tt.to); !strings.HasPrefix(failed, tt.want) {
				t.Errorf("rename = %q, want %q", failed, tt.want)
			}
		})
	}
}

// prepareRename returns the name's range, or null without a name, or why it cannot be renamed.
func TestPrepareRename(t *testing.T) {
	e := startDesk(t)
	defer e.close()
	var found struct {
		Range       wireRange
		Placeholder string
	}
	e.call("textDocument/prepareRename", e.positionOf("prompts/writer.md", "plan", 1), &found)
	if got := textIn(e.readFile("prompts/writer.md"), found.Range); got != "plan" || found.Placeholder != "plan" {
		t.Errorf("prepareRename = %q, %+v", got, found)
	}
	if m := e.call("textDocument/prepareRename", e.positionOf("app.yaml", "models", 1), nil); string(m.Result) != "null" {
		t.Errorf("prepareRename without a name = %s", m.Result)
	}
	m := e.call("textDocument/prepareRename", e.positionOf("prompts/writer.md", "other", 1), nil)
	if m.Error == nil || m.Error.Code != -32803 || !strings.Contains(m.Error.Message, "nothing in the app writes it") {
		t.Errorf("prepareRename of a client's key = %+v", m.Error)
	}
}

// Edits have the versions of open documents, and null for the others. They change the unsaved text.
func TestRenameInUnsavedText(t *testing.T) {
	e := startDesk(t)
	defer e.close()
	unsaved := strings.Replace(deskFiles()["root_agent.yaml"], "name: desk", "# a comment\nname: desk", 1)
	e.notify("textDocument/didOpen", map[string]any{"textDocument": map[string]any{"uri": e.uri("root_agent.yaml"), "version": 6, "text": ""}})
	e.notify("textDocument/didChange", map[string]any{
		"textDocument": map[string]any{"uri": e.uri("root_agent.yaml"), "version": 7}, "contentChanges": []any{map[string]any{"text": unsaved}},
	})
	changes, failed := e.rename("prompts/writer.md", "plan", 1, "outline")
	if failed != "" {
		t.Fatal(failed)
	}
	for _, d := range changes {
		file := strings.TrimPrefix(d.TextDocument.URI, "file://"+e.dir+"/")
		if isOpen := file == "root_agent.yaml"; isOpen != (d.TextDocument.Version != nil) {
			t.Errorf("%s has the version %v", file, d.TextDocument.Version)
		} else if isOpen && (*d.TextDocument.Version != 7 || textIn(unsaved, d.Edits[0].Range) != "plan") {
			t.Errorf("edit of version %d at %v", *d.TextDocument.Version, d.Edits[0].Range)
		}
	}
}

// An editor without documentChanges gets the edits by document.
func TestRenameWithoutVersions(t *testing.T) {
	e := startDesk(t)
	defer e.close()
	e.call("initialize", map[string]any{}, nil)
	p := e.positionOf("root_agent.test.yaml", "writer", 1)
	p["newName"] = "author"
	var edit struct {
		Changes         map[string][]json.RawMessage
		DocumentChanges []wireDocumentEdit
	}
	e.call("textDocument/rename", p, &edit)
	if len(edit.Changes[e.uri("agents/writer.yaml")]) != 1 || len(edit.Changes[e.uri("root_agent.test.yaml")]) != 1 || edit.DocumentChanges != nil {
		t.Errorf("rename = %+v", edit)
	}
}

// While a file is broken, its names come from its last valid version, at their new places.
func TestNamesOfBrokenFile(t *testing.T) {
	e := startDesk(t)
	defer e.close()
	find := func() []string {
		var found []wireLocation
		p := e.positionOf("root_agent.yaml", "plan", 2)
		p["context"] = map[string]any{"includeDeclaration": true}
		e.call("textDocument/references", p, &found)
		var places []string
		for _, l := range found {
			if file := strings.TrimPrefix(l.URI, "file://"+e.dir+"/"); file == "agents/writer.yaml" {
				places = append(places, fmt.Sprintf("%d:%d", l.Range.Start.Line, l.Range.Start.Character))
			}
		}
		return places
	}
	if diff := cmp.Diff([]string{"6:16", "8:18", "9:18"}, find()); diff != "" {
		t.Fatal(diff)
	}
	broken := strings.Replace(deskFiles()["agents/writer.yaml"], "description: Writes.\n", "description: Writes.\ntags: [\n", 1)
	e.notify("textDocument/didOpen", map[string]any{"textDocument": map[string]any{"uri": e.uri("agents/writer.yaml"), "version": 1, "text": broken}})
	if diff := cmp.Diff([]string{"7:16", "9:18", "10:18"}, find()); diff != "" {
		t.Error(diff)
	}
	_, failed := e.rename("root_agent.yaml", "plan", 2, "outline")
	if !strings.HasPrefix(failed, "cannot rename state key plan: not all its places are known, because agents/writer.yaml:") {
		t.Errorf("rename = %q", failed)
	}
}

// The symbols of a document form a tree: agents contain their agents, tools and the keys that they
// write.
func TestDocumentSymbols(t *testing.T) {
	e := startDesk(t)
	defer e.close()
	type symbol struct {
		Name, Detail          string
		Kind                  int
		Range, SelectionRange wireRange
		Children              []symbol
	}
	var describe func(file string, all []symbol) string
	describe = func(file string, all []symbol) string {
		var b []string
		for _, s := range all {
			if got := textIn(e.readFile(file), s.SelectionRange); got != s.Name {
				t.Errorf("selection of %s is %q", s.Name, got)
			}
			text := fmt.Sprintf("%s %d %d-%d", s.Name, s.Kind, s.Range.Start.Line, s.Range.End.Line)
			if len(s.Children) > 0 {
				text += " (" + describe(file, s.Children) + ")"
			}
			b = append(b, text)
		}
		return strings.Join(b, ", ")
	}
	for file, want := range map[string]string{
		"root_agent.yaml":   "desk 5 0-8 (planner 5 3-7 (plan 13 7-7))",
		"app.yaml":          "fast 14 1-1, slow 14 2-2, Plan 23 4-4, stock 12 6-6",
		"s.script.yaml":     "",
		"prompts/writer.md": "",

		"root_agent.test.yaml": "writes 6 0-9",
		"desk.eval.yaml":       "one 6 3-7",
	} {
		var found []symbol
		e.call("textDocument/documentSymbol", map[string]any{"textDocument": map[string]any{"uri": e.uri(file)}}, &found)
		if got := describe(file, found); got != want {
			t.Errorf("symbols of %s = %s, want %s", file, got, want)
		}
	}
}

// The workspace's symbols are the declarations in all its apps that contain the query.
func TestWorkspaceSymbols(t *testing.T) {
	e := startDesk(t)
	defer e.close()
	for query, want := range map[string]string{
		"PLAN": "plan 13 root_agent.yaml:7, planner 5 root_agent.yaml:3, Plan 23 app.yaml:4",
		"none": "",
	} {
		var found []struct {
			Name     string
			Kind     int
			Location wireLocation
		}
		e.call("workspace/symbol", map[string]any{"query": query}, &found)
		var got []string
		for _, s := range found {
			got = append(got, fmt.Sprintf("%s %d %s:%d", s.Name, s.Kind, strings.TrimPrefix(s.Location.URI, "file://"+e.dir+"/"), s.Location.Range.Start.Line))
		}
		wanted := strings.Split(want, ", ")
		slices.Sort(got)
		slices.Sort(wanted)
		if strings.Join(got, ", ") != strings.Join(wanted, ", ") {
			t.Errorf("symbols for %s = %s, want %s", query, got, want)
		}
	}
}

// An editor that offers UTF-8 gets and sends bytes.
func TestNamesInUTF8(t *testing.T) {
	e := startDesk(t)
	defer e.close()
	e.call("initialize", map[string]any{"capabilities": map[string]any{"general": map[string]any{"positionEncodings": []string{"utf-8", "utf-16"}}}}, nil)
	line, _, _ := strings.Cut(deskFiles()["prompts/writer.md"], "\n")
	at := strings.Index(line, "plan")
	var found struct{ Range wireRange }
	e.call("textDocument/prepareRename", map[string]any{
		"textDocument": map[string]any{"uri": e.uri("prompts/writer.md")}, "position": map[string]any{"line": 0, "character": at + 1},
	}, &found)
	if found.Range.Start.Character != at || found.Range.End.Character != at+len("plan") {
		t.Errorf("range = %+v, want bytes from %d", found.Range, at)
	}
}
