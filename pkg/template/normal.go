package template

import (
	"encoding/json"
	"errors"
	"io"
	"math"
	"reflect"
	"strings"
	"time"
)

// Members is a variable that has members but is no map, as a session's state.
// All returns a copy, which is taken only for expressions that read it.
type Members interface {
	All() map[string]any
}

// plain makes a variable readable for expressions, without copying what is so
// already.
func plain(v any) any {
	switch v := v.(type) {
	case json.Number:
		return number(v)
	case Members:
		return v.All()
	}
	return v
}

// number gives an int64 where it fits, else a float64.
func number(n json.Number) any {
	if i, err := n.Int64(); err == nil {
		return i
	}
	f, err := n.Float64()
	if err != nil {
		return n.String()
	}
	return f
}

// normal copies a result into what JSON has: nil, bool, string, int64,
// float64, []any, map[string]any.
func normal(v any, m *meter) (any, error) {
	switch v := v.(type) {
	case nil, bool, string, int64:
		return v, nil
	case int:
		return int64(v), nil
	case float64:
		return finite(v)
	case json.Number:
		return number(v), nil
	}
	if err := m.deep(v); err != nil {
		return nil, err
	}
	return copyOf(v)
}

func finite(f float64) (any, error) {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return nil, &Error{Msg: "the result is not a finite number; is there a division by zero?"}
	}
	return f, nil
}

// copyOf is the slow part of normal, for values that the meter has weighed.
func copyOf(v any) (any, error) {
	switch v := v.(type) {
	case nil, bool, string, int64:
		return v, nil
	case int:
		return int64(v), nil
	case float64:
		return finite(v)
	case json.Number:
		return number(v), nil
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
		return int64(v.Uint()), nil
	case v.CanFloat():
		return finite(v.Float())
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
			return copyOf(v.Elem().Interface())
		}
		return nil, nil
	}
	return nil, &Error{Msg: "the result is " + noun(v.Interface()) + ", which is no value"}
}

func copyList(n int, at func(int) any) (any, error) {
	list := make([]any, n)
	for i := range list {
		v, err := copyOf(at(i))
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
		value, err := copyOf(it.Value().Interface())
		if err != nil {
			return nil, err
		}
		m[String(it.Key().Interface())] = value
	}
	return m, nil
}

// stringMap gives a map with text keys its common form.
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

// fromJSON reads one JSON value, with integers as integers.
func fromJSON(m *meter, args []any) (any, error) {
	s := textOf(args, 0)
	if err := m.text(len(s)); err != nil {
		return nil, err
	}
	dec := json.NewDecoder(strings.NewReader(s))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, &Error{Msg: "fromJSON: the text is not JSON"}
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, &Error{Msg: "fromJSON: there is more than one value"}
	}
	return copyOf(v)
}
