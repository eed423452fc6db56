package adkjson

import (
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The typed values are those of genai, and our own inside events. encoding/json would write genai's
// bytes in the other alphabet, round its durations and escape HTML; so their json tags are read
// here.

// WriteTyped writes a value by its type.
func (w *Encoder) WriteTyped(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		w.WriteString(v.String())
	case reflect.Bool:
		w.Buf = strconv.AppendBool(w.Buf, v.Bool())
	case reflect.Int, reflect.Int32, reflect.Int64:
		w.writeTypedInt(v)
	case reflect.Float32, reflect.Float64:
		w.writeFloat(v.Float(), v.Type().Bits())
	case reflect.Pointer:
		w.WritePointer(v)
	case reflect.Struct:
		w.writeStruct(v)
	case reflect.Slice:
		w.writeTypedList(v)
	case reflect.Map:
		w.WriteTypedMap(v)
	case reflect.Interface:
		w.WriteValue(v.Interface())
	default:
		w.SetError("%s cannot be encoded as JSON", v.Type())
	}
}

// WritePointer writes the value that v points to, with WriteCustom first.
func (w *Encoder) WritePointer(v reflect.Value) {
	if v.IsNil() {
		w.SetError("is missing")
		return
	}
	if w.WriteCustom == nil || !w.WriteCustom(w, v.Interface()) {
		w.WriteTyped(v.Elem())
	}
}

func (w *Encoder) writeTypedInt(v reflect.Value) {
	if v.Type() == reflect.TypeFor[time.Duration]() {
		w.Buf = append(w.Buf, '"')
		w.Buf = appendDuration(w.Buf, time.Duration(v.Int()))
		w.Buf = append(w.Buf, '"')
		return
	}
	w.WriteInt(v.Int())
}

// writeStruct writes a genai struct; all its fields are optional.
func (w *Encoder) writeStruct(v reflect.Value) {
	w.OpenBracket('{')
	for i := range v.NumField() {
		f := v.Field(i)
		if isEmpty(f) {
			continue
		}
		name, before := wireName(v.Type().Field(i)), w.Err
		w.StartField(name).WriteTyped(f)
		w.AddErrorKey(before, name)
	}
	w.CloseBracket('}')
}

func isEmpty(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Map, reflect.Slice:
		return v.Len() == 0
	default:
		return v.IsZero()
	}
}

func (w *Encoder) writeTypedList(v reflect.Value) {
	if v.Type().Elem().Kind() == reflect.Uint8 {
		w.WriteBase64(v.Bytes())
		return
	}
	w.OpenBracket('[')
	for i := range v.Len() {
		before := w.Err
		w.WriteComma()
		w.WriteTyped(v.Index(i))
		w.AddErrorIndex(before, i)
	}
	w.CloseBracket(']')
}

// WriteTypedMap writes a map with its keys sorted.
func (w *Encoder) WriteTypedMap(v reflect.Value) {
	if m, ok := v.Interface().(map[string]any); ok {
		w.writeObject(m)
		return
	}
	w.OpenBracket('{')
	if v.Len() > 0 {
		keys := v.MapKeys()
		slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
		for _, k := range keys {
			before := w.Err
			w.StartEscapedField(k.String())
			w.WriteTyped(v.MapIndex(k))
			w.AddErrorKey(before, k.String())
		}
	}
	w.CloseBracket('}')
}
