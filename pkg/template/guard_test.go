package template

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/expr-lang/expr"
)

// refusalTimeout is far above an evaluation's time limit, and far below the time that the
// expressions would take without limits.
const refusalTimeout = 5 * time.Second

// TestResourceBombs evaluates short expressions that would take very much time or memory.
func TestResourceBombs(t *testing.T) {
	const (
		steps = "the expression exceeds the limit of 262144 steps"
		text  = "the expression builds a string over the limit of 64 KiB"
		texts = "the expression's strings exceed the limit of 4 MiB"
		large = "the expression builds a value that is too large or too deeply nested"
		many  = "the expression exceeds the limit of 262144 list and map elements"
		slow  = "the expression exceeds the time limit of 100ms"
	)
	items := make([]any, 300)
	for i := range items {
		items[i] = int64(i)
	}
	vars := map[string]any{"items": items, "doc": strings.Repeat("a", 1<<20)}
	tests := []struct{ name, src, want string }{
		{"doubling", `len(reduce(1..26, #acc + #acc, "aaaaaaaaaa"))`, text},
		{"doubling for hours", `len(reduce(1..60, #acc + #acc, "aaaaaaaaaa"))`, text},
		{"let chain", buildLetChain(23), text},
		{"many long texts", `len(map(1..1000, repeat("a", 60000)))`, texts},
		{"nested sums", `sum(items, sum(items, sum(items, sum(items, 1))))`, steps},
		{"nested loops without bodies", `sum(map(items, sum(map(items, sum(items)))))`, steps},
		{"replace", `len(replace(repeat("a", 60000), "a", repeat("b", 60000)))`, text},
		{"replace nothing", `len(replace(repeat("a", 60000), "", "bb"))`, text},
		{"repeat", `len(repeat("aaaaaaaaaa", 100000))`, text},
		{"repeat without end", `len(repeat("a", 9223372036854775807))`, text},
		{"join", `len(join(map(1..100, repeat("a", 1000)), ","))`, text},
		{"base64", strings.Repeat("toBase64(", 60) + `"aaaa"` + strings.Repeat(")", 60), text},
		{"upper", `upper(doc)`, text},
		{"split", `len(split(doc, ""))`, steps},
		{"range", `len(1..1000000000)`, many},
		{"lists", `len(map(1..1000, 1..1000))`, many},
		{"equal trees", `reduce(1..60, [#acc, #acc], 0) == reduce(1..60, [#acc, #acc], 0)`, large},
		{"tree in list", `[reduce(1..60, [#acc, #acc], 0)] in [[reduce(1..60, [#acc, #acc], 0)]]`, large},
		{"tree as result", `reduce(1..60, [#acc, #acc], 0)`, large},
		{"tree of maps as result", `reduce(1..60, ({"a": #acc, "b": #acc}), 0)`, large},
		{"tree as text", `len(string(reduce(1..60, [#acc, #acc], 0)))`, large},
		{"tree as JSON", `len(toJSON(reduce(1..60, [#acc, #acc], 0)))`, large},
		{"small tree as JSON", `len(toJSON(reduce(1..12, [#acc, #acc], 0)))`, text},
		{"large list as JSON", `len(json(map(1..100000, 1)))`, text},
		{"trim", `trim(doc, doc)`, steps},
		{"hash of a tree", `hash(reduce(1..60, [#acc, #acc], 0))`, large},
		{"flat tree", `len(flatten(reduce(1..60, [#acc, #acc], 0)))`, large},
		{"least of a tree", `min(reduce(1..60, [#acc, #acc], [1]))`, large},
		{"depth", `reduce(1..1000, [#acc], 0)`, large},
		{"unique", `uniq(1..100000)`, steps},
		{"sort", `map(1..1000, sort(items))`, steps},
		{"pattern", `doc matches "(a?){200}b"`, steps},
		{"pattern of a pattern", `doc matches ("(a?){20" + "0}b")`, steps},
		{"long pattern", `"a" matches repeat("a?", 2000)`, "the pattern exceeds the limit of 1 KiB"},
		{"search in a loop", `count(1..200000, doc contains "b")`, slow},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			start := time.Now()
			e, err := Compile(tt.src, Env{"items": []any{}, "doc": ""})
			if err != nil {
				t.Fatal(err)
			}
			_, err = e.Eval(t.Context(), vars)
			var evalErr *Error
			// A busy machine may reach the time limit before the step limit.
			if !errors.As(err, &evalErr) || evalErr.Msg != tt.want && evalErr.Msg != slow {
				t.Errorf("Eval: %v, want %q", err, tt.want)
			}
			if took := time.Since(start); took > refusalTimeout {
				t.Errorf("failed after %v", took)
			}
		})
	}
}

func buildLetChain(n int) string {
	var src strings.Builder
	src.WriteString(`let a0 = "aaaaaaaaaa"; `)
	for i := 1; i <= n; i++ {
		fmt.Fprintf(&src, "let a%d = a%d + a%d; ", i, i-1, i-1)
	}
	fmt.Fprintf(&src, "len(a%d)", n)
	return src.String()
}

// TestResourceBombsWithoutGuard is the control: the expression library itself
// evaluates the same expressions, so the other tests test the guard.
func TestResourceBombsWithoutGuard(t *testing.T) {
	tests := []struct {
		src  string
		want any
	}{
		{`len(reduce(1..14, #acc + #acc, "aaaaaaaaaa"))`, 10 << 14},
		{buildLetChain(14), 10 << 14},
		{`sum(1..300, sum(1..300, sum(1..10, 1)))`, 300 * 300 * 10},
	}
	for _, tt := range tests {
		t.Run(tt.src, func(t *testing.T) {
			program, err := expr.Compile(tt.src)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := expr.Run(program, nil); err != nil || got != tt.want {
				t.Errorf("Run = %v, %v, want %v", got, err, tt.want)
			}
			guarded, err := Compile(tt.src, nil)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := guarded.Eval(t.Context(), nil); err == nil {
				t.Errorf("Eval = %v, want an error", got)
			}
		})
	}
}

func TestEvalContextCancelled(t *testing.T) {
	e, err := Compile(`sum(1..1000, sum(1..200, 1))`, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = e.Eval(ctx, nil)
	if !errors.Is(err, context.Canceled) || err.Error() != "the evaluation was cancelled" {
		t.Errorf("Eval = %v, want context.Canceled", err)
	}
}

// TestEvalAfterLimitError checks that an expression is usable after an evaluation
// that exceeded a limit.
func TestEvalAfterLimitError(t *testing.T) {
	e, err := Compile(`len(map(1..n, "x"))`, Env{"n": 0})
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{3, 1 << 20, 3} {
		got, err := e.Eval(t.Context(), map[string]any{"n": n})
		if n == 3 && (err != nil || got != int64(3)) || n > 3 && err == nil {
			t.Errorf("Eval(n=%d) = %v, %v", n, got, err)
		}
	}
}

// FuzzExpr checks that every string compiles or is rejected, and that every
// evaluation ends in time, with a JSON value or an error.
func FuzzExpr(f *testing.F) {
	for _, seed := range []string{
		`state.n + 1`, `(state.a?.b ?? 0) >= 8`, `filter(state.tags, # startsWith "a")`, `not (x in [1, "a", nil])`,
		`let a = 1; a ** 2 % 3`, `reduce(1..9, #acc + #acc, "a")`, `sum(1..99, sum(1..99, 1))`, `user matches "a+" + user`,
		`groupBy(state.tags, len(#))[1] | first()`, `{"a": [1.5, -2]}.a[0]`, `redact(json(state)) + string(hash(user))`,
		`fromJSON(user) == toPairs(state)`, `if state.n > 1 { "a" } else { nil }`, `date("2026-01-01").Year()`, `split(user, "")[1:-1]`,
		`sortBy(state.tags, #, "desc") != uniq(flatten([state.tags, [[1]]]))`, `"é" + 'b' + ` + "`c`", `1;2`, `#.x`, `$env`, `a..b`,
		`-9223372036854775808 % 3`, `sum([18446744073709551615, 1e400])`, `sortBy([2, .10000000000000001], # ** 3)`, `1_0e400..2`,
	} {
		f.Add(seed)
	}
	env := Env{"state": map[string]any{}, "user": "", "x": nil}
	vars := map[string]any{
		"state": map[string]any{"n": int64(3), "tags": []any{"a", "bc", nil, 1.5}, "m": map[string]any{"k": true}},
		"user":  "ann@example.org", "x": []any{int64(1)},
	}
	f.Fuzz(func(t *testing.T, src string) {
		start := time.Now()
		e, err := Compile(src, env)
		if err == nil {
			var v any
			if v, err = e.Eval(t.Context(), vars); err == nil && !isJSONValue(v) {
				t.Errorf("Eval(%q) = %T, want a JSON type", src, v)
			}
		}
		if took := time.Since(start); took > refusalTimeout {
			t.Errorf("%q took %v", src, took)
		}
		var e2 *Error
		if err != nil && (!errors.As(err, &e2) || e2.Offset < 0 || e2.Offset > len(src) || e2.Msg == "") {
			t.Errorf("%q: error %#v", src, err)
		}
	})
}

func isJSONValue(v any) bool {
	switch v := v.(type) {
	case nil, bool, string, int64, float64, json.Number:
		return true
	case []any:
		for _, e := range v {
			if !isJSONValue(e) {
				return false
			}
		}
		return true
	case map[string]any:
		for _, e := range v {
			if !isJSONValue(e) {
				return false
			}
		}
		return true
	}
	return false
}
