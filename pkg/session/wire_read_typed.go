package session

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strconv"
	"time"

	"google.golang.org/genai"

	"agenthost/pkg/spec"
)

// readNullable reads a value or null, which is the zero value.
func (r *reader) readNullable(p any) {
	if r.consumeNull() {
		reflect.ValueOf(p).Elem().SetZero()
		return
	}
	r.readInto(p)
}

// readInto reads a value into the variable p points to. An empty map stays nil,
// as in a new event.
func (r *reader) readInto(p any) {
	switch p := p.(type) {
	case *string:
		*p = r.readString()
	case *bool:
		*p = r.readBool()
	case *[]byte:
		*p = r.readBase64()
	case *json.RawMessage:
		*p = compactJSON(r.readRawValue())
	case *time.Time:
		*p = r.readTime()
	case *time.Duration:
		*p = r.readDuration()
	case *map[string]any:
		if *p = nil; !r.consumeEmptyObject() {
			*p = r.readFreeMap()
		}
	case *checkpoint:
		*p = r.readFreeMap()
	case *any:
		*p = r.readValue()
	case *[]*genai.Part:
		*p = r.readParts()
	default:
		r.readTypedKind(reflect.ValueOf(p).Elem())
	}
}

func (r *reader) readTypedKind(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(r.readString())
	case reflect.Int, reflect.Int32, reflect.Int64:
		r.readTypedInt(v)
	case reflect.Float32, reflect.Float64:
		r.readTypedFloat(v)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		r.readInto(v.Interface())
	case reflect.Struct:
		v.SetZero()
		r.readStruct(v)
	case reflect.Slice:
		r.readTypedList(v)
	case reflect.Map:
		r.readTypedMap(v)
	default:
		r.setError("a %s cannot be read from JSON", v.Type())
	}
}

func (r *reader) readTypedInt(v reflect.Value) {
	text := r.readNumber()
	if r.err != nil {
		return
	}
	n, err := strconv.ParseInt(string(text), 10, v.Type().Bits())
	switch {
	case errors.Is(err, strconv.ErrRange):
		r.setError("the number %s is out of range", text)
	case err != nil:
		r.setError("expected an integer, got %s", text)
	default:
		v.SetInt(n)
	}
}

func (r *reader) readTypedFloat(v reflect.Value) {
	text := r.readNumber()
	if r.err != nil {
		return
	}
	f, err := strconv.ParseFloat(string(text), v.Type().Bits())
	if err != nil {
		r.setError("the number %s is out of range", text)
		return
	}
	v.SetFloat(f)
}

func (r *reader) readTypedList(v reflect.Value) {
	l := reflect.MakeSlice(v.Type(), 0, 1)
	r.readList(func(int) {
		item := reflect.New(v.Type().Elem())
		r.readInto(item.Interface())
		l = reflect.Append(l, item.Elem())
	})
	v.Set(l)
}

// readParts is a fast path of readTypedList, because nearly every event has
// parts.
func (r *reader) readParts() []*genai.Part {
	l := make([]*genai.Part, 0, 1)
	r.readList(func(int) {
		p := new(genai.Part)
		r.readInto(p)
		l = append(l, p)
	})
	return l
}

func (r *reader) readTypedMap(v reflect.Value) {
	v.SetZero()
	if r.consumeEmptyObject() {
		return
	}
	m := reflect.MakeMap(v.Type())
	r.readObject(func(key []byte) {
		item := reflect.New(v.Type().Elem())
		r.readInto(item.Interface())
		m.SetMapIndex(reflect.ValueOf(string(key)), item.Elem())
	})
	v.Set(m)
}

// readBase64 reads base64 in either alphabet, padded or not.
func (r *reader) readBase64() []byte {
	s := bytes.TrimRight(r.readStringBytes(), "=")
	if r.err != nil {
		return nil
	}
	enc := base64.RawStdEncoding
	if bytes.ContainsAny(s, "-_") {
		enc = base64.RawURLEncoding
	}
	b, err := enc.AppendDecode(nil, s)
	if err != nil {
		r.setError("expected base64")
	}
	return b
}

func (r *reader) readStruct(v reflect.Value) {
	find := func(name []byte) any {
		if p := commonField(v.Addr().Interface(), name); p != nil {
			return p
		}
		if i := fieldNamed(v.Type(), name); i >= 0 {
			return v.Field(i).Addr().Interface()
		}
		return nil
	}
	r.readFields(find, func(name []byte) { r.handleUnknownKey(v.Type(), string(name)) })
}

// readFields reads an object with keys in either spelling. find returns a
// pointer to the field with a camelCase name, or nil; then unknown is called
// with the reader at the value.
func (r *reader) readFields(find func(name []byte) any, unknown func(name []byte)) {
	// If both spellings occur, camelCase wins, as in adk-python.
	var few [16]any
	camel := few[:0]
	r.readObject(func(key []byte) {
		name := camelCase(key)
		p := find(name)
		seen := slices.Contains(camel, p)
		switch isCamel := len(name) == len(key); {
		case p == nil:
			unknown(name)
		case seen && !isCamel:
			r.skipValue()
		default:
			if isCamel && !seen {
				camel = append(camel, p)
			}
			r.readNullable(p)
		}
	})
}

func (r *reader) handleUnknownKey(t reflect.Type, name string) {
	if !r.strict {
		r.skipValue()
		return
	}
	if near := spec.Suggest(name, fieldNames(t)); near != "" {
		r.setError("unknown key (did you mean %q?)", near)
		return
	}
	r.setError("unknown key")
}
