package lsp_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agenthost/internal/testenv"
	"agenthost/pkg/loader"
)

// words are what random edits insert: YAML's and the templates' characters, and names in the app.
func words() []string {
	return []string{
		"{", "}", "[", "]", ":", ": ", "- ", "\n", "\n  ", "\t", "\"", "'", "|\n", ">-\n", "#", "&a ", "*a", "!x ", "\\", "\r\n", "\u2028", "é𝄞", "{plan}", "{plan?}",
		"state.plan", "${env:X:-plan}", "${file:prompts/writer.md}", "`stock`", "use: stock\n", "name: plan\n", "output_key: plan\n", "null", "plan", "stock", "writer",
	}
}

// FuzzEdits edits random files at random places. No request ends the server, and after each edit the
// diagnostics are those of check; next to a syntax error, more are known.
func FuzzEdits(f *testing.F) {
	f.Add([]byte{1, 10, 3, 2, 200, 30, 3, 40, 9, 0, 90, 33})
	f.Add([]byte{4, 60, 22, 4, 61, 12, 2, 5, 40, 1, 77, 41, 1, 78, 1})
	f.Add([]byte{3, 128, 25, 5, 3, 17, 0, 255, 0, 5, 250, 20, 1, 1, 1, 1, 2, 2})
	f.Fuzz(func(t *testing.T, edits []byte) {
		if len(edits) > 30 {
			t.Skip()
		}
		checkEdits(t, edits)
	})
}

// checkEdits applies edits, of which each is a file, a place and a word.
func checkEdits(t *testing.T, edits []byte) {
	e := startDesk(t)
	defer e.close()
	checker := loader.New(testenv.Kinds(), &loader.Options{Env: func(string) (string, bool) { return "", false }})
	files := slices.Sorted(slices.Values([]string{"app.yaml", "root_agent.yaml", "agents/writer.yaml", "prompts/writer.md", "root_agent.test.yaml", "desk.eval.yaml"}))
	for version := 1; len(edits) >= 3; edits = edits[3:] {
		file, insert := files[int(edits[0])%len(files)], words()[int(edits[2])%len(words())]
		text := e.readFile(file)
		at := int(edits[1]) * len(text) / 256
		end := min(len(text), at+int(edits[2])/len(words()))
		text = strings.ToValidUTF8(text[:at]+insert+text[end:], "")
		e.writeFiles(map[string]string{file: text}) // for check
		version++
		e.notify("textDocument/didOpen", map[string]any{"textDocument": map[string]any{"uri": e.uri(file), "version": version, "text": text}})
		line := strings.Count(text[:min(at, len(text))], "\n")
		p := map[string]any{
			"textDocument": map[string]any{"uri": e.uri(file)}, "position": map[string]any{"line": line, "character": int(edits[1]) % 40}, "newName": "renamed",
			"context": map[string]any{"includeDeclaration": true}, "query": "p",
		}
		for _, method := range []string{"definition", "references", "documentHighlight", "prepareRename", "rename", "documentSymbol", "hover"} {
			e.call("textDocument/"+method, p, nil)
		}
		e.call("workspace/symbol", p, nil)
		checked, published := checkedProblems(e, checker), publishedProblems(e)
		isSyntax := func(problem string) bool {
			return strings.HasSuffix(problem, "[yaml]") || strings.HasSuffix(problem, "[duplicate-key]")
		}
		if slices.ContainsFunc(checked, isSyntax) { // the others are those of the last text that could be parsed
			checked = slices.DeleteFunc(checked, func(p string) bool { return !isSyntax(p) })
			published = slices.DeleteFunc(published, func(p string) bool { return !slices.Contains(checked, p) })
		}
		if diff := cmp.Diff(checked, published); diff != "" {
			t.Fatalf("after an edit in %s (-check +published):\n%s\n%s", file, diff, text)
		}
	}
}

// checkedProblems returns what check reports on the folder, by file.
func checkedProblems(e *editor, l *loader.Loader) []string {
	var all []string
	for _, d := range l.Check(e.Context(), e.dir).Split() {
		text := d.Message
		if d.Hint != "" {
			text += "\n" + d.Hint
		}
		file, _ := filepath.Rel(e.dir, filepath.FromSlash(d.Pos.File))
		all = append(all, fmt.Sprintf("%s:%d %s [%s]", filepath.ToSlash(file), max(d.Pos.Line-1, 0), text, d.Rule))
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// publishedProblems returns the diagnostics that the editor shows now.
func publishedProblems(e *editor) []string {
	var all []string
	for file, problems := range e.published {
		for _, p := range problems {
			place, text, _ := strings.Cut(p, " ")
			line, _, _ := strings.Cut(place, ":")
			all = append(all, strings.TrimPrefix(file, "file://")+":"+line+" "+text)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// BenchmarkKeystroke measures a keystroke in one of 1000 agents and a request for the references of a
// name in it.
func BenchmarkKeystroke(b *testing.B) {
	e := startEditorWith(b, testenv.Kinds())
	defer e.close()
	files := map[string]string{"app.yaml": "models: {fast: {provider: scripted, script: s.script.yaml}}\n"}
	root := "name: root\nagent_class: ParallelAgent\nsub_agents:\n"
	for i := range 1000 {
		file := fmt.Sprintf("agents/a%d.yaml", i)
		root += "  - config_path: " + file + "\n"
		files[file] = fmt.Sprintf("name: a%d\nmodel: fast\ninstruction: |\n  Do {k%d?} and {k%d?}.\noutput_key: k%d\n", i, i, (i+1)%1000, i)
	}
	files["root_agent.yaml"] = root
	e.writeFiles(files)
	p := e.positionOf("agents/a7.yaml", "k7", 1)
	p["context"] = map[string]any{"includeDeclaration": true}
	version := 0
	for b.Loop() {
		version++
		e.notify("textDocument/didOpen", map[string]any{"textDocument": map[string]any{
			"uri": e.uri("agents/a7.yaml"), "version": version, "text": fmt.Sprintf("%s# %d\n", files["agents/a7.yaml"], version),
		}})
		var found []wireLocation
		if e.call("textDocument/references", p, &found); len(found) != 3 {
			b.Fatalf("found %d references, want 3", len(found))
		}
	}
}

// BenchmarkKeystrokeInOneFile measures a keystroke in an app.yaml that has 1000 agents: until the
// diagnostics of the change arrive, and until the completions at the cursor do.
func BenchmarkKeystrokeInOneFile(b *testing.B) {
	e := startEditorWith(b, testenv.Kinds())
	defer e.close()
	var agents, use strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&agents, "  a%d:\n    model: fast\n    description: Counts %d.\n    instruction: |\n      Do {k%d?} and {k%d?}.\n    output_key: k%d\n", i, i, i, (i+1)%1000, i)
		fmt.Fprintf(&use, "    - use: a%d\n", i)
	}
	text := "models: {fast: {provider: scripted, script: s.script.yaml}}\nroot_agent:\n  name: root\n  agent_class: ParallelAgent\n  sub_agents:\n" + use.String() + "agents:\n" + agents.String()
	e.writeFiles(map[string]string{"app.yaml": text, "root_agent.yaml": ""})
	if err := os.Remove(filepath.Join(e.dir, "root_agent.yaml")); err != nil {
		b.Fatal(err)
	}
	e.notify("textDocument/didOpen", map[string]any{"textDocument": map[string]any{"uri": e.uri("app.yaml"), "text": text}})
	version := 0
	typeText := func(typed string) (line, column int) {
		version++
		before, after, _ := strings.Cut(text, "Do {k500?}")
		changed := before + "Do {k500?}" + typed + after
		e.notify("textDocument/didChange", map[string]any{
			"textDocument":   map[string]any{"uri": e.uri("app.yaml"), "version": version},
			"contentChanges": []any{map[string]any{"text": changed}},
		})
		return strings.Count(before, "\n"), len(before[strings.LastIndex(before, "\n")+1:]) + len("Do {k500?}"+typed)
	}
	b.Run("diagnostics", func(b *testing.B) {
		for b.Loop() {
			typeText(fmt.Sprintf(" {nothing%d}", version))
			for found := []string{}; !strings.Contains(strings.Join(found, ""), fmt.Sprintf("{nothing%d?}", version-1)); {
				found = e.waitForDiagnostics("app.yaml")
			}
		}
	})
	b.Run("completion", func(b *testing.B) {
		for b.Loop() {
			line, column := typeText(" {k50")
			var answer struct{ Items []struct{ Label string } }
			e.call("textDocument/completion", map[string]any{"textDocument": map[string]any{"uri": e.uri("app.yaml")}, "position": map[string]int{"line": line, "character": column}}, &answer)
			if len(answer.Items) == 0 {
				b.Fatal("no completions")
			}
		}
	})
}
