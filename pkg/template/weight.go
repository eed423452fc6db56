package template

import "reflect"

// maxWeight bounds what one operation may walk through. Lists made of the same
// list twice, again and again, are small in memory and endless to walk.
const maxWeight = 4 << 20

// weight is about the number of bytes that a value prints to. It stops
// counting behind maxWeight; a value deeper than depth is heavier than that.
func weight(v any, depth int) int {
	switch v := v.(type) {
	case string:
		return len(v) + 2
	case []any:
		return weightOfList(v, depth-1)
	case map[string]any:
		return weightOfMap(v, depth-1)
	case nil, bool, int, int64, float64:
		return 8
	default:
		return weightOfOther(reflect.ValueOf(v), depth-1)
	}
}

func weightOfList(list []any, depth int) int {
	total := 2
	for _, v := range list {
		if total += weight(v, depth); depth < 0 || total > maxWeight {
			return maxWeight + 1
		}
	}
	return total
}

func weightOfMap(m map[string]any, depth int) int {
	total := 2
	for k, v := range m {
		if total += len(k) + 4 + weight(v, depth); depth < 0 || total > maxWeight {
			return maxWeight + 1
		}
	}
	return total
}

// weightOfOther weighs the lists and maps of other element types that
// functions return.
func weightOfOther(v reflect.Value, depth int) int {
	total := 8
	switch v.Kind() {
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			if total += weight(v.Index(i).Interface(), depth); depth < 0 || total > maxWeight {
				return maxWeight + 1
			}
		}
	case reflect.Map:
		for it := v.MapRange(); it.Next(); {
			total += weight(it.Key().Interface(), depth) + weight(it.Value().Interface(), depth)
			if depth < 0 || total > maxWeight {
				return maxWeight + 1
			}
		}
	case reflect.String:
		total += v.Len()
	}
	return total
}
