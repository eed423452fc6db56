package number

import (
	"maps"
	"reflect"
	"slices"
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
