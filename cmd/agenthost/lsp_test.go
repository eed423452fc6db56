package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"agenthost/wing/lsp"
)

// An editor's commands run this program's own, and report what they print.
func TestEditorCommands(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "shop")
	for file, text := range map[string]string{
		"app.yaml":             "models:\n  fast: {provider: scripted, script: s.script.yaml}\n",
		"s.script.yaml":        "- text: Hello.\n",
		"root_agent.yaml":      "name: desk\nmodel: fast\ninstruction: Help.\n",
		"root_agent.test.yaml": "- name: greets (once)\n  user: hi\n  model: {desk: [{text: Hi.}]}\n  expect: [text == \"Hi.\"]\n- name: fails\n  user: hi\n  model: {desk: [{text: Hi.}]}\n  expect: [text == \"Ho.\"]\n",
		"root_agent.eval.yaml": "metrics: {response_match: 0.8}\ncases:\n  - name: first\n    user: hi\n    expect: {text: Hello.}\n",
	} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	commands := listEditorCommands(pflag.NewFlagSet("lsp", pflag.ContinueOnError))
	for _, tt := range []struct {
		name, command string
		arguments     []any
		failed        bool
		want          string
	}{
		{"passing test", lsp.RunTest, []any{dir, "greets (once)"}, false, "1 test passed, 0 failed"},
		{"failing test", lsp.RunTest, []any{dir, "fails"}, true, "Ho."},
		{"evaluation", lsp.EvalCase, []any{dir, "root_agent.eval.yaml", "first"}, false, "first"},
		{"name with a comma", lsp.EvalCase, []any{dir, "root_agent.eval.yaml", "a,b"}, true, `case "a,b" cannot run alone: its name has a comma or a colon`},
		{"preview", lsp.PreviewAgent, []any{dir, "desk"}, false, "Help."},
		{"unknown agent", lsp.PreviewAgent, []any{dir, "dask"}, true, "dask"},
		{"relative folder", lsp.RunTest, []any{"shop", "fails"}, true, "2 arguments are required, the first is the absolute path of the app folder"},
		{"argument of another type", lsp.RunTest, []any{dir, 1}, true, "argument 2 must be a string"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var arguments []json.RawMessage
			for _, argument := range tt.arguments {
				text, err := json.Marshal(argument)
				if err != nil {
					t.Fatal(err)
				}
				arguments = append(arguments, text)
			}
			got, err := commands[tt.command](t.Context(), arguments)
			if err != nil {
				got = lsp.CommandResult{Failed: true, Output: err.Error()}
			}
			if got.Failed != tt.failed || !strings.Contains(got.Output, tt.want) {
				t.Errorf("result = %+v, want %q", got, tt.want)
			}
		})
	}
}
