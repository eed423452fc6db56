package lsp_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Each hint that names a fix has a code action, with the text that it changes.
func TestCodeActionsForHints(t *testing.T) {
	e := startEditor(t)
	defer e.close()
	for _, tt := range []struct {
		name, file, text string
		want             []string
	}{
		{"field", "root_agent.yaml", "name: desk\nmodel: fast\ninstruction: x\ntols: []\n", []string{"Change tols to tools (preferred)"}},
		{"model", "root_agent.yaml", "name: desk\nmodel: fsat\ninstruction: x\n", []string{"Change fsat to fast"}},
		{"quoted name", "root_agent.yaml", "name: desk\nmodel: \"fsat\"\ninstruction: x\n", []string{"Change fsat to fast"}},
		{"agent", "root_agent.yaml", "name: desk\nmodel: fast\ninstruction: x\nsub_agents: [{use: answr}]\n", []string{"Change answr to answer"}},
		{"value of a list", "root_agent.yaml", "name: desk\nmodel: fast\ninstruction: x\ninclude_contents: nune\n", []string{"Change nune to none"}},
		{"state key", "root_agent.yaml", "name: desk\nmodel: fast\ninstruction: x {lst}\noutput_key: last\n", []string{"Change lst to last"}},
		{"state key without a writer", "root_agent.yaml", "name: desk\nmodel: fast\ninstruction: x {plan}\n", []string{"Change {plan} to {plan?}", "Change {plan} to {!plan}"}},
		{"name in an expression", "root_agent.yaml", "name: desk\nmodel: fast\ninstruction: x\nwhen: stat.tier == 'gold'\n", []string{"Change stat to state"}},
		{"environment variable", "root_agent.yaml", "name: desk\nmodel: fast\ninstruction: \"${env:TONE}\"\n", []string{"Change ${env:TONE} to ${env:TONE:-default}"}},
		{"quoted number", "app.yaml", shop + "run_config: {max_llm_calls: '5 '}\n", []string{}},
		{"text that begins with a brace", "root_agent.yaml", "name: desk\nmodel: fast\ninstruction: {tier} is yours.\n", []string{`Change {tier} is yours. to "{tier} is yours."`}},
		{"name of a tool in a test", "root_agent.test.yaml", "- name: a\n  user: hi\n  tools: {stok: {return: 1}}\n", []string{"Change stok to stock"}},
	} {
		e.openDocument(tt.file, tt.text)
		var actions []struct {
			Title       string
			IsPreferred bool
		}
		e.call("textDocument/codeAction", map[string]any{
			"textDocument": map[string]any{"uri": e.uri(tt.file)}, "context": map[string]any{"diagnostics": []any{}},
			"range": map[string]any{"start": map[string]int{"line": 0, "character": 0}, "end": map[string]int{"line": 99, "character": 0}},
		}, &actions)
		got := []string{}
		for _, a := range actions {
			if a.IsPreferred {
				a.Title += " (preferred)"
			}
			got = append(got, a.Title)
		}
		if diff := cmp.Diff(tt.want, slices.Compact(got)); diff != "" {
			t.Errorf("%s: actions (-want +got):\n%s\n%v", tt.name, diff, e.published[tt.file])
		}
		e.notify("textDocument/didClose", map[string]any{"textDocument": map[string]any{"uri": e.uri(tt.file)}})
	}
}
