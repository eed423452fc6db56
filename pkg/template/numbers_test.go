package template

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Numbers keep their digits in expressions: integers are computed exactly, numbers are
// compared by their digits, and decimals are floats, as in Go and JavaScript.
func TestNumbersExact(t *testing.T) {
	var (
		maxUint64 = json.Number("18446744073709551615")
		huge      = json.Number("1e400")
		long      = json.Number("0.10000000000000001")
	)
	vars := map[string]any{
		"odd": int64(1<<53 + 1), "even": float64(1 << 53), "least": int64(-1 << 63), "most": int64(1<<63 - 1),
		"big": maxUint64, "huge": huge, "long": long, "list": []any{maxUint64, int64(5), huge}, "text": "18446744073709551615",
	}
	env := Env{}
	for name := range vars {
		env[name] = nil
	}
	for _, tt := range []struct {
		src  string
		want any
	}{
		// Values and literals.
		{`[odd, least, big, huge, long, 0.1, 5]`, []any{int64(1<<53 + 1), int64(-1 << 63), maxUint64, huge, long, 0.1, int64(5)}},
		{`18446744073709551615`, maxUint64},
		{`18_446_744_073_709_551_615`, maxUint64},
		{`-9223372036854775808`, int64(-1 << 63)},
		{`-9223372036854775808 == least`, true},
		{`[1e400, -1e400, .10000000000000001, 1e5]`, []any{huge, json.Number("-1e400"), long, 1e5}},
		{`"é" + string(18446744073709551615)`, "é18446744073709551615"},
		{`{"a": big}.a`, maxUint64},

		// Text.
		{`string(big) + string(huge) + json([long])`, "184467440737095516151e400[0.10000000000000001]"},
		{`fromJSON("[18446744073709551615, 1e400, 0.10000000000000001, 5, 5.0]")`, []any{maxUint64, huge, long, int64(5), 5.0}},
		{`toJSON(big)`, "18446744073709551615"},
		{`hash(big) != hash(18446744073709551616)`, true},

		// Arithmetic.
		{`most + 1`, json.Number("9223372036854775808")},
		{`1 + most - 1`, int64(1<<63 - 1)},
		{`-least`, json.Number("9223372036854775808")},
		{`-huge`, json.Number("-1e400")},
		{`least - 1`, json.Number("-9223372036854775809")},
		{`most * 2 + 1`, maxUint64},
		{`big % 10`, int64(5)},
		{`big / 5`, int64(3689348814741910323)},
		{`2 ** 64 - 1 == big`, true},
		{`3 ^ 2`, int64(9)},
		{`0.1 + 0.2`, 0.30000000000000004},
		{`5 / 2`, 2.5},
		{`odd * 1`, int64(1<<53 + 1)},
		{`sum([most, 1])`, json.Number("9223372036854775808")},
		{`sum(list[:2], # * 2)`, json.Number("36893488147419103240")},
		{`sum([])`, int64(0)},
		{`len(list) * 2 == 6 and 7 % 2 == 1 and -len(list) == 0 - 3`, true},
		{`reduce([most, most], #acc + #)`, json.Number("18446744073709551614")},

		// Comparison.
		{`odd == even`, false},
		{`odd != even`, true},
		{`odd > even`, true},
		{`even == odd - 1`, true},
		{`odd == 9007199254740992.0`, false},
		{`odd in [9007199254740992.0]`, false},
		{`odd in [even]`, false},
		{`big == 18446744073709551615`, true},
		{`big in [18446744073709551615]`, true},
		{`big in list`, true},
		{`big > 5 and 5 < big and huge > big and long > 0.1`, true},
		{`long == 0.1`, false},
		{`[odd] == [even]`, false},
		{`{"a": 5} == {"a": 5.0}`, true},
		{`{"a": 5} == {"b": 5}`, false},
		{`[big] == [big] and [1, 2] == [1.0, 2]`, true},

		// Functions.
		{`[abs(least), abs(-1.5), abs(-big)]`, []any{json.Number("9223372036854775808"), 1.5, maxUint64}},
		{`[round(odd), floor(2.5), ceil(big), round(2.5)]`, []any{int64(1<<53 + 1), 2.0, maxUint64, 3.0}},
		{`[int(text), int(odd), int(2.9), int("5"), int(1e20)]`, []any{maxUint64, int64(1<<53 + 1), int64(2), int64(5), json.Number("100000000000000000000")}},
		{`[float(5), float("0.5")]`, []any{5.0, 0.5}},
		{`[max(list), min(list, 7), max(odd, even)]`, []any{huge, int64(5), int64(1<<53 + 1)}},
		{`[mean([1, 2]), mean([]), median([3, 1, 2]), median([1, 2])]`, []any{1.5, 0.0, int64(2), 1.5}},
		{`median(list)`, maxUint64},
		{`sort([odd, even, 5, big, long])`, []any{long, int64(5), float64(1 << 53), int64(1<<53 + 1), maxUint64}},
		{`sort(["b", "a"], "desc")`, []any{"b", "a"}},
		{`sortBy([{"n": big}, {"n": odd}, {"n": even}], .n)`, []any{map[string]any{"n": float64(1 << 53)}, map[string]any{"n": int64(1<<53 + 1)}, map[string]any{"n": maxUint64}}},
		{`map(sortBy([{"n": 1}, {"n": big}], .n, "desc"), .n)`, []any{maxUint64, int64(1)}},
		{`sortBy([], #)`, []any{}},
		{`uniq([odd, even, 5, 5.0, big, big])`, []any{int64(1<<53 + 1), float64(1 << 53), int64(5), maxUint64}},
		{`[type(big), type(long), type(5)]`, []any{"int", "float", "int"}},
		{`filter(list, # > 5)`, []any{maxUint64, huge}},
	} {
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

// A number that a computation would round is an error that names it.
func TestNumbersNotExact(t *testing.T) {
	vars := map[string]any{"odd": int64(1<<53 + 1), "huge": json.Number("1e400"), "endless": json.Number("1e99999999999"), "text": "1e400"}
	env := Env{"odd": nil, "huge": nil, "endless": nil, "text": nil}
	for src, want := range map[string]string{
		`odd + 0.5`:              "cannot compute with 9007199254740993 as a decimal: it would lose digits",
		`odd / 2`:                "cannot compute with 9007199254740993 as a decimal: it would lose digits",
		`float(odd)`:             "cannot compute with 9007199254740993 as a decimal: it would lose digits",
		`sum([odd, 0.5])`:        "cannot compute with 9007199254740993 as a decimal: it would lose digits",
		`mean([odd, 0])`:         "cannot compute with 9007199254740993 as a decimal: it would lose digits",
		`huge * 2`:               "cannot compute with 1e400 as a decimal: it would lose digits",
		`round(huge)`:            "cannot compute with 1e400 as a decimal: it would lose digits",
		`int(huge)`:              "cannot compute with 1e400 as a decimal: it would lose digits",
		`float(text)`:            "cannot compute with 1e400 as a decimal: it would lose digits",
		`0.10000000000000001*2`:  "cannot compute with 0.10000000000000001 as a decimal: it would lose digits",
		`1e300 * 1e300`:          "the result exceeds the range of a number",
		`10 ** 500`:              "the result exceeds the limit of 400 digits",
		`endless > 1`:            "cannot compare 1e99999999999 and 1",
		`5 % 0`:                  "division by zero",
		`0.5 / 0.0`:              "division by zero",
		`huge % 2`:               "% requires integers",
		`(0 - odd)..odd`:         "a range cannot start or end at -9007199254740993",
		`1..huge`:                "a range cannot start or end at 1e400",
		`max("a")`:               "max does not take a string",
		`max([nil])`:             "max does not take nil",
		`huge + text`:            "+ does not work on a number and a string",
		`huge < text`:            "< does not work on a number and a string",
		`sort([1], "up")`:        "the order must be asc or desc, got up",
		`float("inf")`:           "the result is not a finite number; is there a division by zero?",
		`1 18446744073709551615`: "unexpected 18446744073709551615",
	} {
		t.Run(src, func(t *testing.T) {
			e, err := Compile(src, env)
			var got any
			if err == nil {
				got, err = e.Eval(t.Context(), vars)
			}
			var failed *Error
			if !errors.As(err, &failed) || failed.Msg != want {
				t.Errorf("Eval = %v, %v, want %q", got, err, want)
			}
		})
	}
}
