package lsp_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A syntax error in one file hides neither the problems of the other files nor those in the lines
// that have not changed since the file could be parsed.
func TestDiagnosticsNextToSyntaxError(t *testing.T) {
	const root = "name: desk\nmodel: fsat\ninstruction: Help.\nsub_agents: [{use: answer}]\ntools: [{use: stok}]\n"
	change := func(e *editor, file, text string) {
		e.notify("textDocument/didChange", map[string]any{
			"textDocument": map[string]any{"uri": e.uri(file), "version": 2}, "contentChanges": []any{map[string]any{"text": text}},
		})
	}

	t.Run("in another file", func(t *testing.T) {
		e := startEditor(t)
		defer e.close()
		before := e.openDocument("root_agent.yaml", root)
		e.document("app.yaml", shop)
		if len(before) != 2 {
			t.Fatalf("diagnostics = %q", before)
		}
		change(e, "app.yaml", strings.Replace(shop, "stock:\n", "stock: [\n", 1))
		delete(e.published, "root_agent.yaml")
		got := e.waitForDiagnostics("app.yaml")
		for len(got) == 0 { // those of the document that was opened
			got = e.waitForDiagnostics("app.yaml")
		}
		if len(got) != 1 || !strings.HasSuffix(got[0], "[yaml]") {
			t.Errorf("diagnostics of the broken file = %q", got)
		}
		e.call("textDocument/codeAction", map[string]any{"textDocument": map[string]any{"uri": e.uri("app.yaml")}}, nil)
		if diff := cmp.Diff(before, e.published["root_agent.yaml"]); diff != "" {
			t.Errorf("diagnostics of the other file (-want +got):\n%s", diff)
		}
	})
	t.Run("in the same file", func(t *testing.T) {
		e := startEditor(t)
		defer e.close()
		if got := e.openDocument("root_agent.yaml", root); len(got) != 2 {
			t.Fatalf("diagnostics = %q", got)
		}
		change(e, "root_agent.yaml", strings.Replace(root, "instruction: Help.", "instruction: \"Help.\noutput_key: x", 1))
		got := e.waitForDiagnostics("root_agent.yaml")
		if len(got) != 3 || !strings.HasPrefix(got[0], "1:7-11 ") || !strings.HasPrefix(got[2], "5:14-18 ") {
			t.Errorf("diagnostics = %q, want those before and after the broken line", got)
		}
	})
	t.Run("in a file that was never valid", func(t *testing.T) {
		e := startEditor(t)
		defer e.close()
		got := e.openDocument("root_agent.yaml", strings.Replace(root, "instruction: Help.", "instr", 1))
		if len(got) < 2 || !strings.HasPrefix(got[0], "1:7-11 unknown model") {
			t.Errorf("diagnostics = %q, want the syntax error and those before it", got)
		}
		for _, d := range got {
			if strings.Contains(d, "[required]") {
				t.Errorf("diagnostic %q follows from the missing line", d)
			}
		}
	})
}

// Names of a broken file still complete in the others.
func TestCompletionNextToSyntaxError(t *testing.T) {
	e := startEditor(t)
	defer e.close()
	e.document("app.yaml", shop)
	e.openDocument("app.yaml", shop+"models: [\n")
	got := e.completionLabels("root_agent.yaml", "name: desk\nmodel: ¦\ninstruction: x\n")
	if diff := cmp.Diff([]string{"fast"}, got[:min(1, len(got))]); diff != "" {
		t.Errorf("models (-want +got):\n%s", diff)
	}
}
