package adkjson

import (
	"bytes"
	"encoding"
	"encoding/base64"
	"encoding/json"
	"math"
	"reflect"
	"strconv"

	"agenthost/internal/number"
)

// MaxDepth limits the nesting of free-form values, read or written.
const MaxDepth = 1000

// maxDocumentDepth limits the nesting of what is read: a value as deep as the encoder writes it is
// inside parts, contents, events and sessions.
const maxDocumentDepth = MaxDepth + 24

// Normalize returns a value as if encoded to JSON and decoded by the rules of
// [DecodeMap]: integers as int64, floats as float64, slices as []any, bytes as
// URL-safe base64, structs as map[string]any. It shares no map or slice with v.
// A value without a JSON form, such as a channel, is unchanged; encoding it is
// an error.
func Normalize(v any) any { return normalizeValue(v, 0) }

func normalizeValue(v any, depth int) any {
	if depth > MaxDepth {
		return v
	}
	switch v := v.(type) {
	case nil, string, bool, int64, float64:
		return v
	case int:
		return int64(v)
	case json.Number:
		return number.Parse(string(v))
	case map[string]any:
		m := make(map[string]any, len(v))
		for k, item := range v {
			m[k] = normalizeValue(item, depth+1)
		}
		return m
	case []any:
		l := make([]any, len(v))
		for i, item := range v {
			l[i] = normalizeValue(item, depth+1)
		}
		return l
	case json.Marshaler, encoding.TextMarshaler:
		return normalizeViaJSON(v)
	}
	return normalizeKind(reflect.ValueOf(v), depth)
}

// normalizeKind handles named and less common types.
func normalizeKind(v reflect.Value, depth int) any {
	switch v.Kind() {
	case reflect.String:
		return v.String()
	case reflect.Bool:
		return v.Bool()
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return v.Int()
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return number.Parse(strconv.FormatUint(v.Uint(), 10))
	case reflect.Float32:
		// The shortest decimal of a float32 is what its author wrote: 0.1.
		return number.Parse(strconv.FormatFloat(v.Float(), 'e', -1, 32))
	case reflect.Float64:
		return v.Float()
	case reflect.Slice, reflect.Array:
		return normalizeList(v, depth)
	case reflect.Map:
		return normalizeMap(v, depth)
	default:
		return normalizeViaJSON(v.Interface())
	}
}

func normalizeList(v reflect.Value, depth int) any {
	if v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Uint8 {
		return base64.URLEncoding.EncodeToString(v.Bytes())
	}
	l := make([]any, v.Len())
	for i := range l {
		l[i] = normalizeValue(v.Index(i).Interface(), depth+1)
	}
	return l
}

func normalizeMap(v reflect.Value, depth int) any {
	if v.Type().Key().Kind() != reflect.String {
		return normalizeViaJSON(v.Interface())
	}
	m := make(map[string]any, v.Len())
	for k, item := range v.Seq2() {
		m[k.String()] = normalizeValue(item.Interface(), depth+1)
	}
	return m
}

// normalizeViaJSON encodes and decodes v.
func normalizeViaJSON(v any) any {
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	if enc.Encode(v) != nil {
		return v
	}
	r := Decoder{Buf: text.Bytes()}
	back := r.ReadValue()
	if r.CheckEnd() != nil {
		return v
	}
	return back
}

// IsPlain reports whether a free-form value consists of the common types within [MaxDepth],
// so that encoding it cannot fail. It costs a walk. A value that is not plain, such as a
// struct, may have a JSON form nevertheless.
func IsPlain(v any) bool { return isPlain(v, 0) }

func isPlain(v any, depth int) bool {
	switch v := v.(type) {
	case nil, string, bool, int, int64:
		return true
	case float64:
		return !math.IsNaN(v) && !math.IsInf(v, 0)
	case map[string]any:
		for _, item := range v {
			if depth+1 > MaxDepth || !isPlain(item, depth+1) {
				return false
			}
		}
		return true
	case []any:
		for _, item := range v {
			if depth+1 > MaxDepth || !isPlain(item, depth+1) {
				return false
			}
		}
		return true
	}
	return false
}
