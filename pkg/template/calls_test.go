package template

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCalls(t *testing.T) {
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
