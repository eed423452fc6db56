package template

import "reflect"

// maxPrintSize bounds what one operation may walk through. Lists made of the same
// list twice, again and again, are small in memory and endless to walk.
const maxPrintSize = 4 << 20

// printSize is about the number of bytes that a value prints to. It stops
// counting behind maxWeight; a value deeper than depth is heavier than that.
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

// printSizeOfOther weighs the lists and maps of other element types that
// functions return.
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
