package jsonschema

import (
	"encoding/json"
	"strconv"
	"strings"

	"agenthost/internal/number"
)

// keyOf returns a string that equal values have in common, and no others: 1 and 1.0 are equal, and
// objects have no order.
func keyOf(v any) string {
	var key strings.Builder
	writeKey(&key, v)
	return key.String()
}

func writeKey(key *strings.Builder, v any) {
	switch v := v.(type) {
	case nil:
		key.WriteByte('n')
	case bool:
		key.WriteString(strconv.FormatBool(v))
	case string:
		key.WriteByte('s')
		writeSized(key, v)
	case []any:
		key.WriteByte('[')
		for _, item := range v {
			writeKey(key, item)
		}
		key.WriteByte(']')
	case map[string]any:
		key.WriteByte('{')
		for _, name := range sortedNames(v) {
			writeSized(key, name)
			writeKey(key, v[name])
		}
		key.WriteByte('}')
	default:
		key.WriteByte('#')
		writeSized(key, number.Key(v))
	}
}

// writeSized writes a string after its length, so that no other string continues it.
func writeSized(key *strings.Builder, text string) {
	key.WriteString(strconv.Itoa(len(text)))
	key.WriteByte(':')
	key.WriteString(text)
}

// countSteps returns the steps that a value's key costs.
func countSteps(v any) int {
	n := 1
	switch v := v.(type) {
	case string:
		n += len(v) / bytesPerStep
	case json.Number:
		n += len(v) / bytesPerStep
	case []any:
		for _, item := range v {
			n += countSteps(item)
		}
	case map[string]any:
		for name, item := range v {
			n += 1 + len(name)/bytesPerStep + countSteps(item)
		}
	}
	return n
}

// findEqual returns the places of two equal items; the second is the first item that equals an
// earlier one. j is 0 if there are none.
func findEqual(list []any) (i, j int) {
	seen := make(map[string]int, len(list))
	for j, v := range list {
		key := keyOf(v)
		if i, ok := seen[key]; ok {
			return i, j
		}
		seen[key] = j
	}
	return 0, 0
}
