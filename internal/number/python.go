package number

import (
	"encoding/json"
	"math"
	"math/big"
	"slices"
)

// EqualInPython reports whether two JSON values are equal in Python: 2 equals 2.0, and true equals
// 1. Numbers may differ by a tolerance.
func EqualInPython(a, b any, tolerance float64) bool {
	if x, ok := pythonNumber(a); ok {
		y, ok := pythonNumber(b)
		return ok && areClose(x, y, tolerance)
	}
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for k, v := range a {
			if w, ok := b[k]; !ok || !EqualInPython(v, w, tolerance) {
				return false
			}
		}
		return true
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, func(v, w any) bool { return EqualInPython(v, w, tolerance) })
	case string:
		b, ok := b.(string)
		return ok && a == b
	default:
		return a == nil && b == nil
	}
}

// pythonNumber returns a number; booleans are 0 and 1.
func pythonNumber(v any) (any, bool) {
	switch v := v.(type) {
	case bool:
		if v {
			return 1.0, true
		}
		return 0.0, true
	case int:
		return int64(v), true
	case json.Number:
		return Parse(string(v)), true
	case float64:
		if Is(v) && math.Abs(v) >= 1<<53 {
			return Parse(big.NewFloat(v).Text('f', 0)), true // an integer
		}
	}
	return v, Is(v)
}

// areClose compares two numbers by their digits, and, with a tolerance, their difference.
func areClose(x, y any, tolerance float64) bool {
	if order, ok := Compare(x, y); ok && order == 0 {
		return true
	}
	if x == y {
		return true // such as exponents that are too large to compare
	}
	difference, err := Compute(x, Minus, y)
	if tolerance == 0 || err != nil {
		return false
	}
	order, ok := Compare(difference, tolerance)
	least, _ := Compare(difference, -tolerance)
	return ok && order <= 0 && least >= 0
}
