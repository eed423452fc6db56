package template

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// String formats a value for a template: strings unchanged, numbers and booleans as
// JSON, times by RFC 3339, maps and lists as compact JSON with sorted keys and
// without HTML escapes, nil as the empty string. Values that JSON cannot hold
// (NaN, infinities, functions) are formatted by package fmt.
func String(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	case bool:
		return strconv.FormatBool(v)
	case int:
		return strconv.Itoa(v)
	case int32:
		return strconv.FormatInt(int64(v), 10)
	case int64:
		return strconv.FormatInt(v, 10)
	case float64:
		return string(appendFloat(nil, v))
	case json.Number:
		return string(v)
	case time.Time:
		return v.Format(time.RFC3339Nano)
	default:
		return compactJSON(v)
	}
}

// appendFloat formats like encoding/json: the shortest digits that parse back to
// the same value, with an exponent only for very large and very small numbers.
func appendFloat(buf []byte, f float64) []byte {
	abs := math.Abs(f)
	if abs == 0 || 1e-6 <= abs && abs < 1e21 || math.IsNaN(f) {
		return strconv.AppendFloat(buf, f, 'f', -1, 64)
	}
	buf = strconv.AppendFloat(buf, f, 'e', -1, 64)
	// JSON encoders print 1e-9 where Go prints 1e-09.
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
