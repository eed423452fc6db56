package lsp_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Hints are the values of references without secrets, the types of written keys, and the model of an
// agent that names none.
func TestInlayHints(t *testing.T) {
	e := startEditor(t)
	defer e.close()
	hints := func(file, text string, last int) []string {
		t.Helper()
		params := e.document(file, text)
		params["range"] = map[string]any{"start": map[string]int{"line": 0, "character": 0}, "end": map[string]int{"line": last, "character": 0}}
		var answer []struct {
			Position struct{ Line, Character int }
			Label    string
		}
		e.call("textDocument/inlayHint", params, &answer)
		got := []string{}
		for _, h := range answer {
			got = append(got, fmt.Sprintf("%d:%d %s", h.Position.Line, h.Position.Character, h.Label))
		}
		return got
	}
	if diff := cmp.Diff([]string{"7:96 = http://shop.test/stock"}, hints("app.yaml", shop, 99)); diff != "" {
		t.Errorf("app.yaml (-want +got):\n%s", diff)
	}
	const text = `name: desk
model: fast
description: "é𝄞 ${env:TONE:-kind}"  # a comment
instruction: Help {n?}.
output_key: last
sub_agents:
  - name: inner
    description: x
    instruction: Count.
    tools:
      - http: {name: f, description: x, url: http://shop.test, headers: {X: "${env:KEY:-abc}"}}
      - expr: {name: g, description: x, value: "1", add: {n: "1"}}
`
	want := []string{"2:36 = é𝄞 kind", "4:16 (string)", "10:95 = ***", "11:59 (number)", "6:15 model: fast"}
	if diff := cmp.Diff(want, hints("root_agent.yaml", text, 99)); diff != "" {
		t.Errorf("root_agent.yaml (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want[:2], hints("root_agent.yaml", text, 4)); diff != "" {
		t.Errorf("some lines (-want +got):\n%s", diff)
	}
	if got := hints("root_agent.yaml", "name: desk\nmodel: fast\ninstruction: \"${secret:KEY}\"\n", 99); len(got) != 0 {
		t.Errorf("hints of a secret = %q", got)
	}
}
