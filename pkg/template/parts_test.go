package template_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"agenthost/pkg/template"
)

func TestPartsExplainResult(t *testing.T) {
	for _, tt := range []struct {
		src  string
		want []string
	}{
		{`text contains "R1" and state.tier == "gold"`, []string{"text", "state.tier"}},
		{`text == text`, []string{"text"}},
		{`len(calls) == 2`, []string{"len(calls)", "calls"}},
		{`none(events, .author == "x" and .actions.escalate)`, []string{"map(events, .author)", "map(events, .actions.escalate)"}},
		{`count(calls, .name == "f") > 1`, []string{`count(calls, .name == "f")`, "map(calls, .name)"}},
		{`calls[0]?.args.to == "Ana"`, []string{"calls[0]?.args.to"}},
		{`not pending.confirmation`, []string{"pending.confirmation"}},
		{`(state["user:name"] ?? "") == "Ana" ? usage.llm_calls < 3 : false`, []string{`state["user:name"]`, "usage.llm_calls"}},
		{`agent in ["a", text]`, []string{"agent", "text"}},
		{`any(texts, # == "a")`, []string{"texts"}},
		{`true`, nil},
		{`text ==`, nil},
	} {
		if diff := cmp.Diff(tt.want, template.Parts(tt.src)); diff != "" {
			t.Errorf("Parts(%s) (-want +got):\n%s", tt.src, diff)
		}
	}
}

// TestCompileUnknownElementMember checks that a list's only sample determines the element type.
func TestCompileUnknownElementMember(t *testing.T) {
	env := template.Env{"calls": []any{template.Env{"name": ""}}}
	if _, err := template.CompileBool(`any(calls, .name == "f")`, env); err != nil {
		t.Errorf("Compile = %v", err)
	}
	for src, want := range map[string]string{
		`any(calls, .nome == "f")`: "unknown member nome",
		`calls[0].nome == "f"`:     "unknown member nome",
	} {
		_, err := template.CompileBool(src, env)
		if err == nil || err.Error() != want {
			t.Errorf("Compile(%s) = %v, want %s", src, err, want)
		}
	}
}
