package number

import (
	"encoding/json"
	"testing"
)

// Decoded JSON is equal if its numbers have the same digits, whatever their types are.
func TestEqualByDigits(t *testing.T) {
	one := map[string]any{"n": []any{int64(2), 0.1, json.Number("1e400"), int64(9007199254740993), nil, "2"}}
	for _, tt := range []struct {
		b    any
		want bool
	}{
		{map[string]any{"n": []any{2.0, json.Number("0.10"), json.Number("10e399"), json.Number("9007199254740993"), nil, "2"}}, true},
		{map[string]any{"n": []any{2.0, 0.1, json.Number("1e400"), 9007199254740992.0, nil, "2"}}, false},
		{map[string]any{"n": []any{2.0, 0.1, json.Number("1e401"), int64(9007199254740993), nil, "2"}}, false},
		{map[string]any{"n": []any{2.0, 0.1, json.Number("1e400"), int64(9007199254740993), nil, int64(2)}}, false},
		{map[string]any{"n": []any{}}, false},
		{map[string]any{"m": one["n"]}, false},
		{nil, false},
	} {
		if got := Equal(one, tt.b); got != tt.want {
			t.Errorf("Equal(%v, %v) = %t", one, tt.b, got)
		}
	}
	if n := json.Number("1e99999999999"); !Equal(n, n) || Equal(n, int64(1)) {
		t.Error("a number that is too large to compare does not equal only itself")
	}
}
