package session

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

// maxDepth bounds how deep JSON values are nested, read or written.
const maxDepth = 1000

// A writer appends JSON to b. After an error it still writes, but what it
// wrote is worth nothing.
type writer struct {
	b     []byte
	depth int
	err   *FieldError
	form  Form
}

func (w *writer) fail(format string, args ...any) {
	if w.err == nil {
		w.err = &FieldError{Message: fmt.Sprintf(format, args...)}
	}
}

// inKey says that an error that came up since before is inside a member.
func (w *writer) inKey(before *FieldError, key string) {
	if w.err != before {
		w.err = w.err.under(key)
	}
}

// inItem is inKey for lists.
func (w *writer) inItem(before *FieldError, i int) {
	if w.err != before {
		w.err = w.err.under(i)
	}
}

func (w *writer) open(c byte)  { w.b = append(w.b, c) }
func (w *writer) close(c byte) { w.b = append(w.b, c) }

// comma separates two members; the first of a list or object has none.
func (w *writer) comma() {
	if c := w.b[len(w.b)-1]; c != '{' && c != '[' {
		w.b = append(w.b, ',')
	}
}

// field starts a member whose name needs no escapes.
func (w *writer) field(name string) *writer {
	w.comma()
	w.b = append(w.b, '"')
	w.b = append(w.b, name...)
	w.b = append(w.b, '"', ':')
	return w
}

// key starts a member with any name.
func (w *writer) key(name string) {
	w.comma()
	w.text(name)
	w.b = append(w.b, ':')
}

func (w *writer) optionalText(name, s string) {
	if s != "" {
		w.field(name).text(s)
	}
}

func (w *writer) flag(name string, on bool) {
	if on {
		w.field(name).literal("true")
	}
}

func (w *writer) optionalList(name string, list any) {
	if v := reflect.ValueOf(list); v.Len() > 0 {
		before := w.err
		w.field(name).typedList(v)
		w.inKey(before, name)
	}
}

func (w *writer) optionalValue(name string, v any) {
	if v != nil {
		before := w.err
		w.field(name).value(v)
		w.inKey(before, name)
	}
}

// optional writes what p points to, unless p is nil.
func (w *writer) optional(name string, p any) {
	if v := reflect.ValueOf(p); !v.IsNil() {
		before := w.err
		w.field(name).typed(v)
		w.inKey(before, name)
	}
}

func (w *writer) timeField(name string, t time.Time) {
	before := w.err
	w.field(name).time(t)
	w.inKey(before, name)
}

func (w *writer) floatField(name string, f float64) {
	before := w.err
	w.field(name).float(f, 64)
	w.inKey(before, name)
}

// member writes a free-form map.
func (w *writer) member(name string, m map[string]any) {
	before := w.err
	w.field(name).object(m)
	w.inKey(before, name)
}

func (w *writer) literal(s string) { w.b = append(w.b, s...) }

func (w *writer) int(n int64) { w.b = strconv.AppendInt(w.b, n, 10) }

// float writes a number that is read as a float again: 3 is 3.0.
func (w *writer) float(f float64, bits int) {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		w.fail("%v is not a JSON number", f)
		return
	}
	format := byte('f')
	if abs := math.Abs(f); abs != 0 && (abs < 1e-6 || abs >= 1e21) {
		format = 'e'
	}
	start := len(w.b)
	w.b = strconv.AppendFloat(w.b, f, format, -1, bits)
	if !bytes.ContainsAny(w.b[start:], ".e") {
		w.b = append(w.b, '.', '0')
	}
}

func (w *writer) bytes(b []byte) {
	w.b = append(w.b, '"')
	w.b = base64.URLEncoding.AppendEncode(w.b, b)
	w.b = append(w.b, '"')
}

// raw writes a JSON text without white space: a line feed would break an event
// stream.
func (w *writer) raw(text json.RawMessage) {
	buf := bytes.NewBuffer(w.b)
	if err := json.Compact(buf, text); err != nil {
		w.fail("not JSON: %v", err)
		return
	}
	w.b = buf.Bytes()
}

// time writes seconds since the epoch, to the microsecond. The zero time is 0.
func (w *writer) time(t time.Time) {
	if t.IsZero() {
		w.literal("0.0")
		return
	}
	if !inRange(t) {
		w.fail("time %v is outside the years 1 to 9999", t)
		return
	}
	w.b = appendSeconds(w.b, t.UnixMicro(), 6)
}

// text writes a string. Only what JSON demands is escaped; bytes that are not
// UTF-8 become U+FFFD.
func (w *writer) text(s string) {
	w.b = append(w.b, '"')
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
		w.b = append(w.b, s[start:i]...)
		w.b = appendEscape(w.b, c)
		i += size
		start = i
	}
	w.b = append(w.b, s[start:]...)
	w.b = append(w.b, '"')
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

// value writes a free-form value: what JSON has, or whatever Normalize makes
// of it.
func (w *writer) value(v any) {
	switch v := v.(type) {
	case nil:
		w.literal("null")
	case string:
		w.text(v)
	case bool:
		w.b = strconv.AppendBool(w.b, v)
	case int64:
		w.int(v)
	case float64:
		w.float(v, 64)
	case json.Number:
		w.number(v)
	case map[string]any:
		w.object(v)
	case []any:
		w.list(v)
	default:
		w.other(v)
	}
}

func (w *writer) other(v any) {
	n := Normalize(v)
	switch n.(type) {
	case nil, string, bool, int64, float64, json.Number, map[string]any, []any:
		w.value(n)
	default:
		w.fail("a %T cannot be written as JSON", v)
	}
}

func (w *writer) number(n json.Number) {
	r := reader{b: []byte(n)}
	text := r.number()
	if r.end() != nil {
		w.fail("%q is not a JSON number", string(n))
		return
	}
	w.b = append(w.b, text...)
}

// enter counts a level of nesting.
func (w *writer) enter() bool {
	if w.depth++; w.depth > maxDepth {
		w.fail("nested deeper than %d", maxDepth)
		return false
	}
	return true
}

// object writes a free-form map, nulls included, keys sorted; nil is empty.
func (w *writer) object(m map[string]any) {
	w.open('{')
	defer w.close('}')
	if len(m) == 0 {
		return
	}
	if w.enter() {
		var few [16]string
		for _, k := range sortedKeys(few[:0], m) {
			before := w.err
			w.key(k)
			w.value(m[k])
			w.inKey(before, k)
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

func (w *writer) list(l []any) {
	w.open('[')
	if w.enter() {
		for i, v := range l {
			before := w.err
			w.comma()
			w.value(v)
			w.inItem(before, i)
		}
	}
	w.depth--
	w.close(']')
}
