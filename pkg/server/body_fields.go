package server

import (
	"bytes"
	"encoding/json"
	"slices"
	"unicode/utf8"
)

// jsonSpace is what may stand between the parts of a JSON text.
const jsonSpace = " \t\r\n"

// A field is a key of a JSON object with its value as it was written.
type field struct {
	key   string
	value json.RawMessage
}

// fieldsOf cuts an object, which is valid JSON, into its fields. The last of those
// with the same key counts. Each request is cut once, and most of its values are
// read by somebody who knows what they are: encoding/json would copy them all.
func fieldsOf(text []byte) (all []field) {
	text = bytes.TrimLeft(text, jsonSpace)[1:]
	for {
		text = bytes.TrimLeft(text, jsonSpace+",")
		if text[0] == '}' {
			return all
		}
		end := valueEnd(text)
		key := keyOf(text[:end])
		text = bytes.TrimLeft(text[end:], jsonSpace+":")
		end = valueEnd(text)
		f := field{key, text[:end:end]}
		if i := slices.IndexFunc(all, func(f field) bool { return f.key == key }); i >= 0 {
			all[i] = f
		} else {
			all = append(all, f)
		}
		text = text[end:]
	}
}

// valueEnd is the length of the value that a text begins with.
func valueEnd(text []byte) int {
	depth := 0
	for i := 0; ; i++ {
		switch text[i] {
		case '"':
			i += stringEnd(text[i:]) - 1
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

// stringEnd is the length of the string that a text begins with.
func stringEnd(text []byte) int {
	for i := 1; ; i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
}

func keyOf(text []byte) string {
	key, ok := plainText(text)
	if !ok {
		_ = json.Unmarshal(text, &key) // it is valid
	}
	return key
}

// plainText is what a JSON string says, if it says it without an escape.
func plainText(value []byte) (text string, ok bool) {
	if len(value) < 2 || value[0] != '"' {
		return "", false
	}
	inner := value[1 : len(value)-1]
	if bytes.IndexByte(inner, '\\') >= 0 || !utf8.Valid(inner) {
		return "", false
	}
	return string(inner), true
}

// isSnakeCase says whether a key is a camelCase name in snake_case.
func isSnakeCase(key, name string) bool {
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
