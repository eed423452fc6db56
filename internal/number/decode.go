package number

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"reflect"
)

// DecodeObject decodes a JSON object by [Decode]. Fake services read requests by it.
func DecodeObject(text []byte) (map[string]any, error) {
	var m map[string]any
	err := Decode(text, &m)
	return m, err
}

// Decode decodes one JSON value as [json.Unmarshal] does. Where the type is any, a number
// is a json.Number, unless a float64 has all its digits.
func Decode(text []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(into); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("unexpected text after the JSON value")
	}
	convertFields(reflect.ValueOf(into))
	return nil
}

// convertFields converts the numbers in fields and items with type any, in place. Types that decode
// themselves stay.
func convertFields(v reflect.Value) {
	if _, decodesItself := v.Interface().(json.Unmarshaler); decodesItself {
		return
	}
	switch v.Kind() {
	case reflect.Interface:
		if !v.IsNil() && v.NumMethod() == 0 {
			v.Set(reflect.ValueOf(convertNumbers(v.Interface())))
		}
	case reflect.Pointer:
		if !v.IsNil() {
			convertFields(v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if field := v.Field(i); field.CanSet() {
				convertFields(field.Addr())
			}
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			convertFields(v.Index(i).Addr())
		}
	case reflect.Map:
		for key, item := range v.Seq2() {
			changed := reflect.New(item.Type())
			changed.Elem().Set(item)
			convertFields(changed)
			v.SetMapIndex(key, changed.Elem())
		}
	}
}

// convertNumbers converts numbers to float64 in place, if that keeps their digits.
func convertNumbers(v any) any {
	switch v := v.(type) {
	case json.Number:
		if f, err := ToFloat(v); err == nil {
			return f
		}
	case []any:
		for i, item := range v {
			v[i] = convertNumbers(item)
		}
	case map[string]any:
		for key, item := range v {
			v[key] = convertNumbers(item)
		}
	}
	return v
}
