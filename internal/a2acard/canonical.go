package a2acard

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"unicode/utf16"
)

// appendCanonical appends a decoded JSON value in canonical form (RFC 8785): without spaces, keys in the order of
// their UTF-16 units, and numbers as JavaScript prints them.
func appendCanonical(b []byte, value any) (_ []byte, err error) {
	switch value := value.(type) {
	case nil:
		return append(b, "null"...), nil
	case bool:
		return fmt.Append(b, value), nil
	case string:
		return appendString(b, value), nil
	case float64:
		text, err := json.Marshal(value) // encoding/json formats numbers as JavaScript does
		if text != nil && string(text) == "-0" {
			text = []byte("0")
		}
		return append(b, text...), err
	case []any:
		b = append(b, '[')
		for i, item := range value {
			if i > 0 {
				b = append(b, ',')
			}
			if b, err = appendCanonical(b, item); err != nil {
				return nil, err
			}
		}
		return append(b, ']'), nil
	case map[string]any:
		b = append(b, '{')
		for i, key := range slices.SortedFunc(maps.Keys(value), compareUnits) {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(appendString(b, key), ':')
			if b, err = appendCanonical(b, value[key]); err != nil {
				return nil, err
			}
		}
		return append(b, '}'), nil
	}
	return nil, fmt.Errorf("%T has no canonical form", value)
}

func compareUnits(a, b string) int {
	return slices.Compare(utf16.Encode([]rune(a)), utf16.Encode([]rune(b)))
}

func appendString(b []byte, text string) []byte {
	b = append(b, '"')
	for _, c := range []byte(text) {
		switch c {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\b':
			b = append(b, `\b`...)
		case '\f':
			b = append(b, `\f`...)
		case '\n':
			b = append(b, `\n`...)
		case '\r':
			b = append(b, `\r`...)
		case '\t':
			b = append(b, `\t`...)
		default:
			if c < ' ' {
				b = fmt.Appendf(b, `\u%04x`, c)
				continue
			}
			b = append(b, c)
		}
	}
	return append(b, '"')
}
