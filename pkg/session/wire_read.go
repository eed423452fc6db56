package session

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// A reader walks through one JSON text. After the first error it stands at the
// end and every method returns the zero value.
type reader struct {
	b     []byte
	pos   int
	depth int
	// strict makes an unknown key an error where keys are fixed.
	strict bool
	err    *FieldError
}

func (r *reader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = &FieldError{Message: fmt.Sprintf(format, args...)}
	}
	r.pos = len(r.b)
}

// want fails with what stands here instead of what should.
func (r *reader) want(what string) {
	r.fail("want %s, got %s", what, r.found())
}

func (r *reader) found() string {
	switch c := r.peek(); {
	case c == '"':
		return "a string"
	case c == '{':
		return "an object"
	case c == '[':
		return "a list"
	case r.word("true"), r.word("false"):
		return "a boolean"
	case r.word("null"):
		return "null"
	case c == '-', '0' <= c && c <= '9':
		return "a number"
	case r.pos == len(r.b):
		return "the end of the text"
	default:
		return fmt.Sprintf("%q at byte %d", c, r.pos)
	}
}

// end checks that nothing follows, and returns the first error, under the keys
// that lead to the text.
func (r *reader) end(keys ...any) error {
	if r.peek(); r.pos < len(r.b) {
		r.want("the end of the text")
	}
	if r.err != nil {
		return r.err.under(keys...)
	}
	return nil
}

// peek skips white space and returns the next byte, 0 at the end.
func (r *reader) peek() byte {
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

// word steps over a literal, if it is the one that stands here.
func (r *reader) word(w string) bool {
	if !bytes.HasPrefix(r.b[r.pos:], []byte(w)) {
		return false
	}
	r.pos += len(w)
	return true
}

// null steps over a null, if one stands here.
func (r *reader) null() bool { return r.peek() == 'n' && r.word("null") }

// object calls each for every key, in order, when its value is next. The key
// must not be kept.
func (r *reader) object(each func(key []byte)) {
	if !r.enter('{', "an object") {
		return
	}
	for first := true; r.more('}', first); first = false {
		key := r.chars()
		if r.peek() != ':' {
			r.want("a colon")
			return
		}
		r.pos++
		if each(key); r.err != nil {
			r.err = r.err.under(string(key))
		}
	}
}

// emptyObject steps over {}, if it stands here.
func (r *reader) emptyObject() bool {
	if r.peek() != '{' {
		return false
	}
	start := r.pos
	r.pos++
	if r.peek() != '}' {
		r.pos = start
		return false
	}
	r.pos++
	return true
}

// list calls each for every item, in order, when it is next.
func (r *reader) list(each func(i int)) {
	if !r.enter('[', "a list") {
		return
	}
	for i := 0; r.more(']', i == 0); i++ {
		if each(i); r.err != nil {
			r.err = r.err.under(i)
		}
	}
}

func (r *reader) enter(c byte, want string) bool {
	if r.peek() != c {
		r.want(want)
		return false
	}
	r.pos++
	if r.depth++; r.depth > maxDepth {
		r.fail("nested deeper than %d", maxDepth)
		return false
	}
	return true
}

// more steps over the comma or the end of a list or object.
func (r *reader) more(end byte, first bool) bool {
	c := r.peek()
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
	r.want("a comma or " + strconv.QuoteRune(rune(end)))
	return false
}

// text reads a string.
func (r *reader) text() string { return string(r.chars()) }

// chars reads a string; the bytes are part of the text where that is possible.
func (r *reader) chars() []byte {
	if r.peek() != '"' {
		r.want("a string")
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
			return r.escaped(i)
		case c < ' ':
			r.fail("control character in a string at byte %d", i)
			return nil
		case c >= utf8.RuneSelf:
			ascii = false
		}
	}
	r.fail("string without end")
	return nil
}

func validUTF8(s []byte) []byte {
	if utf8.Valid(s) {
		return s
	}
	return bytes.ToValidUTF8(s, []byte("\ufffd"))
}

// escaped reads a string that has its first escape at i.
func (r *reader) escaped(i int) []byte {
	s := bytes.Clone(r.b[r.pos:i])
	for r.pos = i; r.pos < len(r.b); {
		c := r.b[r.pos]
		r.pos++
		switch {
		case c == '"':
			return validUTF8(s)
		case c == '\\':
			s = r.escape(s)
		case c < ' ':
			r.fail("control character in a string at byte %d", r.pos-1)
			return nil
		default:
			s = append(s, c)
		}
	}
	r.fail("string without end")
	return nil
}

// escape reads what follows a backslash.
func (r *reader) escape(s []byte) []byte {
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
		return utf8.AppendRune(s, r.escapedRune())
	}
	r.fail("unknown escape %q at byte %d", c, r.pos-1)
	return s
}

// escapedRune reads what follows \u. Half of a surrogate pair is U+FFFD.
func (r *reader) escapedRune() rune {
	c := r.hex4()
	if !utf16.IsSurrogate(c) {
		return c
	}
	back := r.pos
	if r.word(`\u`) {
		if pair := utf16.DecodeRune(c, r.hex4()); pair != utf8.RuneError {
			return pair
		}
		r.pos = back
	}
	return utf8.RuneError
}

func (r *reader) hex4() rune {
	if len(r.b)-r.pos < 4 {
		r.fail("string without end")
		return 0
	}
	n, err := strconv.ParseUint(string(r.b[r.pos:r.pos+4]), 16, 16)
	if err != nil {
		r.fail("want four hexadecimal digits at byte %d", r.pos)
		return 0
	}
	r.pos += 4
	return rune(n)
}

// number steps over a number and returns its text.
func (r *reader) number() []byte {
	if c := r.peek(); c != '-' && (c < '0' || c > '9') {
		r.want("a number")
		return nil
	}
	start := r.pos
	r.sign("-")
	ok := r.word("0") || r.digits()
	if ok && r.word(".") {
		ok = r.digits()
	}
	if ok && (r.word("e") || r.word("E")) {
		r.sign("+-")
		ok = r.digits()
	}
	if !ok {
		r.fail("bad number at byte %d", start)
		return nil
	}
	return r.b[start:r.pos]
}

func (r *reader) sign(signs string) {
	if r.pos < len(r.b) && bytes.IndexByte([]byte(signs), r.b[r.pos]) >= 0 {
		r.pos++
	}
}

func (r *reader) digits() bool {
	start := r.pos
	for r.pos < len(r.b) && '0' <= r.b[r.pos] && r.b[r.pos] <= '9' {
		r.pos++
	}
	return r.pos > start
}

func (r *reader) boolean() bool {
	switch {
	case r.peek() == 't' && r.word("true"):
		return true
	case r.peek() == 'f' && r.word("false"):
		return false
	}
	r.want("true or false")
	return false
}

// value reads a free-form value; integers are int64, or json.Number when they
// are too large for that.
func (r *reader) value() any {
	switch c := r.peek(); c {
	case '"':
		return r.text()
	case '{':
		return r.freeMap()
	case '[':
		l := []any{}
		r.list(func(int) { l = append(l, r.value()) })
		return l
	case 't', 'f':
		return r.boolean()
	default:
		if r.null() {
			return nil
		}
		if c != '-' && (c < '0' || c > '9') {
			r.want("a value")
			return nil
		}
		return number(string(r.number()))
	}
}

func (r *reader) freeMap() map[string]any {
	m := map[string]any{}
	r.object(func(key []byte) { m[string(key)] = r.value() })
	return m
}

// skip checks a value and steps over it.
func (r *reader) skip() {
	switch r.peek() {
	case '"':
		r.chars()
	case '{':
		r.object(func([]byte) { r.skip() })
	case '[':
		r.list(func(int) { r.skip() })
	default:
		r.value()
	}
}

// raw checks a value and returns its text, which is part of the whole.
func (r *reader) raw() json.RawMessage {
	r.peek()
	start := r.pos
	if r.skip(); r.err != nil {
		return nil
	}
	return validUTF8(r.b[start:r.pos])
}

// compact returns a copy of a JSON text without white space.
func compact(text json.RawMessage) json.RawMessage {
	var b bytes.Buffer
	if json.Compact(&b, text) != nil {
		return nil
	}
	return b.Bytes()
}
