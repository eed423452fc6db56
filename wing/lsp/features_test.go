package lsp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agenthost/wing/lsp"
)

// document returns the parameters for a request about a whole file with this text.
func (e *editor) document(file, text string) map[string]any {
	e.Helper()
	e.notify("textDocument/didOpen", map[string]any{"textDocument": map[string]any{"uri": e.uri(file), "text": text}})
	return map[string]any{"textDocument": map[string]any{"uri": e.uri(file)}}
}

// TestFormatting applies the edits of both formatting requests, from the last to the first.
func TestFormatting(t *testing.T) {
	e := startEditor(t)
	defer e.close()
	const text = "name:   é𝄞\nmodel: fast   # quick\n\n\ninstruction: |\n   Help  {tier}.\n\n\n   Be   kind.\ntools:\n- use:   stock\n"
	request := func(method string, lines ...int) string {
		t.Helper()
		params := e.document("root_agent.yaml", text)
		params["options"] = map[string]any{"tabSize": 4, "insertSpaces": true}
		if len(lines) == 2 {
			params["range"] = map[string]any{"start": map[string]int{"line": lines[0], "character": 0}, "end": map[string]int{"line": lines[1], "character": 0}}
		}
		var edits []struct {
			Range struct{ Start, End struct{ Line, Character int } }
			Text  string `json:"newText"`
		}
		e.call(method, params, &edits)
		result := strings.SplitAfter(text, "\n")
		for i := len(edits) - 1; i >= 0; i-- {
			r := edits[i].Range
			if r.End.Line > r.Start.Line {
				result[r.Start.Line] = ""
			} else {
				result[r.Start.Line] = edits[i].Text + "\n"
			}
		}
		return strings.Join(result, "")
	}
	want := "name: é𝄞\nmodel: fast   # quick\n\ninstruction: |\n   Help  {tier}.\n\n\n   Be   kind.\ntools:\n  - use: stock\n"
	if diff := cmp.Diff(want, request("textDocument/formatting")); diff != "" {
		t.Errorf("formatting (-want +got):\n%s", diff)
	}
	want = "name: é𝄞\nmodel: fast   # quick\n\n\ninstruction: |\n   Help  {tier}.\n\n\n   Be   kind.\ntools:\n- use:   stock\n"
	if diff := cmp.Diff(want, request("textDocument/rangeFormatting", 0, 1)); diff != "" {
		t.Errorf("range formatting (-want +got):\n%s", diff)
	}
	var edits []any
	if e.call("textDocument/formatting", e.document("root_agent.yaml", "name: [a\n"), &edits); len(edits) != 0 {
		t.Errorf("edits of an invalid document = %v", edits)
	}
}

// TestFoldingRanges folds what is below a line, and comments; an unfinished document has ranges as well.
func TestFoldingRanges(t *testing.T) {
	e := startEditor(t)
	defer e.close()
	var ranges []struct {
		StartLine, EndLine int
		Kind               string
	}
	e.call("textDocument/foldingRange", e.document("root_agent.yaml", "# one\n# two\nname: a\ninstruction: |\n  x\n\n  y\n\ntools:\n- http:\n    url: x\n- use: [b\n"), &ranges)
	got := []string{}
	for _, r := range ranges {
		got = append(got, strings.TrimSpace(fmt.Sprintf("%d-%d %s", r.StartLine, r.EndLine, r.Kind)))
	}
	if diff := cmp.Diff([]string{"0-1 comment", "3-6", "9-10", "8-11"}, got); diff != "" {
		t.Errorf("ranges (-want +got):\n%s", diff)
	}
}

// TestDocumentLinks links files that exist in the app, and addresses without placeholders.
func TestDocumentLinks(t *testing.T) {
	e := startEditor(t)
	defer e.close()
	if err := os.WriteFile(e.dir+"/more/tone.md", []byte("Be kind."), 0o600); err != nil {
		t.Fatal(err)
	}
	var links []struct {
		Range  struct{ Start, End struct{ Line, Character int } }
		Target string
	}
	e.call("textDocument/documentLink", e.document("root_agent.yaml", `name: é
instruction: "𝄞 ${file:more/tone.md} ${file:none.md} ${file:../../../etc/passwd}"
sub_agents:
  - config_path: more/sub.yaml
  - config_path: more/none.yaml
tools:
  - http: {name: f, url: "https://shop.test/{args.id}"}  # see https://docs.test/api.
`), &links)
	got := []string{}
	for _, l := range links {
		got = append(got, fmt.Sprintf("%d:%d-%d %s", l.Range.Start.Line, l.Range.Start.Character, l.Range.End.Character, strings.TrimPrefix(l.Target, "file://"+e.dir+"/")))
	}
	if diff := cmp.Diff([]string{"1:24-36 more/tone.md", "3:17-30 more/sub.yaml", "6:63-84 https://docs.test/api"}, got); diff != "" {
		t.Errorf("links (-want +got):\n%s", diff)
	}
}

// startEditorWithCommands starts a server with a command that echoes its arguments, one that fails and
// one that waits until it is canceled.
func startEditorWithCommands(t *testing.T) *editor {
	return startEditorOf(t, func(o *lsp.Options) {
		echo := func(_ context.Context, arguments []json.RawMessage) (lsp.CommandResult, error) {
			text, err := json.Marshal(arguments)
			return lsp.CommandResult{Failed: len(arguments) == 0, Output: string(text)}, err
		}
		o.Commands = map[string]lsp.Command{
			lsp.RunTest: echo, lsp.EvalCase: echo,
			"fail": func(context.Context, []json.RawMessage) (lsp.CommandResult, error) {
				return lsp.CommandResult{}, errors.New("no such test")
			},
			"panic": func(context.Context, []json.RawMessage) (lsp.CommandResult, error) { panic("broken") },
			lsp.PreviewAgent: func(ctx context.Context, _ []json.RawMessage) (lsp.CommandResult, error) {
				<-ctx.Done()
				return lsp.CommandResult{Output: "canceled"}, nil
			},
		}
	})
}

// TestCodeLenses expects a lens for each test, case and agent of the document.
func TestCodeLenses(t *testing.T) {
	e := startEditorWithCommands(t)
	defer e.close()
	for _, tt := range []struct {
		file, text string
		want       []string
	}{
		{"root_agent.test.yaml", "- name: one\n  user: hi\n- user: hi\n- name: two\n  user: hi\n", []string{"0 ▶ Run test agenthost.runTest [one]", "3 ▶ Run test agenthost.runTest [two]"}},
		{"root_agent.eval.yaml", "cases:\n  - name: one\n    user: hi\n", []string{"1 ▶ Evaluate case agenthost.evalCase [root_agent.eval.yaml one]"}},
		{"root_agent.yaml", "name: desk\ninstruction: x\nsub_agents:\n  - name: inner\n    instruction: x\n  - use: answer\n", []string{"0 ▶ Preview request agenthost.previewAgent [desk]", "3 ▶ Preview request agenthost.previewAgent [inner]"}},
		{"app.yaml", shop, []string{"4 ▶ Preview request agenthost.previewAgent [answer]"}},
		{"s.script.yaml", "- text: Hello.\n", []string{}},
		{"root_agent.yaml", "name: [\n", []string{}},
	} {
		var lenses []struct {
			Range   struct{ Start struct{ Line int } }
			Command struct {
				Title, Command string
				Arguments      []string
			}
		}
		e.call("textDocument/codeLens", e.document(tt.file, tt.text), &lenses)
		got := []string{}
		for _, l := range lenses {
			if l.Command.Arguments[0] != e.dir {
				t.Errorf("folder = %s, want %s", l.Command.Arguments[0], e.dir)
			}
			got = append(got, fmt.Sprintf("%d %s %s %v", l.Range.Start.Line, l.Command.Title, l.Command.Command, l.Command.Arguments[1:]))
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s: lenses (-want +got):\n%s", tt.file, diff)
		}
		e.notify("textDocument/didClose", map[string]any{"textDocument": map[string]any{"uri": e.uri(tt.file)}})
	}
}

// TestExecuteCommand expects a command's result as the response and as a message, and that the server
// answers other requests meanwhile.
func TestExecuteCommand(t *testing.T) {
	e := startEditorWithCommands(t)
	defer e.close()
	execute := func(command string, arguments ...any) (result, shown string) {
		t.Helper()
		e.shown = nil
		m := e.call("workspace/executeCommand", map[string]any{"command": command, "arguments": append([]any{}, arguments...)}, nil)
		if m.Error != nil {
			return fmt.Sprintf("%d %s", m.Error.Code, m.Error.Message), strings.Join(e.shown, "; ")
		}
		return string(m.Result), strings.Join(e.shown, "; ")
	}
	for _, tt := range []struct{ name, command, want, shown string }{
		{"success", lsp.RunTest, `{"failed":false,"output":"[\"a\"]"}`, `3 ["a"]`},
		{"error", "fail", "-32803 no such test", "1 no such test"},
		{"panic", "panic", "-32803 the command panicked: panic: broken", "1 the command panicked: panic: broken"},
		{"unknown command", "rm", `-32602 unknown command "rm"`, ""},
	} {
		if got, shown := execute(tt.command, "a"); got != tt.want || shown != tt.shown {
			t.Errorf("%s: result = %s, shown = %s, want %s and %s", tt.name, got, shown, tt.want, tt.shown)
		}
	}
	if got, shown := execute(lsp.RunTest); got != `{"failed":true,"output":"null"}` && got != `{"failed":true,"output":"[]"}` || !strings.HasPrefix(shown, "1 ") {
		t.Errorf("failed command: %s, %s", got, shown)
	}

	for id := 101; id <= 104; id++ {
		e.send(map[string]any{"id": id, "method": "workspace/executeCommand", "params": map[string]any{"command": lsp.PreviewAgent}})
	}
	if got, _ := execute(lsp.RunTest, "a"); got != "-32803 4 commands are running, which is the limit" {
		t.Errorf("fifth command: %s", got)
	}
	e.notify("$/cancelRequest", map[string]any{"id": 103})
	for {
		if m := e.receive(); m.ID != nil {
			if *m.ID != 103 || string(m.Result) != `{"failed":false,"output":"canceled"}` {
				t.Errorf("response = %d %s", *m.ID, m.Result)
			}
			break
		}
	}
}
