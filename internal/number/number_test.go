package number

import (
	"encoding/json"
	"testing"
)

// The first of int64, float64 and json.Number that keeps all digits is chosen.
func TestParseKeepsDigits(t *testing.T) {
	for text, want := range map[string]any{
		"5": int64(5), "-0": int64(0), "9007199254740993": int64(9007199254740993),
		"9223372036854775807": int64(9223372036854775807), "-9223372036854775808": int64(-9223372036854775808),
		"9223372036854775808": json.Number("9223372036854775808"), "18446744073709551615": json.Number("18446744073709551615"),
		"0.1": 0.1, "5.0": 5.0, "1.50": 1.5, "1E3": 1000.0, "5e-324": 5e-324, "0.30000000000000004": 0.30000000000000004,
		"123456789012345.5": 123456789012345.5, "0e999999": 0.0, "0.00000000000000000000": 0.0,
		"9007199254740993.0": json.Number("9007199254740993.0"), "0.10000000000000001": json.Number("0.10000000000000001"),
		"0.123456789012345678901234567890": json.Number("0.123456789012345678901234567890"),
		"1e400":                            json.Number("1e400"), "-1e400": json.Number("-1e400"), "1e-400": json.Number("1e-400"), "3e-324": json.Number("3e-324"),
		"1e99999999999999999999": json.Number("1e99999999999999999999"),
	} {
		if got := Parse(text); got != want {
			t.Errorf("Parse(%s) = %T %v, want %T %v", text, got, got, want, want)
		}
	}
}

// Where an integer is expected, a number without a fraction is one.
func TestParseWhole(t *testing.T) {
	for text, want := range map[string]any{
		"5.0": int64(5), "50e-1": int64(5), "-1.20e2": int64(-120), "0.0": int64(0), "9007199254740993.0": int64(9007199254740993),
		"1e20": json.Number("100000000000000000000"), "5.5": 5.5, "0.10000000000000001": json.Number("0.10000000000000001"),
		"1e400": json.Number("1e400"), "1e2147483647": json.Number("1e2147483647"),
	} {
		if got := ParseWhole(text); got != want {
			t.Errorf("ParseWhole(%s) = %T %v, want %T %v", text, got, got, want, want)
		}
	}
}
