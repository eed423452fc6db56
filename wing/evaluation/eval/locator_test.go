package eval_test

import (
	"testing"

	"agenthost/pkg/spec"
	"agenthost/wing/evaluation/eval"
)

// A locator finds keys in either spelling, the first among duplicates, and items; else the
// innermost value on the way. Positions do not depend on their order.
func TestLocatorEitherSpelling(t *testing.T) {
	l := eval.NewLocator("a.json", []byte("{\"ü\": 1, \"evalCases\": [{\"id\": 1},\n  {\"id\": 2, \"eval_id\": 3, \"evalId\": 4}],\n\"last\": true}"))
	for range 2 {
		for _, tt := range []struct {
			path      []any
			line, col int
			member    string
		}{
			{[]any{"last"}, 3, 1, `"last": true`},
			{[]any{"eval_cases", 1, "eval_id"}, 2, 13, `"eval_id": 3`},
			{[]any{"eval_cases", 1}, 2, 3, `{"id": 2, "eval_id": 3, "evalId": 4}`},
			{[]any{"eval_cases", 0, "id"}, 1, 25, `"id": 1`},
			{nil, 1, 1, "{\"ü\": 1, \"evalCases\": [{\"id\": 1},\n  {\"id\": 2, \"eval_id\": 3, \"evalId\": 4}],\n\"last\": true}"},
			{[]any{"eval_cases", 2}, 1, 10, ""},
			{[]any{"eval_cases", -1}, 1, 10, ""},
			{[]any{"eval_cases", "id"}, 1, 10, ""},
			{[]any{"eval_cases", 0, "id", "x"}, 1, 25, ""},
			{[]any{0}, 1, 1, ""},
		} {
			want := spec.Pos{File: "a.json", Line: tt.line, Col: tt.col}
			if got := l.Locate(tt.path...); got != want {
				t.Errorf("position of %v = %v, want %v", tt.path, got, want)
			}
			if got, at := l.Member(tt.path...); string(got) != tt.member || tt.member != "" && at != want {
				t.Errorf("member %v = %s at %v, want %s at %v", tt.path, got, at, tt.member, want)
			}
		}
	}
}

// FuzzLocator: a locator finds a position in any text.
func FuzzLocator(f *testing.F) {
	for _, src := range []string{"", " ", "[", `{"a"`, `{"a": [1, {"b": 2}]}`, "null", "{\"a\":\n"} {
		f.Add(src)
	}
	f.Fuzz(func(t *testing.T, src string) {
		l := eval.NewLocator("a.json", []byte(src))
		for _, path := range [][]any{{"a", 1, "b"}, {0}, {"a"}} {
			if at := l.Locate(path...); at.Line < 1 || at.Col < 1 {
				t.Errorf("position of %v = %v", path, at)
			}
		}
	})
}
