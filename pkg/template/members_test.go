package template

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestUsesOf(t *testing.T) {
	for _, tt := range []struct {
		src  string
		want Uses
	}{
		{`user contains "state.x"`, Uses{}},
		{`"é" + state.a.b`, Uses{Members: []Member{{"a", 13}}}},
		{`state?.a ?? other.state.b`, Uses{Members: []Member{{"a", 7}}}},
		{`state["user:name"] + state.a`, Uses{Members: []Member{{"user:name", 6}, {"a", 27}}}},
		{`"a" in state and not ("b" in state)`, Uses{Members: []Member{{"a", 0}, {"b", 22}}}},
		{`json(state)`, Uses{Whole: true}},
		{`state[user] + state.a`, Uses{Members: []Member{{"a", 20}}, Whole: true}},
		{`any(state.list, .state == 1)`, Uses{Members: []Member{{"list", 10}}}},
		{
			`state.tier == "gold" or 3 != state.n`,
			Uses{Members: []Member{{"tier", 6}, {"n", 35}}, Comparisons: []Comparison{{"tier", "gold", 14}, {"n", 3, 24}}},
		},
		{
			`state.tier in ["a", user] and user == "x" and state.a.b == "c"`,
			Uses{Members: []Member{{"tier", 6}, {"a", 52}}, Comparisons: []Comparison{{"tier", "a", 15}}},
		},
		{`state.`, Uses{}},
	} {
		if diff := cmp.Diff(tt.want, UsesOf(tt.src, "state")); diff != "" {
			t.Errorf("UsesOf(%s) (-want +got):\n%s", tt.src, diff)
		}
	}
}
