package lsp_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// tokens returns a document's semantic tokens, each as its line, word, type and modifiers.
func (e *editor) tokens(file string) []string {
	e.Helper()
	var result struct{ Data []int }
	e.call("textDocument/semanticTokens/full", map[string]any{"textDocument": map[string]any{"uri": e.uri(file)}}, &result)
	types := []string{"agent", "tool", "model", "state", "schema", "function", "connection"}
	modifiers := []string{"", " declared", " written"}
	lines := strings.Split(e.readFile(file), "\n")
	var found []string
	line, character := 0, 0
	for i := 0; i+5 <= len(result.Data); i += 5 {
		t := result.Data[i : i+5]
		if t[0] > 0 {
			line, character = line+t[0], 0
		}
		character += t[1]
		found = append(found, fmt.Sprintf("%d %s %s%s", line+1, wordAt(lines[line], character, t[2]), types[t[3]], modifiers[t[4]]))
	}
	return found
}

// wordAt returns the characters of a line at a position in UTF-16 units.
func wordAt(line string, from, length int) string {
	var word strings.Builder
	at := 0
	for _, r := range line {
		if at >= from && at < from+length {
			word.WriteRune(r)
		}
		at += utf16Length(string(r))
	}
	return word.String()
}

// TestSemanticTokens: the names in a file are tokens, also in instructions, expressions and tests, after
// characters outside of UTF-16's first plane.
func TestSemanticTokens(t *testing.T) {
	e := startDesk(t)
	defer e.close()
	for file, want := range map[string][]string{
		"root_agent.yaml":      {"2 desk agent declared", "4 planner agent declared", "5 fast model", "7 Plan schema", "8 plan state written"},
		"agents/writer.yaml":   {"1 writer agent declared", "2 fast model", "5 stock tool", "7 plan state", "9 plan state", "10 plan state"},
		"prompts/writer.md":    {"1 plan state", "2 stock tool", "2 plan state", "2 other state"},
		"root_agent.test.yaml": {"4 planner agent", "5 writer agent", "5 stock tool", "6 stock tool", "7 plan state written", "9 plan state", "9 plan state", "9 plan state", "10 stock tool"},
	} {
		if diff := cmp.Diff(want, e.tokens(file)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", file, diff)
		}
	}
}
