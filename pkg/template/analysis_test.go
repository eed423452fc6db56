package template

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCallsInSourceOrder(t *testing.T) {
	for _, tt := range []struct {
		src  string
		want []Call
	}{
		{`"plain"`, []Call{}},
		{`file("a.md")`, []Call{{"a.md", true, 0}}},
		{`"é" + file("a") + inject(file('b'))`, []Call{{"a", true, 7}, {"b", true, 26}}},
		{`file(x ? "a" : "b")`, []Call{{"", false, 0}}},
		{`"a" | file()`, []Call{{"a", true, 6}}},
		{`let f = file; f("a")`, []Call{{"", false, 8}}},
		{`file(`, nil},
	} {
		if diff := cmp.Diff(tt.want, Calls(tt.src, "file")); diff != "" {
			t.Errorf("Calls(%s) (-want +got):\n%s", tt.src, diff)
		}
	}
}

func TestUsesOf(t *testing.T) {
	for _, tt := range []struct {
		src  string
		want Uses
	}{
		{`user contains "state.x"`, Uses{}},
		{`"é" + state.a.b`, Uses{Members: []Member{{"a", 13, false}}}},
		{`state?.a ?? other.state.b`, Uses{Members: []Member{{"a", 7, true}}}},
		{`state["user:name"] + state.a`, Uses{Members: []Member{{"user:name", 6, false}, {"a", 27, false}}}},
		{`"a" in state and not ("b" in state)`, Uses{Members: []Member{{"a", 0, true}, {"b", 22, true}}}},
		{`json(state)`, Uses{Whole: true}},
		{`state[user] + state.a`, Uses{Members: []Member{{"a", 20, false}}, Whole: true}},
		{`any(state.list, .state == 1)`, Uses{Members: []Member{{"list", 10, false}}}},
		{
			`state.tier == "gold" or 3 != state.n`,
			Uses{Members: []Member{{"tier", 6, false}, {"n", 35, false}}, Comparisons: []Comparison{{"tier", "gold", 14}, {"n", 3, 24}}},
		},
		{
			`state.tier in ["a", user] and user == "x" and state.a.b == "c"`,
			Uses{Members: []Member{{"tier", 6, false}, {"a", 52, false}}, Comparisons: []Comparison{{"tier", "a", 15}}},
		},
		{`(state.a.b ?? 0) > state.c and nil != state.d`, Uses{Members: []Member{{"a", 7, true}, {"c", 25, false}, {"d", 44, true}}}},
		{`state.`, Uses{}},
	} {
		if diff := cmp.Diff(tt.want, UsesOf(tt.src, "state")); diff != "" {
			t.Errorf("UsesOf(%s) (-want +got):\n%s", tt.src, diff)
		}
	}
}
