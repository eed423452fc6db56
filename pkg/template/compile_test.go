package template

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func testVariables() (Env, map[string]any) {
	env := Env{
		"state":  map[string]any{},
		"args":   map[string]any{},
		"tool":   Env{"name": "", "args": nil},
		"user":   "",
		"now":    time.Time{},
		"inject": func(string) (string, error) { return "", nil },
	}
	vars := map[string]any{
		"state": map[string]any{
			"n": int64(3), "intent": "refund", "tags": []any{"a", "b"}, "done": true, "score": nil,
			"user:name": "Ann", "deep": map[string]any{"z": int64(1), "a": []any{int64(2)}},
		},
		"args":   map[string]any{"net": 12.5, "sides": 6.0, "n": 2.0},
		"tool":   map[string]any{"name": "refund"},
		"user":   "please refund",
		"now":    time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC),
		"inject": func(s string) (string, error) { return "<" + s + ">", nil },
	}
	return env, vars
}

func TestEvalOperatorsAndFunctions(t *testing.T) {
	tests := []struct {
		src  string
		want any
	}{
		// Members.
		{`state.n`, int64(3)},
		{`state["user:name"]`, "Ann"},
		{`state.missing`, nil},
		{`state.missing.a.b[0].c`, nil},
		{`(state.missing).a`, nil},
		{`state?.missing?.a ?? "d"`, "d"},
		{`(state.score ?? 0) >= 8`, false},
		{`state.tags[0]`, "a"},
		{`state.tags[-1]`, "b"},
		{`get(state.tags, 5)`, nil},
		{`tool.args.x`, nil},

		// Numbers.
		{`state.n + 1`, int64(4)},
		{`state.n == 3`, true},
		{`state.n == 3.0`, true},
		{`state.n in [1, 2, 3]`, true},
		{`round(args.net * 21) / 100`, 2.63},
		{`state.n % 2`, int64(1)},
		{`7 % args.n`, int64(1)},
		{`args.sides % 4 + 1`, int64(3)},
		{`take(state.tags, args.n - 1)`, []any{"a"}},
		{`sum([1, 2.5])`, 3.5},
		{`max(state.n, 5)`, int64(5)},
		{`-state.n`, int64(-3)},
		{`state.n / 2`, 1.5},
		{`state.n ** 2`, int64(9)},

		// Truth: nil is false.
		{`not state.flag`, true},
		{`state.flag or state.done`, true},
		{`state.flag ? 1 : 2`, int64(2)},
		{`if state.done { "y" } else { "n" }`, "y"},
		{`count([{"on": true}, {}], .on)`, int64(1)},
		{`state.intent == "refund" and state.tier == "gold"`, false},
		{`state.draft != nil`, false},

		// Texts.
		{`user contains "refund"`, true},
		{`user + "!"`, "please refund!"},
		{`user matches "^p.*d$"`, true},
		{`user matches state.intent`, true},
		{`state.missing matches "x"`, false},
		{`string(nil) + string(2.0) + string(state.deep)`, `2{"a":[2],"z":1}`},
		{`join(state.tags, ", ")`, "a, b"},
		{`repeat("ab", 3)`, "ababab"},
		{`replace("a.b.c", ".", "")`, "abc"},
		{`trim(" a ")`, "a"},
		{`trim("xax", "x")`, "a"},
		{`split("a b", " ")`, []any{"a", "b"}},
		{`inject("{x}") + upper("a")`, "<{x}>A"},

		// Lists and maps.
		{`filter(1..5, # > state.n)`, []any{int64(4), int64(5)}},
		{`map(state.tags, # + "!")`, []any{"a!", "b!"}},
		{`reduce(1..4, #acc + #)`, int64(10)},
		{`any(state.tags, # == "b")`, true},
		{`"a" in state.tags`, true},
		{`"n" in state`, true},
		{`state.tags == ["a", "b"]`, true},
		{`state.tags != ["a", "b"]`, false},
		{`[1] in [[1], [2]]`, true},
		{`keys({"b": 1, "a": 2})`, []any{"a", "b"}},
		{`values({"b": 1, "a": 2})`, []any{int64(2), int64(1)}},
		{`toPairs({"b": 1, "a": 2})`, []any{[]any{"a", int64(2)}, []any{"b", int64(1)}}},
		{`groupBy(1..3, # % 2)`, map[string]any{"0": []any{int64(2)}, "1": []any{int64(1), int64(3)}}},
		{`sortBy(state.tags, #, "desc")`, []any{"b", "a"}},
		{`uniq([1, 1, 2])`, []any{int64(1), int64(2)}},
		{`flatten([[1], [2]])`, []any{int64(1), int64(2)}},
		{`{"k": [state.n, nil]}`, map[string]any{"k": []any{int64(3), nil}}},
		{`let a = state.n; a * 2`, int64(6)},
		{`state.tags | len()`, int64(2)},

		// JSON.
		{`json(state.deep)`, `{"a":[2],"z":1}`},
		{`fromJSON('{"a": 7}').a % 4`, int64(3)},

		{`toJSON([1])`, "[\n  1\n]"},
		{`redact("a@b.c")`, "[email]"},

		// Hashes stay the same, in every version.
		{`hash("a")`, int64(7464466379372783)},
		{`hash(2) == hash(2.0)`, true},
		{`hash({"a": 1, "b": 2}) == hash({"b": 2, "a": 1})`, true},
		{`hash("x") % args.sides + 1`, int64(3)},

		// Times.
		{`now.Hour()`, int64(15)},
		{`now > date("2026-01-01")`, true},
		{`now - date("2026-01-02")`, "15h4m5s"},
		{`now`, "2026-01-02T15:04:05Z"},
	}
	env, vars := testVariables()
	for _, tt := range tests {
		t.Run(tt.src, func(t *testing.T) {
			e, err := Compile(tt.src, env)
			if err != nil {
				t.Fatal(err)
			}
			got, err := e.Eval(t.Context(), vars)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("Eval (-want +got):\n%s", diff)
			}
		})
	}
}

func TestBoolNilIsFalse(t *testing.T) {
	env, vars := testVariables()
	tests := []struct {
		src     string
		want    bool
		wantErr string
	}{
		{src: `state.done`, want: true},
		{src: `state.flag`},
		{src: `state.n > 2`, want: true},
		{src: `state.tags == state.tags`, want: true},
		{src: `state.n`, wantErr: "the expression must be a boolean, got a number"},
		{src: `user`, wantErr: "the expression must be a boolean, got a string"},
		{src: `1`, wantErr: "the expression must be a boolean, got a number"},
	}
	for _, tt := range tests {
		t.Run(tt.src, func(t *testing.T) {
			got, err := compileAndEvalBool(t.Context(), tt.src, env, vars)
			if message(err) != tt.wantErr || got != tt.want {
				t.Errorf("Bool = %v, %v, want %v, %q", got, err, tt.want, tt.wantErr)
			}
		})
	}
}

func compileAndEvalBool(ctx context.Context, src string, env Env, vars map[string]any) (bool, error) {
	e, err := CompileBool(src, env)
	if err != nil {
		return false, err
	}
	return e.Bool(ctx, vars)
}

func message(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// members is a variable with members that is not a map.
type members map[string]any

func (m members) All() map[string]any { return m }

func (members) Danger() string { return "called" }

func TestEvalVariables(t *testing.T) {
	env := Env{"v": nil}
	tests := []struct {
		name string
		src  string
		v    any
		want any
	}{
		{"missing", `v`, nil, nil},
		{"members", `v.a + 1`, members{"a": int64(1)}, int64(2)},
		{"no members", `v.a.b`, members(nil), nil},
		{"whole json.Number", `v + 1`, json.Number("41"), int64(42)},
		{"json.Number", `v * 2`, json.Number("1.25"), 2.5},
		{"other map", `v.a`, map[string]string{"a": "b"}, "b"},
		{"other list", `v[1]`, []string{"a", "b"}, "b"},
		{"other integer", `v == 3 ? v : 0`, uint8(3), int64(3)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e, err := Compile(tt.src, env)
			if err != nil {
				t.Fatal(err)
			}
			got, err := e.Eval(t.Context(), map[string]any{"v": tt.v, "unknown": 1})
			if diff := cmp.Diff(tt.want, got); diff != "" || err != nil {
				t.Errorf("Eval: %v (-want +got):\n%s", err, diff)
			}
		})
	}
}

// TestCompileMethodCall checks that methods on values cannot be called.
func TestCompileMethodCall(t *testing.T) {
	for _, src := range []string{`v.Danger()`, `let f = v.Danger; f()`, `v?.Danger()`, `get(v, "Danger")()`} {
		t.Run(src, func(t *testing.T) {
			_, err := Compile(src, Env{"v": nil})
			if err == nil {
				t.Error("Compile succeeded")
			}
		})
	}
}

func TestEvalCopiesResult(t *testing.T) {
	env, vars := testVariables()
	e, err := Compile(`state.deep`, env)
	if err != nil {
		t.Fatal(err)
	}
	got, err := e.Eval(t.Context(), vars)
	if err != nil {
		t.Fatal(err)
	}
	got.(map[string]any)["z"] = "changed"
	if z, _ := Dig(vars, "state.deep.z"); z != int64(1) {
		t.Errorf("the variable changed to %v with the result", z)
	}
}

func TestEvalFunctionError(t *testing.T) {
	env, vars := testVariables()
	e, err := Compile(`1 == 2 or inject("x") == ""`, env)
	if err != nil {
		t.Fatal(err)
	}
	missing := &MissingError{Ref: Ref{Name: "x"}}
	vars["inject"] = func(string) (string, error) { return "", missing }
	_, err = e.Eval(t.Context(), vars)
	if !errors.Is(err, missing) || err.Error() != missing.Error() {
		t.Errorf("Eval = %v, want the function's error", err)
	}
}

func TestEvalConcurrent(t *testing.T) {
	e, err := Compile(`join(map(1..n, string(# * n)), ",")`, Env{"n": 0})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for n := range 8 {
		wg.Go(func() {
			var want []string
			for i := 1; i <= n; i++ {
				want = append(want, fmt.Sprint(i*n))
			}
			for range 200 {
				got, err := e.Eval(t.Context(), map[string]any{"n": n})
				if err != nil || got != strings.Join(want, ",") {
					t.Errorf("Eval(n=%d) = %v, %v, want %v", n, got, err, want)
					return
				}
			}
		})
	}
	wg.Wait()
}

func TestCompileErrors(t *testing.T) {
	tests := []struct {
		src, want string
		offset    int
	}{
		{``, "the expression is empty", 0},
		{`  `, "the expression is empty", 0},
		{`state.n ==`, "the expression ends too early", 9},
		{`state.n = 3`, "= does not compare; write ==", 8},
		{`(1 + 2`, "the expression ends too early", 5},
		{`1 2`, "unexpected 2", 2},
		{`"abc`, "the string has no closing quote", 4},
		{`stat.n`, "unknown name stat; did you mean state?", 0},
		{`"é" + usr`, "unknown name usr; did you mean user?", 7},
		{`suer`, "unknown name suer; did you mean user?", 0},
		{`nwo()`, "unknown function nwo; did you mean now?", 0},
		{`user contains refund`, `unknown name refund; strings need quotes: "refund"`, 14},
		{`state.x == gold`, `unknown name gold; strings need quotes: "gold"`, 11},
		{`state.x == usr`, "unknown name usr; did you mean user?", 11},
		{`state.n ?? 3 > 2`, "?? mixed with > needs parentheses, as in (a ?? b) > c", 13},
		{`zzzzzz`, "unknown name zzzzzz", 0},
		{`state.x == null`, "unknown name null; did you mean nil?", 11},
		{`state.x == True`, "unknown name True; did you mean true?", 11},
		{`fliter(state.tags, true)`, "unknown function fliter; did you mean filter?", 0},
		{`now2()`, "unknown function now2; did you mean now?", 0},
		{`tool.nme`, "unknown member nme; did you mean name?", 5},
		{`user.x`, "a string has no member x", 5},
		{`user + 1`, "+ does not work on a string and a number", 5},
		{`-user`, "- does not work on a string", 0},
		{`upper(3)`, "upper takes a string, not a number", 6},
		{`upper(nil)`, "upper takes a string, not nil", 6},
		{`upper()`, "upper needs more arguments", 0},
		{`upper("a", "b")`, "upper takes fewer arguments", 0},
		{`len(3)`, "len does not take a number", 0},
		{`filter(3, true)`, "filter takes a list, not a number", 7},
		{`filter([1], 3)`, "the condition must be a boolean, got a number", 12},
		{`1 ? 2 : 3`, "the condition must be a boolean, got a number", 0},
		{`5 in state`, "map keys must be strings, got a number", 2},
		{`"a" in [1]`, "the list cannot contain a string", 4},
		{`#`, "unexpected #", 0},
		{`duration`, "duration is a function; call it as duration(…)", 0},
		{`state.x ? upper : 1`, "upper is a function; call it as upper(…)", 10},
		{`let user = 1; user`, "user is already defined; choose another name", 4},
		{`user matches "("`, "error parsing regexp: missing closing ): `(`", 5},
		{`$env`, "$env is not available; refer to the names directly", 0},
		{`state.f()`, "only functions can be called", 6},
		{`let f = upper; f("a")`, "only functions can be called", 15},
		{`timezone("UTC")`, "unknown function timezone", 0},
		{`now()`, "only functions can be called", 0},
		{strings.Repeat("1 + ", 300) + "1", "the expression exceeds the limit of 500 syntax nodes", 1002},
		{strings.Repeat("(", maxSource+1), "the expression exceeds the limit of 16 KiB", 0},
	}
	env, _ := testVariables()
	for _, tt := range tests {
		t.Run(fmt.Sprintf("%.40s", tt.src), func(t *testing.T) {
			_, err := Compile(tt.src, env)
			var e *Error
			if !errors.As(err, &e) || e.Msg != tt.want || e.Offset != tt.offset {
				t.Errorf("Compile(%.60q) = %#v, want %q at %d", tt.src, err, tt.want, tt.offset)
			}
		})
	}
}

func TestEvalErrors(t *testing.T) {
	tests := []struct {
		src, want string
		offset    int
	}{
		{`state.n.x`, "a number has no member x", 8},
		{`state.intent.x`, "a string or a list has no member x", 13},
		{`state.tags.x == 1`, "a string or a list has no member x", 11},
		{`state.tags[5]`, "there is no element 5; the list has 2", 10},
		{`state.n + user`, "+ does not work on a number and a string", 8},
		{`1 + state.x`, "+ does not work on a number and nil", 2},
		{`state.x < 3`, "< does not work on nil and a number", 8},
		{`-state.x`, "- does not work on nil", 0},
		{`upper(state.n)`, "expected a string, got a number", 0},
		{`state.n and true`, "expected a boolean, got a number", 6},
		{`len(state.x)`, "len does not take nil", 0},
		{`filter(state.x, true)`, "expected a list, got nil", 13},
		{`map(state.deep, #)`, "expected a list, got a map", 10},
		{`keys(state.tags)`, "expected a map, got a list", 0},
		{`user matches state.n`, "expected a pattern, got a number", 5},
		{`state.n matches "x"`, "expected a string, got a number", 8},
		{`user matches "(" + ""`, "error parsing regexp: missing closing ): `(`", 5},
		{`1 in state.n`, "the right operand of in must be a list or a map, got a number", 2},
		{`5 % (state.n - 3)`, "division by zero", 2},
		{`args.net % 2`, "% requires integers", 9},
		{`1 / 0`, "division by zero", 2},
		{`int("x")`, "x is not an integer", 0},
		{`float("x")`, "x is not a number", 0},
		{`fromJSON("{")`, "fromJSON: invalid JSON", 0},
		{`fromJSON("1 2")`, "fromJSON: unexpected data after the JSON value", 0},
		{`take(state.tags, args.net)`, "take requires an integer", 0},
		{`inject`, "the result must be a JSON value, got a function", 0},
	}
	env, vars := testVariables()
	for _, tt := range tests {
		t.Run(tt.src, func(t *testing.T) {
			e, err := Compile(tt.src, env)
			if err != nil {
				t.Fatal(err)
			}
			got, err := e.Eval(t.Context(), vars)
			var failed *Error
			if !errors.As(err, &failed) || failed.Msg != tt.want || failed.Offset != tt.offset {
				t.Errorf("Eval = %v, %#v, want %q at %d", got, err, tt.want, tt.offset)
			}
		})
	}
}
