package template

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// String returns how a value is printed in a text: strings as they are,
// numbers and booleans as JSON, maps and lists as compact JSON with sorted
// keys and without HTML escapes, nil as nothing. What JSON cannot hold (NaN,
// infinities, functions) is printed as Go prints it.
func String(v any) string {
	v = printable(v)
	if s, ok := v.(string); ok {
		return s
	}
	var out strings.Builder
	writeValue(&out, v)
	return out.String()
}

// printable leaves the values that writeValue prints without allocating, and
// turns all others into their text.
func printable(v any) any {
	switch v := v.(type) {
	case nil, string, bool, int, int32, int64, float64:
		return v
	case json.Number:
		return string(v)
	default:
		return compactJSON(v)
	}
}

// maxSize is at least the length of a printable value.
func maxSize(v any) int {
	switch v := v.(type) {
	case string:
		return len(v)
	case nil:
		return 0
	default:
		return 24
	}
}

func writeValue(out *strings.Builder, v any) {
	var scratch [32]byte
	buf := scratch[:0]
	switch v := v.(type) {
	case string:
		out.WriteString(v)
		return
	case bool:
		buf = strconv.AppendBool(buf, v)
	case int:
		buf = strconv.AppendInt(buf, int64(v), 10)
	case int32:
		buf = strconv.AppendInt(buf, int64(v), 10)
	case int64:
		buf = strconv.AppendInt(buf, v, 10)
	case float64:
		buf = appendFloat(buf, v)
	}
	out.Write(buf)
}

// appendFloat prints as encoding/json does: the shortest digits that read
// back, with an exponent only for the very large and the very small.
func appendFloat(buf []byte, f float64) []byte {
	abs := math.Abs(f)
	if abs == 0 || 1e-6 <= abs && abs < 1e21 || math.IsNaN(f) {
		return strconv.AppendFloat(buf, f, 'f', -1, 64)
	}
	buf = strconv.AppendFloat(buf, f, 'e', -1, 64)
	// JSON's writers print 1e-9 where Go prints 1e-09.
	if n := len(buf); n >= 4 && buf[n-4] == 'e' && buf[n-3] == '-' && buf[n-2] == '0' {
		buf[n-2] = buf[n-1]
		buf = buf[:n-1]
	}
	return buf
}

func compactJSON(v any) string {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return fmt.Sprint(v)
	}
	return strings.TrimSuffix(out.String(), "\n")
}

func indentedJSON(v any) string {
	var out bytes.Buffer
	if err := json.Indent(&out, []byte(compactJSON(v)), "", "  "); err != nil {
		return fmt.Sprint(v)
	}
	return out.String()
}
