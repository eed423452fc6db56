package session

import (
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/genai"
)

// The typed values are those of genai, and our own inside of events.
// encoding/json would write genai's bytes in the other alphabet, round its
// durations and escape HTML; so their json tags are read here.

// writeTyped writes a value by its type.
func (w *writer) writeTyped(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		w.writeString(v.String())
	case reflect.Bool:
		w.b = strconv.AppendBool(w.b, v.Bool())
	case reflect.Int, reflect.Int32, reflect.Int64:
		w.writeTypedInt(v)
	case reflect.Float32, reflect.Float64:
		w.writeFloat(v.Float(), v.Type().Bits())
	case reflect.Pointer:
		w.writePointer(v)
	case reflect.Struct:
		w.writeStruct(v)
	case reflect.Slice:
		w.writeTypedList(v)
	case reflect.Map:
		w.writeTypedMap(v)
	default:
		w.setError("%s cannot be encoded as JSON", v.Type())
	}
}

// writePointer writes the value that v points to. Types with their own rules
// are written field by field.
func (w *writer) writePointer(v reflect.Value) {
	if v.IsNil() {
		w.setError("is missing")
		return
	}
	switch p := v.Interface().(type) {
	case *genai.Content:
		w.writeContent(p)
	case *genai.Part:
		w.writePart(p)
	case *genai.FunctionCall:
		w.writeFunctionCall(p)
	case *genai.FunctionResponse:
		w.writeFunctionResponse(p)
	case *Actions:
		w.writeActions(p)
	case *Confirmation:
		w.writeConfirmation(p)
	case *Compaction:
		w.writeCompaction(p)
	default:
		w.writeTyped(v.Elem())
	}
}

func (w *writer) writeTypedInt(v reflect.Value) {
	if v.Type() == reflect.TypeFor[time.Duration]() {
		w.b = append(w.b, '"')
		w.b = appendDuration(w.b, time.Duration(v.Int()))
		w.b = append(w.b, '"')
		return
	}
	w.writeInt(v.Int())
}

// writeStruct writes a struct of genai; all its fields are optional.
func (w *writer) writeStruct(v reflect.Value) {
	w.openBracket('{')
	for i := range v.NumField() {
		f := v.Field(i)
		if isEmpty(f) {
			continue
		}
		name, before := wireName(v.Type().Field(i)), w.err
		w.startField(name).writeTyped(f)
		w.addErrorKey(before, name)
	}
	w.closeBracket('}')
}

func isEmpty(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Map, reflect.Slice:
		return v.Len() == 0
	default:
		return v.IsZero()
	}
}

func (w *writer) writeTypedList(v reflect.Value) {
	if v.Type().Elem().Kind() == reflect.Uint8 {
		w.writeBase64(v.Bytes())
		return
	}
	w.openBracket('[')
	for i := range v.Len() {
		before := w.err
		w.writeComma()
		w.writeTyped(v.Index(i))
		w.addErrorIndex(before, i)
	}
	w.closeBracket(']')
}

func (w *writer) writeTypedMap(v reflect.Value) {
	if m, ok := v.Interface().(map[string]any); ok {
		w.writeObject(m)
		return
	}
	w.openBracket('{')
	if v.Len() > 0 {
		keys := v.MapKeys()
		slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
		for _, k := range keys {
			before := w.err
			w.startEscapedField(k.String())
			w.writeTyped(v.MapIndex(k))
			w.addErrorKey(before, k.String())
		}
	}
	w.closeBracket('}')
}
