package adkjson

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/genai"
)

// readNullable reads a value or null, which is the zero value.
func (r *Decoder) readNullable(p any) {
	if r.ConsumeNull() {
		reflect.ValueOf(p).Elem().SetZero()
		return
	}
	r.ReadInto(p)
}

// ReadInto reads a value into the variable p points to. An empty map stays nil,
// as in a new event.
func (r *Decoder) ReadInto(p any) {
	if r.ReadCustom != nil && r.ReadCustom(r, p) {
		return
	}
	switch p := p.(type) {
	case *string:
		*p = r.readString()
	case *bool:
		*p = r.readBool()
	case *[]byte:
		*p = r.readBase64()
	case *json.RawMessage:
		*p = CompactJSON(r.ReadRawValue())
	case *time.Time:
		*p = r.readTime()
	case *time.Duration:
		*p = r.readDuration()
	case *map[string]any:
		if *p = nil; !r.consumeEmptyObject() {
			*p = r.ReadFreeMap()
		}
	case *Object:
		*p = r.ReadFreeMap()
	case *any:
		*p = r.ReadValue()
	case *[]*genai.Part:
		*p = r.readParts()
	default:
		r.readTypedKind(reflect.ValueOf(p).Elem())
	}
}

func (r *Decoder) readTypedKind(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(r.readString())
	case reflect.Int, reflect.Int32, reflect.Int64:
		r.readTypedInt(v)
	case reflect.Float32, reflect.Float64:
		r.readTypedFloat(v)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		r.ReadInto(v.Interface())
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

func (r *Decoder) readTypedInt(v reflect.Value) {
	text := r.readNumber()
	if r.Err != nil {
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

func (r *Decoder) readTypedFloat(v reflect.Value) {
	text := r.readNumber()
	if r.Err != nil {
		return
	}
	f, err := strconv.ParseFloat(string(text), v.Type().Bits())
	if err != nil {
		r.setError("the number %s is out of range", text)
		return
	}
	v.SetFloat(f)
}

func (r *Decoder) readTypedList(v reflect.Value) {
	l := reflect.MakeSlice(v.Type(), 0, 1)
	r.ReadList(func(int) {
		item := reflect.New(v.Type().Elem())
		r.ReadInto(item.Interface())
		l = reflect.Append(l, item.Elem())
	})
	v.Set(l)
}

// readParts is a fast path of readTypedList, because nearly every event has
// parts.
func (r *Decoder) readParts() []*genai.Part {
	l := make([]*genai.Part, 0, 1)
	r.ReadList(func(int) {
		p := new(genai.Part)
		r.ReadInto(p)
		l = append(l, p)
	})
	return l
}

func (r *Decoder) readTypedMap(v reflect.Value) {
	v.SetZero()
	if r.consumeEmptyObject() {
		return
	}
	m := reflect.MakeMap(v.Type())
	r.ReadObject(func(key []byte) {
		item := reflect.New(v.Type().Elem())
		r.ReadInto(item.Interface())
		m.SetMapIndex(reflect.ValueOf(string(key)), item.Elem())
	})
	v.Set(m)
}

// readBase64 reads base64 in either alphabet, padded or not.
func (r *Decoder) readBase64() []byte {
	if b, ok := r.readPlainBase64(); ok {
		return b
	}
	s := r.readStringBytes()
	if r.Err != nil {
		return nil
	}
	b, err := decodeBase64(s)
	if err != nil {
		r.setError("expected base64")
	}
	return b
}

// readPlainBase64 reads base64 without escapes, which the decoder need not read before.
func (r *Decoder) readPlainBase64() ([]byte, bool) {
	if r.peekByte() != '"' {
		return nil, false
	}
	s := r.Buf[r.pos+1:]
	end := bytes.IndexByte(s, '"')
	if end < 0 {
		return nil, false
	}
	s = s[:end]
	for _, c := range []byte("\\\r\n") { // the decoder would skip line breaks
		if bytes.IndexByte(s, c) >= 0 {
			return nil, false
		}
	}
	b, err := decodeBase64(s)
	if err != nil {
		return nil, false
	}
	r.pos += end + len(`""`)
	return b, true
}

func decodeBase64(s []byte) ([]byte, error) {
	s = bytes.TrimRight(s, "=")
	enc := base64.RawStdEncoding
	if bytes.IndexByte(s, '-') >= 0 || bytes.IndexByte(s, '_') >= 0 {
		enc = base64.RawURLEncoding
	}
	b := make([]byte, enc.DecodedLen(len(s)))
	n, err := enc.Decode(b, s)
	return b[:n], err
}

func (r *Decoder) readStruct(v reflect.Value) {
	find := func(name []byte) any {
		if r.FindField != nil {
			if p := r.FindField(v.Addr().Interface(), name); p != nil {
				return p
			}
		}
		return FieldPointer(v.Addr().Interface(), name)
	}
	r.ReadFields(find, func(key, name []byte) { r.HandleUnknownKey(key, name, v.Addr().Interface()) })
}

// FieldPointer returns a pointer to the field with a camelCase name in the struct that p points to,
// or nil.
func FieldPointer(p any, name []byte) any {
	v := reflect.ValueOf(p).Elem()
	for i := range v.NumField() {
		if wire := wireName(v.Type().Field(i)); wire == string(name) && wire != "-" {
			return v.Field(i).Addr().Interface()
		}
	}
	return nil
}

// ReadFields reads an object with keys in either spelling. find returns a
// pointer to the field with a camelCase name, or nil; then unknown is called
// with the key as it is written, its camelCase name, and the reader at the value.
func (r *Decoder) ReadFields(find func(name []byte) any, unknown func(key, name []byte)) {
	// If both spellings occur, camelCase wins, as in adk-python.
	var few [16]any
	camel := few[:0]
	r.ReadObject(func(key []byte) {
		name := camelCase(key)
		p := find(name)
		seen := slices.Contains(camel, p)
		switch isCamel := len(name) == len(key); {
		case p == nil:
			unknown(key, name)
		case seen && !isCamel:
			r.SkipValue()
		default:
			if isCamel && !seen {
				camel = append(camel, p)
			}
			r.readNullable(p)
		}
	})
}

// HandleUnknownKey skips an unknown key's value in the struct that p points to. A strict decoder
// rejects the key, and suggests one of the known ones in its spelling.
func (r *Decoder) HandleUnknownKey(key, name []byte, p any) {
	if !r.Strict {
		r.SkipValue()
		return
	}
	if near := r.Suggest(string(name), FieldNames(p)); near != "" {
		if bytes.IndexByte(key, '_') >= 0 {
			near = string(appendSnakeCase(nil, near))
		}
		r.setError("unknown key (did you mean %q?)", near)
		return
	}
	r.setError("unknown key")
}

// An Object is a free-form map. Unlike other maps, an empty one is decoded as empty
// instead of nil.
type Object map[string]any

// wireName returns a field's key. Fields without a tag are civil.Date's.
func wireName(f reflect.StructField) string {
	tag, ok := strings.CutPrefix(string(f.Tag), `json:"`)
	if !ok {
		return strings.ToLower(f.Name)
	}
	tag, _, _ = strings.Cut(tag, `"`)
	name, _, _ := strings.Cut(tag, ",")
	return name
}

// camelCase converts a snake_case key; it returns any other key unchanged. A result with the same
// length is the key itself.
func camelCase(key []byte) []byte {
	if bytes.IndexByte(key, '_') < 0 || !isSnakeCase(key) {
		return key
	}
	name := make([]byte, 0, len(key))
	for i, c := range key {
		switch {
		case c == '_':
		case i > 0 && key[i-1] == '_' && 'a' <= c && c <= 'z':
			name = append(name, c-'a'+'A')
		default:
			name = append(name, c)
		}
	}
	return name
}

// isSnakeCase reports keys with lower case letters and digits, and single underscores between them.
func isSnakeCase(key []byte) bool {
	last := byte('_')
	for _, c := range key {
		small := 'a' <= c && c <= 'z' || '0' <= c && c <= '9'
		if !small && (c != '_' || last == '_') {
			return false
		}
		last = c
	}
	return last != '_'
}

// FieldNames returns the JSON keys of the struct that p points to.
func FieldNames(p any) []string {
	t := reflect.TypeOf(p).Elem()
	names := make([]string, t.NumField())
	for i := range names {
		names[i] = wireName(t.Field(i))
	}
	return names
}

// The seconds from year 1 to 9999, and the integer from which a time is in milliseconds: as seconds
// it would be the year 5138.
const (
	firstSecond          = -62_135_596_800
	lastSecond           = 253_402_300_799
	firstMillisecondTime = 100_000_000_000
)

func isTimeInRange(t time.Time) bool {
	s := t.Unix()
	return firstSecond <= s && s <= lastSecond
}

// appendSeconds writes a number of 10^-digits seconds as a decimal fraction
// with at least one digit after the point.
func appendSeconds(b []byte, n int64, digits int) []byte {
	if n < 0 {
		b = append(b, '-')
	}
	unit := uint64(math.Pow10(digits))
	u := absoluteValue(n)
	b = strconv.AppendUint(b, u/unit, 10)
	b = append(b, '.')
	var buf [24]byte
	fraction := strconv.AppendUint(buf[:0], unit+u%unit, 10)[1:]
	for len(fraction) > 1 && fraction[len(fraction)-1] == '0' {
		fraction = fraction[:len(fraction)-1]
	}
	return append(b, fraction...)
}

func absoluteValue(n int64) uint64 {
	if n < 0 {
		return -uint64(n)
	}
	return uint64(n)
}

// appendDuration appends protobuf's form: "3.5s", "2s".
func appendDuration(b []byte, d time.Duration) []byte {
	start := len(b)
	b = appendSeconds(b, int64(d), 9)
	whole := bytes.TrimSuffix(b[start:], []byte(".0"))
	return append(b[:start+len(whole)], 's')
}

func (r *Decoder) readDuration() time.Duration {
	s := r.readString()
	if r.Err != nil || s == "" {
		return 0
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		r.setError(`expected a duration such as "3.5s", got %q`, s)
	}
	return d
}

// readTime reads float seconds, integer milliseconds or RFC 3339, in UTC with
// microsecond precision. 0 is the zero time.
func (r *Decoder) readTime() time.Time {
	if r.peekByte() == '"' {
		return r.readTimeText()
	}
	text := string(r.readNumber())
	if r.Err != nil || text == "0" || text == "0.0" {
		return time.Time{}
	}
	t, ok := parseTime(text)
	if !ok || !isTimeInRange(t) {
		r.setError("the time %s is outside the years 1 to 9999", text)
	}
	return t
}

func (r *Decoder) readTimeText() time.Time {
	s := r.readString()
	if r.Err != nil {
		return time.Time{}
	}
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		r.setError("expected seconds or a time such as 2026-07-29T08:00:00Z, got %q", s)
		return time.Time{}
	}
	if t = t.UTC().Round(time.Microsecond); !isTimeInRange(t) {
		r.setError("the time %s is outside the years 1 to 9999", s)
	}
	return t
}

// parseTime parses a number. A plain decimal is parsed digit by digit: a
// float64 would lose microseconds in far years.
func parseTime(text string) (time.Time, bool) {
	if strings.ContainsAny(text, "eE") {
		f, err := strconv.ParseFloat(text, 64)
		if err != nil || f < firstSecond || f > lastSecond {
			return time.Time{}, false
		}
		return time.UnixMicro(int64(math.Round(f * 1e6))).UTC(), true
	}
	whole, fraction, isFloat := strings.Cut(text, ".")
	n, err := strconv.ParseInt(whole, 10, 64)
	if err != nil {
		return time.Time{}, false
	}
	if !isFloat && n > firstMillisecondTime {
		return time.UnixMilli(n).UTC(), true
	}
	micros := parseMicros(fraction)
	if strings.HasPrefix(text, "-") {
		micros = -micros
	}
	return time.Unix(n, micros*1000).UTC(), true
}

// parseMicros rounds the digits of a fraction to millionths.
func parseMicros(fraction string) int64 {
	var n int64
	for _, digit := range (fraction + "0000000")[:7] {
		n = n*10 + int64(digit-'0')
	}
	return (n + 5) / 10
}
