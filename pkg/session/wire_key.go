package session

import (
	"bytes"
	"reflect"
	"strings"
)

// wireName returns the key of a field. Fields without a tag are those of
// civil.Date.
func wireName(f reflect.StructField) string {
	tag, ok := strings.CutPrefix(string(f.Tag), `json:"`)
	if !ok {
		return strings.ToLower(f.Name)
	}
	tag, _, _ = strings.Cut(tag, `"`)
	name, _, _ := strings.Cut(tag, ",")
	return name
}

func fieldNamed(t reflect.Type, name []byte) int {
	for i := range t.NumField() {
		if wire := wireName(t.Field(i)); wire == string(name) && wire != "-" {
			return i
		}
	}
	return -1
}

// camelCase converts a snake_case key; it returns any other key unchanged. A
// result of the same length is the key itself.
func camelCase(key []byte) []byte {
	if bytes.IndexByte(key, '_') < 0 || !isSnakeCase(key) {
		return key
	}
	name := make([]byte, 0, len(key))
	for i, c := range key {
		switch {
		case c == '_':
		case i > 0 && key[i-1] == '_' && 'a' <= c && c <= 'z':
			name = append(name, c-'a'+'A')
		default:
			name = append(name, c)
		}
	}
	return name
}

// isSnakeCase reports keys of lower case letters and digits with single
// underscores between them.
func isSnakeCase(key []byte) bool {
	last := byte('_')
	for _, c := range key {
		small := 'a' <= c && c <= 'z' || '0' <= c && c <= '9'
		if !small && (c != '_' || last == '_') {
			return false
		}
		last = c
	}
	return last != '_'
}

// fieldNames returns the JSON keys of a struct.
func fieldNames(t reflect.Type) []string {
	names := make([]string, t.NumField())
	for i := range names {
		names[i] = wireName(t.Field(i))
	}
	return names
}
