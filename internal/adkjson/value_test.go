package adkjson

import (
	"math"
	"testing"
)

// A plain value can be encoded, and one that is nested beyond the limit, or that has no
// JSON form, is not plain.
func TestIsPlain(t *testing.T) {
	nest := func(levels int) any {
		v := any("x")
		for i := range levels {
			if i%2 == 0 {
				v = []any{v}
			} else {
				v = map[string]any{"k": v}
			}
		}
		return v
	}
	loop := map[string]any{}
	loop["a"], loop["b"] = loop, loop
	for _, tt := range []struct {
		name string
		v    any
		want bool
	}{
		{"common types", map[string]any{"a": []any{nil, "b", true, 5, int64(5), 0.5}}, true},
		{"deepest", nest(MaxDepth), true},
		{"too deep", nest(MaxDepth + 1), false},
		{"cycle", loop, false},
		{"not a number", []any{math.NaN()}, false},
		{"infinite", []any{math.Inf(-1)}, false},
		{"function", []any{func() {}}, false},
		{"struct", struct{}{}, false},
	} {
		if got := IsPlain(tt.v); got != tt.want {
			t.Errorf("IsPlain(%s) = %v, want %v", tt.name, got, tt.want)
		}
		w := &Encoder{}
		if tt.want {
			if w.WriteValue(tt.v); w.Err != nil {
				t.Errorf("%s is plain, and encoding it fails: %v", tt.name, w.Err)
			}
		}
	}
}
