package adkjson

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"

	"agenthost/internal/number"
)

// A Decoder decodes JSON. After the first error it is at the input's end and every method returns
// the zero value.
type Decoder struct {
	// Buf is the input.
	Buf   []byte
	pos   int
	depth int
	// Err is the first error.
	Err *Error

	// Strict rejects unknown struct keys.
	Strict bool
	// Suggest returns the known key that is nearest to an unknown one, or "". Strict
	// decoders need it.
	Suggest func(key string, known []string) string
	// FindField, if set, returns a pointer to the field with a camelCase name in the struct that p
	// points to, or nil to search the struct's tags.
	FindField func(p any, name []byte) any
	// ReadCustom, if set, reads a value into the variable that p points to and returns
	// true, or returns false for types without own rules.
	ReadCustom func(r *Decoder, p any) bool
}

// SetError records an error at the current value unless there is one.
func (r *Decoder) SetError(format string, args ...any) { r.setError(format, args...) }

func (r *Decoder) setError(format string, args ...any) {
	if r.Err == nil {
		r.Err = &Error{Message: fmt.Sprintf(format, args...)}
	}
	r.pos = len(r.Buf)
}

// failExpected sets an error with the expected and the actual value.
func (r *Decoder) failExpected(what string) {
	r.setError("expected %s, got %s", what, r.describeNext())
}

func (r *Decoder) describeNext() string {
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
	case r.pos == len(r.Buf):
		return "the end of the text"
	default:
		return fmt.Sprintf("%q at byte %d", c, r.pos)
	}
}

// CheckEnd checks that the input ends here, and returns the first error with
// keys prepended to its path.
func (r *Decoder) CheckEnd(keys ...any) *Error {
	if r.peekByte(); r.pos < len(r.Buf) {
		r.failExpected("the end of the text")
	}
	if r.Err != nil {
		return r.Err.nestUnder(keys...)
	}
	return nil
}

// peekByte skips white space and returns the next byte, 0 at the end.
func (r *Decoder) peekByte() byte {
	for r.pos < len(r.Buf) {
		switch c := r.Buf[r.pos]; c {
		case ' ', '\n', '\r', '\t':
			r.pos++
		default:
			return c
		}
	}
	return 0
}

// consumeLiteral consumes a literal if it is next.
func (r *Decoder) consumeLiteral(w string) bool {
	if !bytes.HasPrefix(r.Buf[r.pos:], []byte(w)) {
		return false
	}
	r.pos += len(w)
	return true
}

// ConsumeNull consumes a null if it is next.
func (r *Decoder) ConsumeNull() bool { return r.peekByte() == 'n' && r.consumeLiteral("null") }

// ReadObject calls each for every key in order, with the reader at its value.
// The key must not be retained.
func (r *Decoder) ReadObject(each func(key []byte)) {
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
		if each(key); r.Err != nil {
			r.Err = r.Err.nestUnder(string(key))
		}
	}
}

// consumeEmptyObject consumes {} if it is next.
func (r *Decoder) consumeEmptyObject() bool {
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

// ReadList calls each for every item in order, with the reader at the item.
func (r *Decoder) ReadList(each func(i int)) {
	if !r.enterContainer('[', "a list") {
		return
	}
	for i := 0; r.hasMoreItems(']', i == 0); i++ {
		if each(i); r.Err != nil {
			r.Err = r.Err.nestUnder(i)
		}
	}
}

func (r *Decoder) enterContainer(c byte, want string) bool {
	if r.peekByte() != c {
		r.failExpected(want)
		return false
	}
	r.pos++
	if r.depth++; r.depth > maxDocumentDepth {
		r.setError("nesting exceeds the limit of %d", MaxDepth)
		return false
	}
	return true
}

// hasMoreItems consumes a comma, or the end of a list or object.
func (r *Decoder) hasMoreItems(end byte, first bool) bool {
	c := r.peekByte()
	switch {
	case r.Err != nil:
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
func (r *Decoder) readString() string { return string(r.readStringBytes()) }

// readPlainString reads a string of printable ASCII without escapes, as most are. It returns false for another
// value, and reads nothing.
func (r *Decoder) readPlainString() (s []byte, isPlain bool) {
	if r.peekByte() != '"' {
		return nil, false
	}
	start := r.pos + 1
	n := bytes.IndexByte(r.Buf[start:], '"')
	if n < 0 || !isPlainASCII(r.Buf[start:start+n]) {
		return nil, false
	}
	r.pos = start + n + 1
	return r.Buf[start : start+n], true
}

// isPlainASCII reports whether a string has printable ASCII only, and no backslash. It looks at eight bytes at
// a time: the high bit of a byte in control, escape or word marks one that is not plain.
func isPlainASCII(s []byte) bool {
	const ones, highBits = 0x0101010101010101, 0x8080808080808080
	for ; len(s) >= 8; s = s[8:] {
		word := binary.LittleEndian.Uint64(s)
		control := (word - ' '*ones) &^ word
		other := word ^ '\\'*ones // 0 for a backslash
		escape := (other - ones) &^ other
		if (control|escape|word)&highBits != 0 {
			return false
		}
	}
	for _, c := range s {
		if c < ' ' || c == '\\' || c >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// readStringBytes reads a string. The result aliases the input if possible.
func (r *Decoder) readStringBytes() []byte {
	if s, isPlain := r.readPlainString(); isPlain {
		return s
	}
	if r.peekByte() != '"' {
		r.failExpected("a string")
		return nil
	}
	r.pos++
	ascii := true
	for i := r.pos; i < len(r.Buf); i++ {
		switch c := r.Buf[i]; {
		case c == '"':
			s := r.Buf[r.pos:i]
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
func (r *Decoder) readEscapedString(i int) []byte {
	s := bytes.Clone(r.Buf[r.pos:i])
	for r.pos = i; r.pos < len(r.Buf); {
		c := r.Buf[r.pos]
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
func (r *Decoder) readEscape(s []byte) []byte {
	if r.pos == len(r.Buf) {
		return s
	}
	c := r.Buf[r.pos]
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
func (r *Decoder) readEscapedRune() rune {
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

func (r *Decoder) readHexDigits() rune {
	if len(r.Buf)-r.pos < 4 {
		r.setError("unterminated string")
		return 0
	}
	n, err := strconv.ParseUint(string(r.Buf[r.pos:r.pos+4]), 16, 16)
	if err != nil {
		r.setError("expected four hexadecimal digits at byte %d", r.pos)
		return 0
	}
	r.pos += 4
	return rune(n)
}

// readNumber consumes a number and returns its text.
func (r *Decoder) readNumber() []byte {
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
	return r.Buf[start:r.pos]
}

func (r *Decoder) skipSign(signs string) {
	if r.pos < len(r.Buf) && bytes.IndexByte([]byte(signs), r.Buf[r.pos]) >= 0 {
		r.pos++
	}
}

func (r *Decoder) skipDigits() bool {
	start := r.pos
	for r.pos < len(r.Buf) && '0' <= r.Buf[r.pos] && r.Buf[r.pos] <= '9' {
		r.pos++
	}
	return r.pos > start
}

func (r *Decoder) readBool() bool {
	switch {
	case r.peekByte() == 't' && r.consumeLiteral("true"):
		return true
	case r.peekByte() == 'f' && r.consumeLiteral("false"):
		return false
	}
	r.failExpected("true or false")
	return false
}

// ReadValue reads a free-form value; see [number.Parse] for its numbers.
func (r *Decoder) ReadValue() any {
	switch c := r.peekByte(); c {
	case '"':
		return r.readString()
	case '{':
		return r.ReadFreeMap()
	case '[':
		l := []any{}
		r.ReadList(func(int) { l = append(l, r.ReadValue()) })
		return l
	case 't', 'f':
		return r.readBool()
	default:
		if r.ConsumeNull() {
			return nil
		}
		if c != '-' && (c < '0' || c > '9') {
			r.failExpected("a value")
			return nil
		}
		return number.Parse(string(r.readNumber()))
	}
}

// ReadFreeMap reads an object with free-form keys.
func (r *Decoder) ReadFreeMap() map[string]any {
	m := map[string]any{}
	r.ReadObject(func(key []byte) { m[string(key)] = r.ReadValue() })
	return m
}

// SkipValue validates and skips a value.
func (r *Decoder) SkipValue() {
	switch r.peekByte() {
	case '"':
		r.readStringBytes()
	case '{':
		r.ReadObject(func([]byte) { r.SkipValue() })
	case '[':
		r.ReadList(func(int) { r.SkipValue() })
	default:
		r.ReadValue()
	}
}

// ReadRawValue validates a value and returns its text, which aliases the input.
func (r *Decoder) ReadRawValue() json.RawMessage {
	r.peekByte()
	start := r.pos
	if _, isPlain := r.readPlainString(); isPlain {
		return r.Buf[start:r.pos]
	}
	if r.SkipValue(); r.Err != nil {
		return nil
	}
	return validUTF8(r.Buf[start:r.pos])
}

// CompactJSON returns a copy of a JSON text without white space.
func CompactJSON(text json.RawMessage) json.RawMessage {
	var b bytes.Buffer
	if json.Compact(&b, text) != nil {
		return nil
	}
	return b.Bytes()
}
