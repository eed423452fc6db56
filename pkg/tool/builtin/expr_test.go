package builtin

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genai"

	"agenthost/internal/tooltest"
	"agenthost/pkg/session"
	"agenthost/pkg/tool"
)

func TestExprDeclaration(t *testing.T) {
	got := tooltest.MustBuildTool(t, Kinds(), "expr", `
name: vat
description: Computes the tax.
params: {net: number, note: "string?"}
value: args.net * 0.21
long_running: true
`).Declaration()
	want := &genai.FunctionDeclaration{
		Name:        "vat",
		Description: "Computes the tax.\n\n" + tool.WithPendingNote(""),
		ParametersJsonSchema: map[string]any{
			"type":       "object",
			"properties": map[string]any{"net": map[string]any{"type": "number"}, "note": map[string]any{"type": "string"}},
			"required":   []any{"net"},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Declaration (-want +got):\n%s", diff)
	}
}

// TestExprDeclarationWithoutParams checks that a tool without parameters declares
// none, as in ADK.
func TestExprDeclarationWithoutParams(t *testing.T) {
	for _, params := range []string{"", "params: {}\n"} {
		got := tooltest.MustBuildTool(t, Kinds(), "expr", "name: ping\n"+params+"value: 1\n").Declaration()
		if diff := cmp.Diff(&genai.FunctionDeclaration{Name: "ping"}, got); diff != "" {
			t.Errorf("Declaration with %q (-want +got):\n%s", params, diff)
		}
	}
}

func TestExpr(t *testing.T) {
	state := map[string]any{"tier": "gold", "cart": map[string]any{"n": int64(2)}, "user:lang": "pt"}
	tests := []struct {
		name, yaml string
		args       map[string]any
		want       map[string]any
		writes     map[string]any
	}{
		{name: "a value is wrapped", yaml: "value: 1 + 2", want: map[string]any{"result": int64(3)}},
		{name: "a map is as it is", yaml: `value: '{n: 1, tier: state.tier}'`, want: map[string]any{"n": int64(1), "tier": "gold"}},
		{name: "a list is wrapped", yaml: "value: '[1, 2]'", want: map[string]any{"result": []any{int64(1), int64(2)}}},
		{name: "nil", yaml: "value: state.nothing", want: map[string]any{"result": nil}},
		{
			name: "arguments with defaults, whole floats as integers",
			yaml: "params: {n: integer, by: {enum: [2, 3], default: 2}}\nvalue: args.n % args.by",
			args: map[string]any{"n": 7.0}, want: map[string]any{"result": int64(1)},
		},
		{
			name: "an optional argument that is left out is nil",
			yaml: "params: {note: \"string?\"}\nvalue: args.note == nil", want: map[string]any{"result": true},
		},
		{
			name: "who and where",
			yaml: `value: '[user, session.id, session.user_id, session.app, invocation.id, agent]'`,
			want: map[string]any{"result": []any{"hello", "s1", "ana", "shop", "inv-1", "clerk"}},
		},
		{
			name: "arguments have the types of their parameters",
			yaml: "params: {s: string, b: boolean, l: [string], o: {a: string}, x: any}\nvalue: '[args.s + \"!\", !args.b, len(args.l), args.o.a, args.x]'",
			args: map[string]any{"s": "a", "b": true, "l": []any{"x"}, "o": map[string]any{"a": "y"}, "x": 1.5},
			want: map[string]any{"result": []any{"a!", false, int64(1), "y", 1.5}},
		},
		{
			name: "state with a prefix", yaml: `value: state["user:lang"]`, want: map[string]any{"result": "pt"},
		},
		{
			name:   "set sees the state before the call",
			yaml:   "params: {net: number}\nvalue: state.tier\nset: {tier: '\"free\"', old: state.tier, \"user:last\": args.net, cart: nil}",
			args:   map[string]any{"net": 1.5},
			want:   map[string]any{"result": "gold"},
			writes: map[string]any{"tier": "free", "old": "gold", "user:last": 1.5, "cart": nil},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			call := tooltest.NewCall(tt.args, state)
			got, err := tooltest.MustBuildTool(t, Kinds(), "expr", "name: it\n"+tt.yaml).Run(t.Context(), call)
			if err != nil {
				t.Fatalf("Run: %v", err)
			}
			if diff := cmp.Diff(tt.want, got.Response); diff != "" {
				t.Errorf("response (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(session.Actions{StateDelta: tt.writes}, *call.Actions); diff != "" {
				t.Errorf("actions (-want +got):\n%s", diff)
			}
		})
	}
}

func TestExprCapabilities(t *testing.T) {
	tests := []struct {
		name, yaml string
		want       tool.Capabilities
	}{
		{"none", "", tool.Capabilities{}},
		{"all", "timeout: 5s\non_error: fail\nlong_running: true", tool.Capabilities{Timeout: 5e9, FailOnError: true, LongRunning: true}},
		{"returned to the model", "on_error: return", tool.Capabilities{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := tool.CapabilitiesOf(tooltest.MustBuildTool(t, Kinds(), "expr", "name: it\nvalue: 1\n"+tt.yaml))
			if got != tt.want {
				t.Errorf("CapabilitiesOf = %+v, want %+v", got, tt.want)
			}
		})
	}
}

func TestExprLongRunningWithoutResponse(t *testing.T) {
	tool := tooltest.MustBuildTool(t, Kinds(), "expr", "name: it\nvalue: state.ticket\nlong_running: true")
	if got, err := tool.Run(t.Context(), tooltest.NewCall(nil, nil)); got != nil || err != nil {
		t.Errorf("Run = %v, %v, want nothing", got, err)
	}
	got, err := tool.Run(t.Context(), tooltest.NewCall(nil, map[string]any{"ticket": "T1"}))
	if err != nil || got.Response["result"] != "T1" {
		t.Errorf("Run = %v, %v, want the ticket", got, err)
	}
}

func TestExprConfigErrors(t *testing.T) {
	tests := []struct{ name, yaml, want string }{
		{"no name", "value: 1", `tool.yaml:1:1: missing field "name" [required]`},
		{"no value", "name: it", `tool.yaml:1:1: missing field "value" [required]`},
		{
			"a bad name", "name: vat rate\nvalue: 1",
			`tool.yaml:1:7: tool name "vat rate" must start with a letter or _, followed by letters, digits and _ . : - [tool]`,
		},
		{"an unknown field", "name: it\nvalue: 1\nresult: 2", `tool.yaml:3:1: unknown field "result" [unknown-field]`},
		{"a bad on_error", "name: it\nvalue: 1\non_error: stop", `tool.yaml:3:11: "stop" is not one of: return, fail [enum]`},
		{
			"an unknown argument", "name: it\nparams: {net: number}\nvalue: args.nett",
			`tool.yaml:3:13: unknown member nett; did you mean net? [expression]`,
		},
		{
			"every mistake at once", "name: it\nvalue: 1 +\nset:\n  a: 2 +",
			"tool.yaml:2:10: the expression ends too early [expression]\ntool.yaml:4:8: the expression ends too early [expression]",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := tooltest.BuildTool(t, Kinds(), "expr", tt.yaml)
			if diff := cmp.Diff(tt.want, tooltest.ErrorString(err)); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
		})
	}
}

func TestExprFailures(t *testing.T) {
	tests := []struct {
		name, yaml string
		args       map[string]any
		want       string
	}{
		{"value", "value: state.n / 0", nil, "it: value: division by zero"},
		{"set", "value: 1\nset: {a: state.n / 0}", nil, "it: set a: division by zero"},
		{
			"missing argument", "params: {n: integer}\nvalue: args.n", nil,
			"Invoking `it()` failed as the following mandatory input parameters are not present:\nn\n" +
				"You could retry calling this tool, but it is IMPORTANT for you to provide all the mandatory parameters.",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			call := tooltest.NewCall(tt.args, map[string]any{"n": int64(1)})
			got, err := tooltest.MustBuildTool(t, Kinds(), "expr", "name: it\n"+tt.yaml).Run(t.Context(), call)
			if diff := cmp.Diff(tt.want, tooltest.ErrorString(err)); diff != "" || got != nil {
				t.Errorf("Run = %v, error (-want +got):\n%s", got, diff)
			}
			if len(call.Actions.StateDelta) > 0 {
				t.Errorf("a failed call wrote %v", call.Actions.StateDelta)
			}
		})
	}
}
