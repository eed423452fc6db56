package template

import "reflect"

// maxPrintSize limits what one operation may traverse. Lists that repeatedly
// contain the same list twice are small in memory but take exponential time.
const maxPrintSize = 4 << 20

// printSize estimates the number of bytes that a value prints to. It stops
// counting after maxPrintSize, and returns more than that for a value nested
// deeper than depth.
func printSize(v any, depth int) int {
	switch v := v.(type) {
	case string:
		return len(v) + 2
	case []any:
		return printSizeOfList(v, depth-1)
	case map[string]any:
		return printSizeOfMap(v, depth-1)
	case nil, bool, int, int64, float64:
		return 8
	default:
		return printSizeOfOther(reflect.ValueOf(v), depth-1)
	}
}

func printSizeOfList(list []any, depth int) int {
	total := 2
	for _, v := range list {
		if total += printSize(v, depth); depth < 0 || total > maxPrintSize {
			return maxPrintSize + 1
		}
	}
	return total
}

func printSizeOfMap(m map[string]any, depth int) int {
	total := 2
	for k, v := range m {
		if total += len(k) + 4 + printSize(v, depth); depth < 0 || total > maxPrintSize {
			return maxPrintSize + 1
		}
	}
	return total
}

// printSizeOfOther estimates lists and maps of other element types, which
// functions may return.
func printSizeOfOther(v reflect.Value, depth int) int {
	total := 8
	switch v.Kind() {
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			if total += printSize(v.Index(i).Interface(), depth); depth < 0 || total > maxPrintSize {
				return maxPrintSize + 1
			}
		}
	case reflect.Map:
		for it := v.MapRange(); it.Next(); {
			total += printSize(it.Key().Interface(), depth) + printSize(it.Value().Interface(), depth)
			if depth < 0 || total > maxPrintSize {
				return maxPrintSize + 1
			}
		}
	case reflect.String:
		total += v.Len()
	}
	return total
}
