package lsp_test

import (
	"testing"
)

// No text and no cursor ends the server or panics in a request.
func FuzzRequestsAtCursor(f *testing.F) {
	for _, seed := range []string{
		"name: a\ninstruction: Help {", "tools: [{http: {url: 'x{args.", "- name: a\n  expect: [text ==", "a: &b [*b]\n", "name: \"é𝄞\n", "x: |\n  {y\n z", "models: {fast: {provider: ", "\t- a:\r\n", "{[}", "sub_agents:\n  - use:\n",
	} {
		f.Add(seed, 0, len(seed), uint8(0))
		f.Add(seed, 1, 3, uint8(1))
	}
	f.Fuzz(func(t *testing.T, text string, line, character int, file uint8) {
		e := startEditor(t)
		name := []string{"root_agent.yaml", "app.yaml", "root_agent.test.yaml", "root_agent.eval.yaml", "s.script.yaml"}[file%5]
		params := e.document(name, text)
		params["position"] = map[string]int{"line": line, "character": character}
		params["range"] = map[string]any{"start": map[string]int{"line": 0, "character": 0}, "end": map[string]int{"line": line, "character": character}}
		for _, method := range []string{
			"completion", "hover", "definition", "references", "documentHighlight", "documentSymbol", "foldingRange", "documentLink",
			"formatting", "rangeFormatting", "codeLens", "inlayHint", "codeAction", "semanticTokens/full",
		} {
			if m := e.call("textDocument/"+method, params, nil); m.Error != nil && m.Error.Code == -32603 {
				t.Errorf("%s: %s", method, m.Error.Message)
			}
		}
		e.close()
	})
}
