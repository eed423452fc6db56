package adkjson

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"
)

// An Encoder appends JSON to Buf. After an error it continues, but its output is
// invalid.
type Encoder struct {
	// Buf is the output.
	Buf []byte
	// Err is the first error.
	Err   *Error
	depth int

	// WriteCustom, if set, writes a value by a pointer to it and returns true, or
	// returns false for types without own rules.
	WriteCustom func(w *Encoder, p any) bool
	// SnakeCase writes struct keys in snake_case, as adk-python does in files. Map keys are
	// unchanged.
	SnakeCase bool
}

// SetError records an error unless there is one.
func (w *Encoder) SetError(format string, args ...any) {
	if w.Err == nil {
		w.Err = &Error{Message: fmt.Sprintf(format, args...)}
	}
}

// AddErrorKey prepends a key to the path in an error that occurred since before.
func (w *Encoder) AddErrorKey(before *Error, key string) {
	if w.Err != before {
		w.Err = w.Err.nestUnder(key)
	}
}

// AddErrorIndex is AddErrorKey for lists.
func (w *Encoder) AddErrorIndex(before *Error, i int) {
	if w.Err != before {
		w.Err = w.Err.nestUnder(i)
	}
}

// OpenBracket opens an object or a list.
func (w *Encoder) OpenBracket(c byte) { w.Buf = append(w.Buf, c) }

// CloseBracket closes an object or a list.
func (w *Encoder) CloseBracket(c byte) { w.Buf = append(w.Buf, c) }

// WriteComma separates two members; the first member of a list or object has no
// comma.
func (w *Encoder) WriteComma() {
	if c := w.Buf[len(w.Buf)-1]; c != '{' && c != '[' {
		w.Buf = append(w.Buf, ',')
	}
}

// StartField starts a member whose name needs no escapes.
func (w *Encoder) StartField(name string) *Encoder {
	w.WriteComma()
	w.Buf = append(w.Buf, '"')
	if w.SnakeCase {
		w.Buf = appendSnakeCase(w.Buf, name)
	} else {
		w.Buf = append(w.Buf, name...)
	}
	w.Buf = append(w.Buf, '"', ':')
	return w
}

func appendSnakeCase(b []byte, name string) []byte {
	for i := range len(name) {
		if c := name[i]; 'A' <= c && c <= 'Z' {
			b = append(b, '_', c-'A'+'a')
		} else {
			b = append(b, c)
		}
	}
	return b
}

// StartEscapedField starts a member with any name.
func (w *Encoder) StartEscapedField(name string) {
	w.WriteComma()
	w.WriteString(name)
	w.Buf = append(w.Buf, ':')
}

// WriteOptionalString writes a member unless s is empty.
func (w *Encoder) WriteOptionalString(name, s string) {
	if s != "" {
		w.StartField(name).WriteString(s)
	}
}

// WriteOptionalFlag writes a member if on is true.
func (w *Encoder) WriteOptionalFlag(name string, on bool) {
	if on {
		w.StartField(name).WriteLiteral("true")
	}
}

// WriteOptionalList writes a member unless the list is empty.
func (w *Encoder) WriteOptionalList(name string, list any) {
	if v := reflect.ValueOf(list); v.Len() > 0 {
		before := w.Err
		w.StartField(name).writeTypedList(v)
		w.AddErrorKey(before, name)
	}
}

// WriteOptionalValue writes a free-form member unless v is nil.
func (w *Encoder) WriteOptionalValue(name string, v any) {
	if v != nil {
		before := w.Err
		w.StartField(name).WriteValue(v)
		w.AddErrorKey(before, name)
	}
}

// WriteOptional writes the value that p points to, unless p is nil.
func (w *Encoder) WriteOptional(name string, p any) {
	if v := reflect.ValueOf(p); !v.IsNil() {
		before := w.Err
		w.StartField(name).WriteTyped(v)
		w.AddErrorKey(before, name)
	}
}

// WriteTimeField writes a member with a time.
func (w *Encoder) WriteTimeField(name string, t time.Time) {
	before := w.Err
	w.StartField(name).writeTime(t)
	w.AddErrorKey(before, name)
}

// WriteFloatField writes a member with a float.
func (w *Encoder) WriteFloatField(name string, f float64) {
	before := w.Err
	w.StartField(name).writeFloat(f, 64)
	w.AddErrorKey(before, name)
}

// WriteMapField writes a free-form map.
func (w *Encoder) WriteMapField(name string, m map[string]any) {
	before := w.Err
	w.StartField(name).writeObject(m)
	w.AddErrorKey(before, name)
}

// WriteLiteral writes JSON as it is.
func (w *Encoder) WriteLiteral(s string) { w.Buf = append(w.Buf, s...) }

// WriteInt writes an integer.
func (w *Encoder) WriteInt(n int64) { w.Buf = strconv.AppendInt(w.Buf, n, 10) }

// writeFloat writes a number that is decoded as a float: 3 is 3.0.
func (w *Encoder) writeFloat(f float64, bits int) {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		w.SetError("%v is not a JSON number", f)
		return
	}
	format := byte('f')
	if abs := math.Abs(f); abs != 0 && (abs < 1e-6 || abs >= 1e21) {
		format = 'e'
	}
	start := len(w.Buf)
	w.Buf = strconv.AppendFloat(w.Buf, f, format, -1, bits)
	if !bytes.ContainsAny(w.Buf[start:], ".e") {
		w.Buf = append(w.Buf, '.', '0')
	}
}

// WriteBase64 writes bytes in the URL-safe alphabet.
func (w *Encoder) WriteBase64(b []byte) {
	w.Buf = append(w.Buf, '"')
	w.Buf = base64.URLEncoding.AppendEncode(w.Buf, b)
	w.Buf = append(w.Buf, '"')
}

// WriteRawJSON writes JSON without white space: a line feed would break an
// event stream.
func (w *Encoder) WriteRawJSON(text json.RawMessage) {
	buf := bytes.NewBuffer(w.Buf)
	if err := json.Compact(buf, text); err != nil {
		w.SetError("invalid JSON: %v", err)
		return
	}
	w.Buf = buf.Bytes()
}

// writeTime writes seconds since the Unix epoch with microsecond precision. The
// zero time is 0.
func (w *Encoder) writeTime(t time.Time) {
	if t.IsZero() {
		w.WriteLiteral("0.0")
		return
	}
	if !isTimeInRange(t) {
		w.SetError("time %v is outside the years 1 to 9999", t)
		return
	}
	w.Buf = appendSeconds(w.Buf, t.UnixMicro(), 6)
}

// WriteString writes a string with only the required escapes; bytes that are
// not UTF-8 become U+FFFD.
func (w *Encoder) WriteString(s string) { w.Buf = AppendString(w.Buf, s) }

// AppendString is [Encoder.WriteString] without an encoder.
func AppendString(b []byte, s string) []byte {
	b = append(b, '"')
	start := 0
	for i := 0; i < len(s); {
		c, size := s[i], 1
		if c >= utf8.RuneSelf {
			var r rune
			if r, size = utf8.DecodeRuneInString(s[i:]); r != utf8.RuneError || size > 1 {
				i += size
				continue
			}
		} else if c >= ' ' && c != '"' && c != '\\' {
			i++
			continue
		}
		b = append(b, s[start:i]...)
		b = appendEscape(b, c)
		i += size
		start = i
	}
	b = append(b, s[start:]...)
	return append(b, '"')
}

func appendEscape(b []byte, c byte) []byte {
	switch {
	case c >= utf8.RuneSelf:
		return utf8.AppendRune(b, utf8.RuneError)
	case c == '"', c == '\\':
		return append(b, '\\', c)
	case c == '\n':
		return append(b, `\n`...)
	case c == '\r':
		return append(b, `\r`...)
	case c == '\t':
		return append(b, `\t`...)
	}
	const hex = "0123456789abcdef"
	return append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
}

// WriteValue writes a free-form value: a JSON value, or the result of
// Normalize.
func (w *Encoder) WriteValue(v any) {
	switch v := v.(type) {
	case nil:
		w.WriteLiteral("null")
	case string:
		w.WriteString(v)
	case bool:
		w.Buf = strconv.AppendBool(w.Buf, v)
	case int64:
		w.WriteInt(v)
	case float64:
		w.writeFloat(v, 64)
	case json.Number:
		w.writeNumber(v)
	case map[string]any:
		w.writeObject(v)
	case []any:
		w.writeList(v)
	default:
		w.writeNormalized(v)
	}
}

func (w *Encoder) writeNormalized(v any) {
	n := Normalize(v)
	switch n.(type) {
	case nil, string, bool, int64, float64, json.Number, map[string]any, []any:
		w.WriteValue(n)
	default:
		w.SetError("%T cannot be encoded as JSON", v)
	}
}

func (w *Encoder) writeNumber(n json.Number) {
	r := Decoder{Buf: []byte(n)}
	text := r.readNumber()
	if r.CheckEnd() != nil {
		w.SetError("%q is not a JSON number", string(n))
		return
	}
	w.Buf = append(w.Buf, text...)
}

// enterLevel counts a nesting level.
func (w *Encoder) enterLevel() bool {
	if w.depth++; w.depth > MaxDepth {
		w.SetError("nesting exceeds the limit of %d", MaxDepth)
		return false
	}
	return true
}

// writeObject writes a free-form map, nulls included, keys sorted; nil is
// empty.
func (w *Encoder) writeObject(m map[string]any) {
	w.OpenBracket('{')
	defer w.CloseBracket('}')
	if len(m) == 0 {
		return
	}
	if w.enterLevel() {
		var few [16]string
		for _, k := range sortedKeys(few[:0], m) {
			before := w.Err
			w.StartEscapedField(k)
			w.WriteValue(m[k])
			w.AddErrorKey(before, k)
		}
	}
	w.depth--
}

func sortedKeys(keys []string, m map[string]any) []string {
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

func (w *Encoder) writeList(l []any) {
	w.OpenBracket('[')
	if w.enterLevel() {
		for i, v := range l {
			before := w.Err
			w.WriteComma()
			w.WriteValue(v)
			w.AddErrorIndex(before, i)
		}
	}
	w.depth--
	w.CloseBracket(']')
}
