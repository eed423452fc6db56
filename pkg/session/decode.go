package session

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// DecodeMap decodes a JSON object with free-form keys, such as a state.
// Integers are int64, or json.Number if they do not fit; other numbers are
// float64. A null is a nil map. A failure is a [FieldError] whose path begins
// with keys.
func DecodeMap(b []byte, keys ...any) (map[string]any, error) {
	r := reader{b: b}
	if r.consumeNull() {
		return nil, r.checkEnd(keys...)
	}
	m := r.readFreeMap()
	if err := r.checkEnd(keys...); err != nil {
		return nil, err
	}
	return m, nil
}

// DecodeValue decodes any JSON value by the rules of [DecodeMap].
func DecodeValue(b []byte) (any, error) {
	r := reader{b: b}
	v := r.readValue()
	return v, r.checkEnd()
}

// A reader decodes JSON. After the first error it is at the end of the input
// and every method returns the zero value.
type reader struct {
	b     []byte
	pos   int
	depth int
	// strict rejects unknown keys of structs.
	strict bool
	err    *FieldError
}

func (r *reader) setError(format string, args ...any) {
	if r.err == nil {
		r.err = &FieldError{Message: fmt.Sprintf(format, args...)}
	}
	r.pos = len(r.b)
}

// failExpected sets an error with the expected and the actual value.
func (r *reader) failExpected(what string) {
	r.setError("expected %s, got %s", what, r.describeNext())
}

func (r *reader) describeNext() string {
	switch c := r.peekByte(); {
	case c == '"':
		return "a string"
	case c == '{':
		return "an object"
	case c == '[':
		return "a list"
	case r.consumeLiteral("true"), r.consumeLiteral("false"):
		return "a boolean"
	case r.consumeLiteral("null"):
		return "null"
	case c == '-', '0' <= c && c <= '9':
		return "a number"
	case r.pos == len(r.b):
		return "the end of the text"
	default:
		return fmt.Sprintf("%q at byte %d", c, r.pos)
	}
}

// checkEnd checks that the input ends here, and returns the first error with
// keys prepended to its path.
func (r *reader) checkEnd(keys ...any) error {
	if r.peekByte(); r.pos < len(r.b) {
		r.failExpected("the end of the text")
	}
	if r.err != nil {
		return r.err.nestUnder(keys...)
	}
	return nil
}

// peekByte skips white space and returns the next byte, 0 at the end.
func (r *reader) peekByte() byte {
	for r.pos < len(r.b) {
		switch c := r.b[r.pos]; c {
		case ' ', '\n', '\r', '\t':
			r.pos++
		default:
			return c
		}
	}
	return 0
}

// consumeLiteral consumes a literal if it is next.
func (r *reader) consumeLiteral(w string) bool {
	if !bytes.HasPrefix(r.b[r.pos:], []byte(w)) {
		return false
	}
	r.pos += len(w)
	return true
}

// consumeNull consumes a null if it is next.
func (r *reader) consumeNull() bool { return r.peekByte() == 'n' && r.consumeLiteral("null") }

// readObject calls each for every key in order, with the reader at its value.
// The key must not be retained.
func (r *reader) readObject(each func(key []byte)) {
	if !r.enterContainer('{', "an object") {
		return
	}
	for first := true; r.hasMoreItems('}', first); first = false {
		key := r.readStringBytes()
		if r.peekByte() != ':' {
			r.failExpected("a colon")
			return
		}
		r.pos++
		if each(key); r.err != nil {
			r.err = r.err.nestUnder(string(key))
		}
	}
}

// consumeEmptyObject consumes {} if it is next.
func (r *reader) consumeEmptyObject() bool {
	if r.peekByte() != '{' {
		return false
	}
	start := r.pos
	r.pos++
	if r.peekByte() != '}' {
		r.pos = start
		return false
	}
	r.pos++
	return true
}

// readList calls each for every item in order, with the reader at the item.
func (r *reader) readList(each func(i int)) {
	if !r.enterContainer('[', "a list") {
		return
	}
	for i := 0; r.hasMoreItems(']', i == 0); i++ {
		if each(i); r.err != nil {
			r.err = r.err.nestUnder(i)
		}
	}
}

func (r *reader) enterContainer(c byte, want string) bool {
	if r.peekByte() != c {
		r.failExpected(want)
		return false
	}
	r.pos++
	if r.depth++; r.depth > maxDepth {
		r.setError("nesting exceeds the limit of %d", maxDepth)
		return false
	}
	return true
}

// hasMoreItems consumes a comma, or the end of a list or object.
func (r *reader) hasMoreItems(end byte, first bool) bool {
	c := r.peekByte()
	switch {
	case r.err != nil:
		return false
	case c == end:
		r.pos++
		r.depth--
		return false
	case first:
		return true
	case c == ',':
		r.pos++
		return true
	}
	r.failExpected("a comma or " + strconv.QuoteRune(rune(end)))
	return false
}

// readString reads a string.
func (r *reader) readString() string { return string(r.readStringBytes()) }

// readStringBytes reads a string. The result aliases the input if possible.
func (r *reader) readStringBytes() []byte {
	if r.peekByte() != '"' {
		r.failExpected("a string")
		return nil
	}
	r.pos++
	ascii := true
	for i := r.pos; i < len(r.b); i++ {
		switch c := r.b[i]; {
		case c == '"':
			s := r.b[r.pos:i]
			r.pos = i + 1
			if !ascii {
				s = validUTF8(s)
			}
			return s
		case c == '\\':
			return r.readEscapedString(i)
		case c < ' ':
			r.setError("control character in a string at byte %d", i)
			return nil
		case c >= utf8.RuneSelf:
			ascii = false
		}
	}
	r.setError("unterminated string")
	return nil
}

func validUTF8(s []byte) []byte {
	if utf8.Valid(s) {
		return s
	}
	return bytes.ToValidUTF8(s, []byte("\ufffd"))
}

// readEscapedString reads a string whose first escape is at i.
func (r *reader) readEscapedString(i int) []byte {
	s := bytes.Clone(r.b[r.pos:i])
	for r.pos = i; r.pos < len(r.b); {
		c := r.b[r.pos]
		r.pos++
		switch {
		case c == '"':
			return validUTF8(s)
		case c == '\\':
			s = r.readEscape(s)
		case c < ' ':
			r.setError("control character in a string at byte %d", r.pos-1)
			return nil
		default:
			s = append(s, c)
		}
	}
	r.setError("unterminated string")
	return nil
}

// readEscape reads an escape after its backslash.
func (r *reader) readEscape(s []byte) []byte {
	if r.pos == len(r.b) {
		return s
	}
	c := r.b[r.pos]
	r.pos++
	switch c {
	case '"', '\\', '/':
		return append(s, c)
	case 'b':
		return append(s, '\b')
	case 'f':
		return append(s, '\f')
	case 'n':
		return append(s, '\n')
	case 'r':
		return append(s, '\r')
	case 't':
		return append(s, '\t')
	case 'u':
		return utf8.AppendRune(s, r.readEscapedRune())
	}
	r.setError("unknown escape %q at byte %d", c, r.pos-1)
	return s
}

// readEscapedRune reads a \u escape. Half of a surrogate pair is U+FFFD.
func (r *reader) readEscapedRune() rune {
	c := r.readHexDigits()
	if !utf16.IsSurrogate(c) {
		return c
	}
	back := r.pos
	if r.consumeLiteral(`\u`) {
		if pair := utf16.DecodeRune(c, r.readHexDigits()); pair != utf8.RuneError {
			return pair
		}
		r.pos = back
	}
	return utf8.RuneError
}

func (r *reader) readHexDigits() rune {
	if len(r.b)-r.pos < 4 {
		r.setError("unterminated string")
		return 0
	}
	n, err := strconv.ParseUint(string(r.b[r.pos:r.pos+4]), 16, 16)
	if err != nil {
		r.setError("expected four hexadecimal digits at byte %d", r.pos)
		return 0
	}
	r.pos += 4
	return rune(n)
}

// readNumber consumes a number and returns its text.
func (r *reader) readNumber() []byte {
	if c := r.peekByte(); c != '-' && (c < '0' || c > '9') {
		r.failExpected("a number")
		return nil
	}
	start := r.pos
	r.skipSign("-")
	ok := r.consumeLiteral("0") || r.skipDigits()
	if ok && r.consumeLiteral(".") {
		ok = r.skipDigits()
	}
	if ok && (r.consumeLiteral("e") || r.consumeLiteral("E")) {
		r.skipSign("+-")
		ok = r.skipDigits()
	}
	if !ok {
		r.setError("invalid number at byte %d", start)
		return nil
	}
	return r.b[start:r.pos]
}

func (r *reader) skipSign(signs string) {
	if r.pos < len(r.b) && bytes.IndexByte([]byte(signs), r.b[r.pos]) >= 0 {
		r.pos++
	}
}

func (r *reader) skipDigits() bool {
	start := r.pos
	for r.pos < len(r.b) && '0' <= r.b[r.pos] && r.b[r.pos] <= '9' {
		r.pos++
	}
	return r.pos > start
}

func (r *reader) readBool() bool {
	switch {
	case r.peekByte() == 't' && r.consumeLiteral("true"):
		return true
	case r.peekByte() == 'f' && r.consumeLiteral("false"):
		return false
	}
	r.failExpected("true or false")
	return false
}

// readValue reads a free-form value. Integers are int64, or json.Number if they
// do not fit.
func (r *reader) readValue() any {
	switch c := r.peekByte(); c {
	case '"':
		return r.readString()
	case '{':
		return r.readFreeMap()
	case '[':
		l := []any{}
		r.readList(func(int) { l = append(l, r.readValue()) })
		return l
	case 't', 'f':
		return r.readBool()
	default:
		if r.consumeNull() {
			return nil
		}
		if c != '-' && (c < '0' || c > '9') {
			r.failExpected("a value")
			return nil
		}
		return parseNumber(string(r.readNumber()))
	}
}

func (r *reader) readFreeMap() map[string]any {
	m := map[string]any{}
	r.readObject(func(key []byte) { m[string(key)] = r.readValue() })
	return m
}

// skipValue validates and skips a value.
func (r *reader) skipValue() {
	switch r.peekByte() {
	case '"':
		r.readStringBytes()
	case '{':
		r.readObject(func([]byte) { r.skipValue() })
	case '[':
		r.readList(func(int) { r.skipValue() })
	default:
		r.readValue()
	}
}

// readRawValue validates a value and returns its text, which aliases the input.
func (r *reader) readRawValue() json.RawMessage {
	r.peekByte()
	start := r.pos
	if r.skipValue(); r.err != nil {
		return nil
	}
	return validUTF8(r.b[start:r.pos])
}

// compactJSON returns a copy of a JSON text without white space.
func compactJSON(text json.RawMessage) json.RawMessage {
	var b bytes.Buffer
	if json.Compact(&b, text) != nil {
		return nil
	}
	return b.Bytes()
}
