package number

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strconv"
)

// Equal reports whether two values that JSON was decoded to are equal. Numbers are compared
// by [Compare], so 2 equals 2.0.
func Equal(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		return ok && maps.EqualFunc(a, b, Equal)
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, Equal)
	}
	if order, ok := Compare(a, b); ok {
		return order == 0
	}
	return reflect.DeepEqual(a, b)
}

// Key returns a string that equal numbers have in common, and no others. It is "" for a value
// that is not a number; a number whose exponent does not fit is equal to itself only.
func Key(v any) string {
	d, ok := decimalOf(v)
	if !ok {
		text, _ := v.(json.Number)
		return string(text)
	}
	sign := ""
	if d.negative && d.digits != "" {
		sign = "-"
	}
	return sign + d.digits + "e" + strconv.Itoa(d.exponent)
}
