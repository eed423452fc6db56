package server

import (
	"bytes"
	"encoding/json"
	"slices"
	"unicode/utf8"
)

// jsonSpace is what may stand between the parts of a JSON text.
const jsonSpace = " \t\r\n"

// A field is a key of a JSON object, without escapes, with its value as it was
// written.
type field struct {
	key   []byte
	value json.RawMessage
}

// appendFields cuts an object, which is valid JSON, into its fields. The last of
// those with the same key counts. Each request is cut once, and most of its values
// are read by somebody who knows what they are: encoding/json would copy them all.
func appendFields(all []field, text []byte) []field {
	text = bytes.TrimLeft(text, jsonSpace)[1:]
	for {
		text = bytes.TrimLeft(text, jsonSpace+",")
		if text[0] == '}' {
			return all
		}
		end := valueLength(text)
		key := decodeKey(text[:end])
		text = bytes.TrimLeft(text[end:], jsonSpace+":")
		end = valueLength(text)
		f := field{key, text[:end:end]}
		if i := slices.IndexFunc(all, func(f field) bool { return bytes.Equal(f.key, key) }); i >= 0 {
			all[i] = f
		} else {
			all = append(all, f)
		}
		text = text[end:]
	}
}

// valueLength is the length of the value that a text begins with.
func valueLength(text []byte) int {
	depth := 0
	for i := 0; ; i++ {
		switch text[i] {
		case '"':
			i += stringLength(text[i:]) - 1
			if depth == 0 {
				return i + 1
			}
		case '{', '[':
			depth++
		case '}', ']':
			switch depth {
			case 0:
				return i // of what is around it
			case 1:
				return i + 1
			}
			depth--
		case ',', ' ', '\t', '\r', '\n':
			if depth == 0 {
				return i
			}
		}
	}
}

// stringLength is the length of the string that a text begins with.
func stringLength(text []byte) int {
	for i := 1; ; i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
}

func decodeKey(text []byte) []byte {
	if key, ok := plainString(text); ok {
		return key
	}
	var key string
	_ = json.Unmarshal(text, &key) // it is valid
	return []byte(key)
}

// plainString is what a JSON string says, if it says it without an escape.
func plainString(value []byte) (text []byte, ok bool) {
	if len(value) < 2 || value[0] != '"' {
		return nil, false
	}
	text = value[1 : len(value)-1]
	return text, bytes.IndexByte(text, '\\') < 0 && utf8.Valid(text)
}

// isSnakeCase says whether a key is a camelCase name in snake_case.
func isSnakeCase(key []byte, name string) bool {
	i := 0
	next := func(c byte) bool {
		i++
		return i <= len(key) && key[i-1] == c
	}
	for _, c := range []byte(name) {
		if 'A' <= c && c <= 'Z' {
			if !next('_') {
				return false
			}
			c += 'a' - 'A'
		}
		if !next(c) {
			return false
		}
	}
	return i == len(key)
}
