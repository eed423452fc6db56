package number

import (
	"encoding/json"
	"math"
	"math/big"
	"testing"

	"pgregory.net/rapid"
)

// Numbers are compared by their digits, whatever their types are.
func TestCompareByDigits(t *testing.T) {
	ascending := []string{
		"-1e400", "-18446744073709551615", "-9223372036854775808", "-1.5", "-5e-324", "0.0", "1e-400", "0.1", "0.10000000000000001", "1", "1.5", "10",
		"9007199254740992", "9007199254740993", "9007199254740993.5", "18446744073709551615", "1e20", "123456789012345678901234567890", "1e400", "1e2147483647",
	}
	for i, a := range ascending {
		for j, b := range ascending {
			want := 0
			if i != j {
				want = map[bool]int{true: -1, false: 1}[i < j]
			}
			if got, ok := Compare(Parse(a), Parse(b)); got != want || !ok {
				t.Errorf("Compare(%s, %s) = %d, %t", a, b, got, ok)
			}
		}
	}
	for _, v := range []any{"1", nil, math.NaN(), math.Inf(1), json.Number("1e99999999999")} {
		if _, ok := Compare(v, int64(1)); ok {
			t.Errorf("%v can be compared", v)
		}
	}
}

// Integers are computed exactly; a number that a float would round is an error.
func TestComputeExactly(t *testing.T) {
	for _, tt := range []struct {
		a    string
		op   Operator
		b    string
		want any
	}{
		{"9223372036854775807", '+', "1", json.Number("9223372036854775808")},
		{"-9223372036854775808", '-', "1", json.Number("-9223372036854775809")},
		{"-9223372036854775808", '*', "-1", json.Number("9223372036854775808")},
		{"18446744073709551615", '-', "18446744073709551614", int64(1)},
		{"0.1", '+', "0.2", 0.30000000000000004},
		{"2", '*', "1.5", 3.0},
		{"9007199254740993", '+', "0.5", "cannot compute with 9007199254740993 as a decimal: it would lose digits"},
		{"1e400", '+', "1", "cannot compute with 1e400 as a decimal: it would lose digits"},
		{"0.10000000000000001", '*', "2", "cannot compute with 0.10000000000000001 as a decimal: it would lose digits"},
		{"18446744073709551614", '/', "2", int64(9223372036854775807)},
		{"7", '/', "2", 3.5},
		{"7", '/', "0", "division by zero"},
		{"0.5", '/', "0.0", "division by zero"},
		{"9007199254740993", '/', "2", "cannot compute with 9007199254740993 as a decimal: it would lose digits"},
		{"18446744073709551615", '%', "10", int64(5)},
		{"-9223372036854775808", '%', "-1", int64(0)},
		{"7.0", '%', "4", int64(3)},
		{"7.5", '%', "4", "% requires integers"},
		{"7", '%', "0.0", "division by zero"},
		{"2", '^', "64", json.Number("18446744073709551616")},
		{"-1", '^', "18446744073709551615", int64(-1)},
		{"2", '^', "-1", 0.5},
		{"4", '^', "0.5", 2.0},
		{"10", '^', "18446744073709551615", "the result exceeds the limit of 400 digits"},
		{"10", '^', "400", "the result exceeds the limit of 400 digits"},
		{"1e300", '*', "1e300", "the result exceeds the range of a number"},
	} {
		got, err := Compute(Parse(tt.a), tt.op, Parse(tt.b))
		if err != nil {
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("%s %c %s = %v, want %v", tt.a, tt.op, tt.b, got, tt.want)
		}
	}
}

// A number is negated with all its digits.
func TestNegateKeepsDigits(t *testing.T) {
	for _, texts := range [][2]string{
		{"5", "-5"},
		{"-9223372036854775808", "9223372036854775808"},
		{"9223372036854775808", "-9223372036854775808"},
		{"0.1", "-0.1"},
		{"1e400", "-1e400"},
		{"-0.10000000000000001", "0.10000000000000001"},
	} {
		if got, want := Negate(Parse(texts[0])), Parse(texts[1]); got != want {
			t.Errorf("Negate(%s) = %T %v, want %v", texts[0], got, got, want)
		}
	}
}

// The fast path of int64 gives what big integers give.
func TestComputeIntegers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		edges := rapid.SampledFrom([]int64{math.MinInt64, math.MinInt64 + 1, -1, 0, 1, math.MaxInt64, 3037000500})
		values := rapid.OneOf(edges, rapid.Int64())
		a, b := values.Draw(t, "a"), values.Draw(t, "b")
		op := rapid.SampledFrom([]Operator{Plus, Minus, Times}).Draw(t, "op")
		want, _ := computeIntegers(big.NewInt(a), op, big.NewInt(b))
		if got, err := Compute(a, op, b); err != nil || got != want {
			t.Fatalf("%d %c %d = %v, %v, want %v", a, op, b, got, err, want)
		}
	})
}
