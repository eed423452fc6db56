package template

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

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
		{`1 / 0`, "the result is not a finite number; is there a division by zero?", 0},
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
