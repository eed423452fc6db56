package builtin

import (
	"testing"

	"agenthost/internal/tooltest"
)

// TestUndeclaredArgs: parameters in the short form are a function's signature, whose other
// arguments are dropped as in ADK; a JSON Schema accepts them unless it forbids them.
func TestUndeclaredArgs(t *testing.T) {
	for params, want := range map[string]any{
		"{a: integer}":                                           nil,
		"{type: object, properties: {a: {}}}":                    "x",
		"{type: object}":                                         "x",
		"{type: object, additionalProperties: true}":             "x",
		"{type: object, patternProperties: {an: {}}}":            "x",
		"{type: object, properties: {anything: {type: string}}}": "x",
	} {
		tool := tooltest.MustBuildTool(t, Kinds(), "expr", "name: it\nparams: "+params+"\nvalue: args")
		res, err := tool.Run(t.Context(), tooltest.NewCall(map[string]any{"a": int64(1), "anything": "x"}, nil))
		if err != nil {
			t.Errorf("%s: %v", params, err)
			continue
		}
		if got := res.Response["anything"]; got != want {
			t.Errorf("%s: anything is %v, want %v", params, got, want)
		}
	}
}
