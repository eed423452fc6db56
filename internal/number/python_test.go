package number

import (
	"encoding/json"
	"testing"
)

// TestEqualInPython: values are equal as in Python.
func TestEqualInPython(t *testing.T) {
	for _, digits := range []string{"9007199254740993", "-9223372036854775808", "18446744073709551615", "1e400", "0.10000000000000001", "1e99999999999"} {
		if v := Parse(digits); !EqualInPython(v, v, 0) || !EqualInPython(v, v, 0.5) || EqualInPython(v, 9007199254740992.0, 0) {
			t.Errorf("%s is not compared by its digits", digits)
		}
	}

	for _, test := range []struct {
		a, b any
		want bool
	}{
		{int64(2), 2.0, true},
		{true, int64(1), true},
		{false, nil, false},
		{"2", int64(2), false},
		{int64(1<<53 + 1), int64(1 << 53), false},
		{json.Number("18446744073709551616"), 18446744073709551616.0, true},
		{[]any{nil, "a"}, []any{nil, "a"}, true},
		{map[string]any{"a": nil}, map[string]any{"b": nil}, false},
	} {
		if got := EqualInPython(test.a, test.b, 0); got != test.want {
			t.Errorf("EqualInPython(%v, %v) = %v, want %v", test.a, test.b, got, test.want)
		}
	}
}
