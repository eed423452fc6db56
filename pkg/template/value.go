package template

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"

	"agenthost/internal/number"
)

// Members is a variable that has members but is not a map, such as a session's
// state. All returns a copy, which is made only for expressions that read it.
type Members interface {
	All() map[string]any
}

// convertVariable converts a variable to a form that expressions can read,
// without copying maps and lists.
func convertVariable(v any) any {
	switch v := v.(type) {
	case json.Number:
		return number.Parse(string(v))
	case Members:
		return v.All()
	}
	return v
}

// normalizeScalar converts a value with a simple JSON type; ok is false for all others.
func normalizeScalar(v any) (scalar any, ok bool, err error) {
	switch v := v.(type) {
	case nil, bool, string, int64:
		return v, true, nil
	case int:
		return int64(v), true, nil
	case float64:
		scalar, err = finiteNumber(v)
		return scalar, true, err
	case json.Number:
		return number.Parse(string(v)), true, nil
	}
	return nil, false, nil
}

func finiteNumber(f float64) (any, error) {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return nil, &Error{Msg: "the result is not a finite number; is there a division by zero?"}
	}
	return f, nil
}

// copyValue is the slow path of normalizeResult, for values that were charged to
// the meter.
func copyValue(v any) (any, error) {
	if scalar, ok, err := normalizeScalar(v); ok {
		return scalar, err
	}
	switch v := v.(type) {
	case time.Time:
		return v.Format(time.RFC3339Nano), nil
	case time.Duration:
		return v.String(), nil
	case []any:
		return copyList(len(v), func(i int) any { return v[i] })
	}
	return copyReflect(reflect.ValueOf(v))
}

func copyReflect(v reflect.Value) (any, error) {
	switch {
	case v.CanInt():
		return v.Int(), nil
	case v.CanUint():
		return number.Parse(strconv.FormatUint(v.Uint(), 10)), nil
	case v.CanFloat():
		return finiteNumber(v.Float())
	}
	switch v.Kind() {
	case reflect.String:
		return v.String(), nil
	case reflect.Bool:
		return v.Bool(), nil
	case reflect.Slice, reflect.Array:
		return copyList(v.Len(), func(i int) any { return v.Index(i).Interface() })
	case reflect.Map:
		return copyMap(v)
	case reflect.Pointer:
		if !v.IsNil() {
			return copyValue(v.Elem().Interface())
		}
		return nil, nil
	}
	return nil, &Error{Msg: "the result must be a JSON value, got " + valueNoun(v.Interface())}
}

func copyList(n int, at func(int) any) (any, error) {
	list := make([]any, n)
	for i := range list {
		v, err := copyValue(at(i))
		if err != nil {
			return nil, err
		}
		list[i] = v
	}
	return list, nil
}

func copyMap(v reflect.Value) (any, error) {
	m := make(map[string]any, v.Len())
	for it := v.MapRange(); it.Next(); {
		value, err := copyValue(it.Value().Interface())
		if err != nil {
			return nil, err
		}
		m[String(it.Key().Interface())] = value
	}
	return m, nil
}

// stringMap converts a map to map[string]any.
func stringMap(v any) (map[string]any, bool) {
	if m, ok := v.(map[string]any); ok {
		return m, true
	}
	r := reflect.ValueOf(v)
	if r.Kind() != reflect.Map {
		return nil, false
	}
	m := make(map[string]any, r.Len())
	for it := r.MapRange(); it.Next(); {
		m[String(it.Key().Interface())] = it.Value().Interface()
	}
	return m, true
}

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

// isTime reports whether t is one of the two types whose methods may be called.
func isTime(t reflect.Type) bool {
	return t == reflect.TypeFor[time.Time]() || t == reflect.TypeFor[time.Duration]()
}
