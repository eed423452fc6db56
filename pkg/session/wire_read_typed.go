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

// optional reads a value that may be null, which is the zero value.
func (r *reader) optional(p any) {
	if r.null() {
		reflect.ValueOf(p).Elem().SetZero()
		return
	}
	r.into(p)
}

// into reads a value into what p points to. An empty map stays nil, as it is
// in a new event.
func (r *reader) into(p any) {
	switch p := p.(type) {
	case *string:
		*p = r.text()
	case *bool:
		*p = r.boolean()
	case *[]byte:
		*p = r.bytes()
	case *json.RawMessage:
		*p = compact(r.raw())
	case *time.Time:
		*p = r.time()
	case *time.Duration:
		*p = r.duration()
	case *map[string]any:
		if *p = nil; !r.emptyObject() {
			*p = r.freeMap()
		}
	case *checkpoint:
		*p = r.freeMap()
	case *any:
		*p = r.value()
	case *[]*genai.Part:
		*p = r.parts()
	default:
		r.typedKind(reflect.ValueOf(p).Elem())
	}
}

func (r *reader) typedKind(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(r.text())
	case reflect.Int, reflect.Int32, reflect.Int64:
		r.typedInt(v)
	case reflect.Float32, reflect.Float64:
		r.typedFloat(v)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		r.into(v.Interface())
	case reflect.Struct:
		v.SetZero()
		r.structure(v)
	case reflect.Slice:
		r.typedList(v)
	case reflect.Map:
		r.typedMap(v)
	default:
		r.fail("a %s cannot be read from JSON", v.Type())
	}
}

func (r *reader) typedInt(v reflect.Value) {
	text := r.number()
	if r.err != nil {
		return
	}
	n, err := strconv.ParseInt(string(text), 10, v.Type().Bits())
	switch {
	case errors.Is(err, strconv.ErrRange):
		r.fail("the number %s is out of range", text)
	case err != nil:
		r.fail("want an integer, got %s", text)
	default:
		v.SetInt(n)
	}
}

func (r *reader) typedFloat(v reflect.Value) {
	text := r.number()
	if r.err != nil {
		return
	}
	f, err := strconv.ParseFloat(string(text), v.Type().Bits())
	if err != nil {
		r.fail("the number %s is out of range", text)
		return
	}
	v.SetFloat(f)
}

func (r *reader) typedList(v reflect.Value) {
	l := reflect.MakeSlice(v.Type(), 0, 1)
	r.list(func(int) {
		item := reflect.New(v.Type().Elem())
		r.into(item.Interface())
		l = reflect.Append(l, item.Elem())
	})
	v.Set(l)
}

// parts is what typedList would do: nearly every event has one.
func (r *reader) parts() []*genai.Part {
	l := make([]*genai.Part, 0, 1)
	r.list(func(int) {
		p := new(genai.Part)
		r.into(p)
		l = append(l, p)
	})
	return l
}

func (r *reader) typedMap(v reflect.Value) {
	v.SetZero()
	if r.emptyObject() {
		return
	}
	m := reflect.MakeMap(v.Type())
	r.object(func(key []byte) {
		item := reflect.New(v.Type().Elem())
		r.into(item.Interface())
		m.SetMapIndex(reflect.ValueOf(string(key)), item.Elem())
	})
	v.Set(m)
}

// bytes reads base64 in either alphabet, padded or not.
func (r *reader) bytes() []byte {
	s := bytes.TrimRight(r.chars(), "=")
	if r.err != nil {
		return nil
	}
	enc := base64.RawStdEncoding
	if bytes.ContainsAny(s, "-_") {
		enc = base64.RawURLEncoding
	}
	b, err := enc.AppendDecode(nil, s)
	if err != nil {
		r.fail("want base64")
	}
	return b
}

func (r *reader) structure(v reflect.Value) {
	find := func(name []byte) any {
		if p := usualField(v.Addr().Interface(), name); p != nil {
			return p
		}
		if i := fieldNamed(v.Type(), name); i >= 0 {
			return v.Field(i).Addr().Interface()
		}
		return nil
	}
	r.fields(find, func(name []byte) { r.unknown(v.Type(), string(name)) })
}

// fields reads an object with keys in either spelling. find returns where the
// field with a camelCase name is kept, or nil; unknown is called for those that
// it does not find, when the value is next.
func (r *reader) fields(find func(name []byte) any, unknown func(name []byte)) {
	// When both spellings are there, camelCase counts, as in adk-python.
	var few [16]any
	camel := few[:0]
	r.object(func(key []byte) {
		name := camelCase(key)
		p := find(name)
		seen := slices.Contains(camel, p)
		switch isCamel := len(name) == len(key); {
		case p == nil:
			unknown(name)
		case seen && !isCamel:
			r.skip()
		default:
			if isCamel && !seen {
				camel = append(camel, p)
			}
			r.optional(p)
		}
	})
}

func (r *reader) unknown(t reflect.Type, name string) {
	if !r.strict {
		r.skip()
		return
	}
	if near := spec.Suggest(name, fieldNames(t)); near != "" {
		r.fail("unknown key (did you mean %q?)", near)
		return
	}
	r.fail("unknown key")
}
