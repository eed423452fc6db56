package httptool

import (
	"testing"

	"agenthost/internal/tooltest"
	"agenthost/pkg/tool"
	"agenthost/pkg/tool/builtin"
)

func TestConfirm(t *testing.T) {
	const params = "params: {sum: number, by: {enum: [card, cash], default: card}}\n"
	tests := []struct {
		name, yaml string
		args       map[string]any
		want       bool
		err        string
	}{
		{name: "always", yaml: "confirm: true", want: true},
		{name: "never", yaml: "confirm: false"},
		{name: "more than the limit", yaml: params + "confirm: args.sum > state.limit", args: map[string]any{"sum": 11.0}, want: true},
		{name: "less than the limit", yaml: params + "confirm: args.sum > state.limit", args: map[string]any{"sum": 9.0}},
		{name: "a default counts", yaml: params + `confirm: args.by == "card"`, args: map[string]any{"sum": 9.0}, want: true},
		{name: "who and where", yaml: `confirm: user == "hello" && session.user_id == "ana" && agent == "clerk"`, want: true},
		{name: "nothing is no", yaml: "confirm: state.careful"},
		{
			name: "wrong arguments", yaml: params + "confirm: true", args: map[string]any{},
			err: "Invoking `it()` failed as the following mandatory input parameters are not present:\nsum\n" +
				"You could retry calling this tool, but it is IMPORTANT for you to provide all the mandatory parameters.",
		},
		{
			name: "the condition fails", yaml: params + "confirm: args.sum > state.none", args: map[string]any{"sum": 9.0},
			err: "it: confirm: > does not work on a number and nil",
		},
	}
	for _, tt := range tests {
		for kind, rest := range map[string]string{"expr": "value: 1\n", "http": "url: https://example.com\n"} {
			t.Run(tt.name+" "+kind, func(t *testing.T) {
				confirm := tool.CapabilitiesOf(tooltest.MustBuildTool(t, append(builtin.Kinds(), Kinds()...), kind, "name: it\n"+rest+tt.yaml)).Confirm
				got, err := confirm.NeedsConfirmation(t.Context(), tooltest.NewCall(tt.args, map[string]any{"limit": 10}))
				if got != tt.want || tooltest.ErrorString(err) != tt.err {
					t.Errorf("NeedsConfirmation = %v, %v, want %v, %s", got, err, tt.want, tt.err)
				}
			})
		}
	}
}
