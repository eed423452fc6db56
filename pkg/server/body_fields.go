package server

import (
	"bytes"
	"encoding/json"
	"slices"
	"unicode/utf8"
)

// jsonSpace is the white space that JSON allows between tokens.
const jsonSpace = " \t\r\n"

// A field is an unescaped key of a JSON object with its raw value.
type field struct {
	key   []byte
	value json.RawMessage
}

// appendFields splits an object, which must be valid JSON, into its fields. The last of
// several equal keys wins. It exists because encoding/json would copy every value once
// more before a typed decoder reads it.
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

// valueLength returns the length of the value at the start of text.
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
				return i // the enclosing value ends here
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

// stringLength returns the length of the string at the start of text.
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
	_ = json.Unmarshal(text, &key) // text is valid JSON
	return []byte(key)
}

// plainString returns the content of a JSON string that has no escapes.
func plainString(value []byte) (text []byte, ok bool) {
	if len(value) < 2 || value[0] != '"' {
		return nil, false
	}
	text = value[1 : len(value)-1]
	return text, bytes.IndexByte(text, '\\') < 0 && utf8.Valid(text)
}

// isSnakeCase reports whether key is the snake_case form of a camelCase name.
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
