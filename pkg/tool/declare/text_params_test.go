package declare

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genai"

	"agenthost/pkg/tool"
)

// TestTextParams: parameters that need no compiler accept and reject the same arguments as compiled
// ones, with the same problems.
func TestTextParams(t *testing.T) {
	enum := []any{"billing", `a "quote"`, "it's", `back\`, "ünï\n", strings.Repeat("é", 999)}
	property := func(enum ...any) map[string]any {
		p := map[string]any{"type": "string", "description": "Words."}
		if len(enum) > 0 {
			p["enum"] = enum
		}
		return p
	}
	decl := &genai.FunctionDeclaration{Name: "choose", ParametersJsonSchema: map[string]any{
		"type":       "object",
		"properties": map[string]any{"to": property(enum...), "only": property("x"), "why": property(), "must": property()},
		"required":   []string{"must"},
	}}
	compiled, err := Params(decl)
	if err != nil {
		t.Fatal(err)
	}
	plain, err := tool.TextParams(decl)
	if err != nil {
		t.Fatal(err)
	}
	rejected := 0
	for _, v := range []any{"billing", "x", "", `back\`, nil, true, int64(1), 1.5, []any{"x"}, map[string]any{"a": "b"}} {
		for names := range slices.Values([][]string{{"to"}, {"only"}, {"why"}, {"must"}, {"else"}, {"to", "only", "must"}}) {
			args := map[string]any{}
			for _, name := range names {
				args[name] = v
			}
			if v != nil && !slices.Contains(names, "must") {
				args["must"] = "yes"
			}
			want, wantErr := compiled.Check(t.Context(), args)
			got, err := plain.Check(t.Context(), args)
			if diff := cmp.Diff(want, got); diff != "" || errorString(err) != errorString(wantErr) {
				t.Errorf("Check(%v) = %v\nwant %v\n(-want +got):\n%s", args, err, wantErr, diff)
			}
			if errors.As(err, new(*tool.ArgsError)) {
				rejected++
			}
		}
	}
	if rejected < 20 {
		t.Errorf("%d calls are rejected, want at least 20", rejected)
	}
}
