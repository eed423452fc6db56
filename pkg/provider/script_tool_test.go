package provider_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agenthost/pkg/model"
	"agenthost/pkg/provider"
	"agenthost/pkg/spec"
)

// A recorded tool call is replayed unchanged, once.
func TestToolReplay(t *testing.T) {
	from := model.Origin{Agent: "a", User: "it's\nme", Turn: 2}
	for _, tt := range []struct {
		name string
		call provider.ToolCall
		want string
	}{
		{"an answer", provider.ToolCall{Response: map[string]any{"n": 1.0, "s": []any{"{x}", nil}}}, `args: {}, response: {"n":1.0,"s":["{x}",null]}}`},
		{"an empty answer", provider.ToolCall{Response: map[string]any{}}, `args: {}, response: {}}`},
		{"nothing", provider.ToolCall{Args: map[string]any{"n": int64(7)}}, `args: {"n":7}}`},
		{"a failure", provider.ToolCall{Error: "no \"way\""}, `args: {}, error: "no \"way\""}`},
		{"state", provider.ToolCall{State: map[string]any{"k": "v", "gone": nil}}, `args: {}, state: {"gone":null,"k":"v"}}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var text strings.Builder
			tt.call.Origin, tt.call.Name = from, "f"
			provider.NewRecorder(&text).AddToolCall(&tt.call)
			want := "- when: 'agent == \"a\" and turn == 2 and user == \"it''s\\nme\"'\n  times: 1\n  tool: {name: \"f\", " + tt.want + "\n"
			if diff := cmp.Diff(want, text.String()); diff != "" {
				t.Fatalf("the entry (-want +got):\n%s", diff)
			}
			replay := provider.NewToolReplay(decode(t, text.String()))
			got, err := replay.Answer(t.Context(), from, "f", tt.call.Args)
			if err != nil {
				t.Fatal(err)
			}
			again := provider.ToolCall{Response: got.Response, Error: got.Error, State: got.State}
			recorded := provider.ToolCall{Response: tt.call.Response, Error: tt.call.Error, State: tt.call.State}
			if diff := cmp.Diff(recorded, again); diff != "" {
				t.Errorf("Answer() (-recorded +replayed):\n%s", diff)
			}
			if _, err := replay.Answer(t.Context(), from, "f", tt.call.Args); err == nil || !strings.Contains(err.Error(), "the entry at s.yaml:1:3 answered already") {
				t.Errorf("Answer() again = %v, want that it answered already", err)
			}
		})
	}
}

// The error names the closest entry.
func TestToolReplayMissing(t *testing.T) {
	replay := provider.NewToolReplay(decode(t, "- text: hi\n- when: turn == 9\n  tool: {name: f, args: {a: 1}}\n- when: turn == 1\n  tool: {name: g, args: {a: 1}}\n"))
	for _, tt := range []struct{ name, want string }{
		{"f", "the entry at s.yaml:2:3 is for another message, turn or agent"},
		{"g", `the entry at s.yaml:4:3 has the arguments {"a":1}`},
		{"h", "there is no entry of the tool h"},
	} {
		_, err := replay.Answer(t.Context(), model.Origin{Agent: "a", Turn: 1}, tt.name, map[string]any{"a": 2})
		want := "s.yaml has no answer for this call of " + tt.name + ` by agent "a" in turn 1, with the arguments {"a":2}: ` + tt.want + "; record the conversation again, or add an entry"
		if diff := cmp.Diff(want, errorText(err)); diff != "" {
			t.Errorf("Answer(%s) (-want +got):\n%s", tt.name, diff)
		}
	}
}

func decode(t *testing.T, text string) *provider.Script {
	t.Helper()
	n, ds := spec.Parse("s.yaml", []byte(text))
	script, more := provider.DecodeScript(n)
	if len(ds)+len(more) > 0 {
		t.Fatalf("%v%v in\n%s", ds, more, text)
	}
	return script
}
