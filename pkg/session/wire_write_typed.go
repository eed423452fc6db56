package session

import (
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/genai"
)

// The typed values are those of genai, and our own that stand inside an event.
// encoding/json would write genai's bytes in the other alphabet, round its
// durations and escape HTML; so their json tags are read here.

// typed writes a value by its type.
func (w *writer) typed(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		w.text(v.String())
	case reflect.Bool:
		w.b = strconv.AppendBool(w.b, v.Bool())
	case reflect.Int, reflect.Int32, reflect.Int64:
		w.typedInt(v)
	case reflect.Float32, reflect.Float64:
		w.float(v.Float(), v.Type().Bits())
	case reflect.Pointer:
		w.pointer(v)
	case reflect.Struct:
		w.structure(v)
	case reflect.Slice:
		w.typedList(v)
	case reflect.Map:
		w.typedMap(v)
	default:
		w.fail("a %s cannot be written as JSON", v.Type())
	}
}

// pointer writes what v points to. Types with a rule of their own are written
// field by field.
func (w *writer) pointer(v reflect.Value) {
	if v.IsNil() {
		w.fail("is missing")
		return
	}
	switch p := v.Interface().(type) {
	case *genai.Content:
		w.content(p)
	case *genai.Part:
		w.part(p)
	case *genai.FunctionCall:
		w.call(p)
	case *genai.FunctionResponse:
		w.functionResponse(p)
	case *Actions:
		w.actions(p)
	case *Confirmation:
		w.confirmation(p)
	case *Compaction:
		w.compaction(p)
	default:
		w.typed(v.Elem())
	}
}

func (w *writer) typedInt(v reflect.Value) {
	if v.Type() == reflect.TypeFor[time.Duration]() {
		w.b = append(w.b, '"')
		w.b = appendDuration(w.b, time.Duration(v.Int()))
		w.b = append(w.b, '"')
		return
	}
	w.int(v.Int())
}

// structure writes a struct of genai: all its fields may be absent.
func (w *writer) structure(v reflect.Value) {
	w.open('{')
	for i := range v.NumField() {
		f := v.Field(i)
		if isEmpty(f) {
			continue
		}
		name, before := wireName(v.Type().Field(i)), w.err
		w.field(name).typed(f)
		w.inKey(before, name)
	}
	w.close('}')
}

func isEmpty(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Map, reflect.Slice:
		return v.Len() == 0
	default:
		return v.IsZero()
	}
}

func (w *writer) typedList(v reflect.Value) {
	if v.Type().Elem().Kind() == reflect.Uint8 {
		w.bytes(v.Bytes())
		return
	}
	w.open('[')
	for i := range v.Len() {
		before := w.err
		w.comma()
		w.typed(v.Index(i))
		w.inItem(before, i)
	}
	w.close(']')
}

func (w *writer) typedMap(v reflect.Value) {
	if m, ok := v.Interface().(map[string]any); ok {
		w.object(m)
		return
	}
	w.open('{')
	if v.Len() > 0 {
		keys := v.MapKeys()
		slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
		for _, k := range keys {
			before := w.err
			w.key(k.String())
			w.typed(v.MapIndex(k))
			w.inKey(before, k.String())
		}
	}
	w.close('}')
}
