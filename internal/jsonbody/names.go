package jsonbody

import (
	"slices"
	"strings"
)

// RenameKeys converts a decoded JSON value's keys to camelCase, except for those within free-form
// values, such as the state.
func RenameKeys(v any) any {
	switch v := v.(type) {
	case map[string]any:
		renamed := make(map[string]any, len(v))
		for key, value := range v {
			if !slices.Contains([]string{"state", "args", "response", "stateDelta", "state_delta"}, key) {
				value = RenameKeys(value)
			}
			renamed[toCamelCase(key)] = value
		}
		return renamed
	case []any:
		for i := range v {
			v[i] = RenameKeys(v[i])
		}
	}
	return v
}

func toCamelCase(key string) string {
	words := strings.Split(key, "_")
	for i, word := range words[1:] {
		if word != "" {
			words[i+1] = strings.ToUpper(word[:1]) + word[1:]
		}
	}
	return strings.Join(words, "")
}
