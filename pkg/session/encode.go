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

// A Form selects the fields of the JSON forms of events and sessions. The zero
// value is ADK's form.
type Form struct {
	// Provenance adds the provenance of events.
	Provenance bool
}

// A writer appends JSON to b. After an error it continues, but its output is
// invalid.
type writer struct {
	b     []byte
	depth int
	err   *FieldError
	form  Form
}

func (w *writer) setError(format string, args ...any) {
	if w.err == nil {
		w.err = &FieldError{Message: fmt.Sprintf(format, args...)}
	}
}

// addErrorKey prepends a key to the path of an error that occurred since
// before.
func (w *writer) addErrorKey(before *FieldError, key string) {
	if w.err != before {
		w.err = w.err.nestUnder(key)
	}
}

// addErrorIndex is addErrorKey for lists.
func (w *writer) addErrorIndex(before *FieldError, i int) {
	if w.err != before {
		w.err = w.err.nestUnder(i)
	}
}

func (w *writer) openBracket(c byte) { w.b = append(w.b, c) }

func (w *writer) closeBracket(c byte) { w.b = append(w.b, c) }

// writeComma separates two members; the first member of a list or object has no
// comma.
func (w *writer) writeComma() {
	if c := w.b[len(w.b)-1]; c != '{' && c != '[' {
		w.b = append(w.b, ',')
	}
}

// startField starts a member whose name needs no escapes.
func (w *writer) startField(name string) *writer {
	w.writeComma()
	w.b = append(w.b, '"')
	w.b = append(w.b, name...)
	w.b = append(w.b, '"', ':')
	return w
}

// startEscapedField starts a member with any name.
func (w *writer) startEscapedField(name string) {
	w.writeComma()
	w.writeString(name)
	w.b = append(w.b, ':')
}

func (w *writer) writeOptionalString(name, s string) {
	if s != "" {
		w.startField(name).writeString(s)
	}
}

func (w *writer) writeOptionalFlag(name string, on bool) {
	if on {
		w.startField(name).writeLiteral("true")
	}
}

func (w *writer) writeOptionalList(name string, list any) {
	if v := reflect.ValueOf(list); v.Len() > 0 {
		before := w.err
		w.startField(name).writeTypedList(v)
		w.addErrorKey(before, name)
	}
}

func (w *writer) writeOptionalValue(name string, v any) {
	if v != nil {
		before := w.err
		w.startField(name).writeValue(v)
		w.addErrorKey(before, name)
	}
}

// writeOptional writes the value that p points to, unless p is nil.
func (w *writer) writeOptional(name string, p any) {
	if v := reflect.ValueOf(p); !v.IsNil() {
		before := w.err
		w.startField(name).writeTyped(v)
		w.addErrorKey(before, name)
	}
}

func (w *writer) writeTimeField(name string, t time.Time) {
	before := w.err
	w.startField(name).writeTime(t)
	w.addErrorKey(before, name)
}

func (w *writer) writeFloatField(name string, f float64) {
	before := w.err
	w.startField(name).writeFloat(f, 64)
	w.addErrorKey(before, name)
}

// writeMapField writes a free-form map.
func (w *writer) writeMapField(name string, m map[string]any) {
	before := w.err
	w.startField(name).writeObject(m)
	w.addErrorKey(before, name)
}

func (w *writer) writeLiteral(s string) { w.b = append(w.b, s...) }

func (w *writer) writeInt(n int64) { w.b = strconv.AppendInt(w.b, n, 10) }

// writeFloat writes a number that is decoded as a float: 3 is 3.0.
func (w *writer) writeFloat(f float64, bits int) {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		w.setError("%v is not a JSON number", f)
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

func (w *writer) writeBase64(b []byte) {
	w.b = append(w.b, '"')
	w.b = base64.URLEncoding.AppendEncode(w.b, b)
	w.b = append(w.b, '"')
}

// writeRawJSON writes JSON without white space: a line feed would break an
// event stream.
func (w *writer) writeRawJSON(text json.RawMessage) {
	buf := bytes.NewBuffer(w.b)
	if err := json.Compact(buf, text); err != nil {
		w.setError("invalid JSON: %v", err)
		return
	}
	w.b = buf.Bytes()
}

// writeTime writes seconds since the Unix epoch with microsecond precision. The
// zero time is 0.
func (w *writer) writeTime(t time.Time) {
	if t.IsZero() {
		w.writeLiteral("0.0")
		return
	}
	if !isTimeInRange(t) {
		w.setError("time %v is outside the years 1 to 9999", t)
		return
	}
	w.b = appendSeconds(w.b, t.UnixMicro(), 6)
}

// writeString writes a string with only the required escapes; bytes that are
// not UTF-8 become U+FFFD.
func (w *writer) writeString(s string) {
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

// writeValue writes a free-form value: a JSON value, or the result of
// Normalize.
func (w *writer) writeValue(v any) {
	switch v := v.(type) {
	case nil:
		w.writeLiteral("null")
	case string:
		w.writeString(v)
	case bool:
		w.b = strconv.AppendBool(w.b, v)
	case int64:
		w.writeInt(v)
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

func (w *writer) writeNormalized(v any) {
	n := Normalize(v)
	switch n.(type) {
	case nil, string, bool, int64, float64, json.Number, map[string]any, []any:
		w.writeValue(n)
	default:
		w.setError("%T cannot be encoded as JSON", v)
	}
}

func (w *writer) writeNumber(n json.Number) {
	r := reader{b: []byte(n)}
	text := r.readNumber()
	if r.checkEnd() != nil {
		w.setError("%q is not a JSON number", string(n))
		return
	}
	w.b = append(w.b, text...)
}

// enterLevel counts a level of nesting.
func (w *writer) enterLevel() bool {
	if w.depth++; w.depth > maxDepth {
		w.setError("nesting exceeds the limit of %d", maxDepth)
		return false
	}
	return true
}

// writeObject writes a free-form map, nulls included, keys sorted; nil is
// empty.
func (w *writer) writeObject(m map[string]any) {
	w.openBracket('{')
	defer w.closeBracket('}')
	if len(m) == 0 {
		return
	}
	if w.enterLevel() {
		var few [16]string
		for _, k := range sortedKeys(few[:0], m) {
			before := w.err
			w.startEscapedField(k)
			w.writeValue(m[k])
			w.addErrorKey(before, k)
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

func (w *writer) writeList(l []any) {
	w.openBracket('[')
	if w.enterLevel() {
		for i, v := range l {
			before := w.err
			w.writeComma()
			w.writeValue(v)
			w.addErrorIndex(before, i)
		}
	}
	w.depth--
	w.closeBracket(']')
}
