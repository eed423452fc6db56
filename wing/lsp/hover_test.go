package lsp_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A state key has its type, what writes it and what reads it, in each form of a placeholder.
func TestHoverOverStateKeys(t *testing.T) {
	e := startEditor(t)
	defer e.close()
	const agent = "name: desk\nmodel: fast\nstate_schema: {tier: {enum: [free, gold], default: free, description: What they pay.}, last: string, plan: \"string?\"}\noutput_key: last\n"
	for _, tt := range []struct{ name, text, want string }{
		{
			"declared", agent + "instruction: Help {ti¦er}.\n",
			"state key **tier** (free or gold)\n\nWhat they pay.\n\nDefault: `free`.\n\nDeclared: root_agent.yaml:3.\n\nNothing in the app writes it.\n\nRead: root_agent.yaml:5.",
		},
		{
			"written", agent + "instruction: Help {la¦st?}.\n",
			"state key **last** (string)\n\nDeclared: root_agent.yaml:3.\n\nWritten: root_agent.yaml:4 (output_key).\n\nRead: root_agent.yaml:5.",
		},
		{
			"of a user", agent + "instruction: |\n  Help {user:na¦me?}.\nwhen: state[\"user:name\"] != nil\n",
			"state key **user:name**, shared by all sessions of a user\n\nNothing in the app writes it.\n\nRead: root_agent.yaml:6, root_agent.yaml:7.",
		},
		{
			"output_key", "name: desk\nmodel: fast\ninstruction: x\noutput_key: pl¦an\n",
			"state key **plan** (string)\n\nWritten: root_agent.yaml:4 (output_key).\n\nNothing in the app reads it.",
		},
	} {
		var answer struct{ Contents struct{ Value string } }
		params := e.openAtCursor("root_agent.yaml", tt.text)
		e.call("textDocument/completion", params, nil) // checks the app
		e.call("textDocument/hover", params, &answer)
		if diff := cmp.Diff(tt.want, answer.Contents.Value); diff != "" {
			t.Errorf("%s: hover (-want +got):\n%s", tt.name, diff)
		}
	}
}

// A value from the environment is not shown where it may be a secret.
func TestHoverHidesSecrets(t *testing.T) {
	e := startEditor(t)
	defer e.close()
	var answer struct{ Contents struct{ Value string } }
	e.call("textDocument/hover", e.openAtCursor("root_agent.yaml", "name: desk\nmodel: fast\ninstruction: x\ntools:\n  - http:\n      name: f\n      url: http://shop.test\n      headers:\n        Authorization: \"Bearer ${env:TO¦KEN:-abcdef123}\"\n"), &answer)
	if want := "Value:\n\n```\nBearer ***\n```"; answer.Contents.Value != want {
		t.Errorf("hover = %q, want %q", answer.Contents.Value, want)
	}
}
