package spec

import (
	"encoding"
	"encoding/base64"
	"errors"
	"math"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"time"
)

func (d *decoder) decodeValue(n *Node, v reflect.Value, f Field) {
	if f.Secret {
		n.neverShown = true
	}
	if dec, ok := v.Addr().Interface().(Decoder); ok {
		d.report(dec.DecodeSpec(n).placeAt(n)...)
		return
	}
	d.decodeWithoutDecoder(n, v, f)
}

func isDecoder(v reflect.Value) bool {
	_, ok := v.Addr().Interface().(Decoder)
	return ok
}

// decodeWithoutDecoder decodes a value without calling its type's DecodeSpec.
func (d *decoder) decodeWithoutDecoder(n *Node, v reflect.Value, f Field) {
	switch dst := v.Addr().Interface().(type) {
	case **Node:
		*dst = n
		return
	case *time.Duration:
		d.decodeGoDuration(n, dst)
		return
	case *[]byte:
		d.decodeBase64(n, dst)
		return
	case *any:
		*dst = n.Any()
		return
	case *http.Header:
		d.decodeHeader(n, dst)
		return
	case encoding.TextUnmarshaler:
		d.unmarshalText(n, dst)
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
		}
		d.decodeValue(n, v.Elem(), f)
	case reflect.Struct:
		d.decodeStruct(n, v)
	case reflect.Slice:
		d.decodeSlice(n, v, f)
	case reflect.Map:
		d.decodeMap(n, v, f)
	default:
		d.decodeScalar(n, v, f)
	}
}

func (d *decoder) decodeSlice(n *Node, v reflect.Value, f Field) {
	if n.Kind != Sequence {
		d.report(n.typeError("a list").WithHint("write [a, b], or one element per line after a dash"))
		return
	}
	s := reflect.MakeSlice(v.Type(), len(n.Items), len(n.Items))
	for i, item := range n.Items {
		d.decodeValue(item, s.Index(i), f)
	}
	v.Set(s)
}

func (d *decoder) decodeMap(n *Node, v reflect.Value, f Field) {
	if n.Kind != Mapping {
		d.report(n.typeError("a mapping"))
		return
	}
	t := v.Type()
	m := reflect.MakeMapWithSize(t, len(n.Entries))
	for _, e := range n.Entries {
		item := reflect.New(t.Elem()).Elem()
		d.decodeValue(e.Value, item, f)
		m.SetMapIndex(reflect.ValueOf(e.Key.Value).Convert(t.Key()), item)
	}
	v.Set(m)
}

func (d *decoder) decodeScalar(n *Node, v reflect.Value, f Field) {
	switch k := v.Kind(); {
	case k == reflect.String:
		d.decodeString(n, v)
		if f.isAPIEnum(v.Type()) {
			v.SetString(d.normalizeAPIEnum(n, v.Type(), v.String()))
		}
	case k == reflect.Bool:
		d.decodeBool(n, v)
	case v.CanInt():
		d.decodeInt(n, v)
	case v.CanUint():
		d.decodeUint(n, v)
	case v.CanFloat():
		d.decodeFloat(n, v)
	default:
		d.report(n.Errorf("type", "unsupported field type"))
	}
}

func (d *decoder) decodeString(n *Node, v reflect.Value) {
	if n.Kind == Scalar && (n.Tag == strTag || len(n.parts) > 0) {
		v.SetString(n.Value)
		return
	}
	diag := n.typeError(stringType)
	if n.Kind == Scalar && !n.IsNull() {
		diag = diag.WithHint("put it in quotes: %q", n.Value)
	}
	d.report(diag)
}

// decodeBool accepts what pydantic, with which ADK reads its files, takes for a boolean:
// these words, quoted or not, and the numbers 0 and 1.
func (d *decoder) decodeBool(n *Node, v reflect.Value) {
	if n.Kind != Scalar {
		d.report(n.typeError("true or false"))
		return
	}
	word := strings.ToLower(n.Value)
	if x, ok := parseFloat(n.Value); ok && (n.Tag == intTag || n.Tag == floatTag) {
		word = strconv.FormatFloat(x, 'g', -1, 64)
	}
	switch word {
	case "true", "yes", "on", "t", "y", "1":
		v.SetBool(true)
	case "false", "no", "off", "f", "n", "0":
		v.SetBool(false)
	default:
		d.report(n.scalarError("true or false"))
	}
}

func (d *decoder) decodeInt(n *Node, v reflect.Value) {
	i, ok := d.parseInteger(n)
	switch {
	case !ok:
	case v.OverflowInt(i):
		bits := v.Type().Bits() - 1
		d.reportOutOfRange(n, -1<<bits, 1<<bits-1)
	default:
		v.SetInt(i)
	}
}

func (d *decoder) decodeUint(n *Node, v reflect.Value) {
	i, ok := d.parseInteger(n)
	switch {
	case !ok:
	case i < 0 || v.OverflowUint(uint64(i)):
		d.reportOutOfRange(n, 0, int64(min(uint64(math.MaxInt64), 1<<v.Type().Bits()-1)))
	default:
		v.SetUint(uint64(i))
	}
}

// parseInteger returns an integer, or false after reporting a problem. It accepts integers
// written as 1.0 or 1e3, as JSON does.
func (d *decoder) parseInteger(n *Node) (int64, bool) {
	tag, value := d.readNumber(n)
	if tag == intTag {
		if i, ok := parseIntScalar(value).(int64); ok {
			return i, true
		}
		d.reportOutOfRange(n, math.MinInt64, math.MaxInt64)
		return 0, false
	}
	if x, ok := parseFloat(value); ok && tag == floatTag && x == math.Trunc(x) && math.Abs(x) < 1<<53 {
		return int64(x), true
	}
	d.report(n.scalarError("an integer"))
	return 0, false
}

// readNumber returns the tag and the value for a scalar that should be a number. As pydantic does,
// it reads decimal numbers in strings, with white space around them and zeros before them, and
// booleans as 0 and 1; the latter is probably a mistake.
func (d *decoder) readNumber(n *Node) (tag, value string) {
	switch {
	case n.Kind != Scalar:
		return n.Tag, ""
	case n.Tag == boolTag:
		value = "0"
		if strings.EqualFold(n.Value, "true") {
			value = "1"
		}
		d.report(n.Warnf("type", "%s is read as the number %s", n.writtenValue(), value).WithHint("write a number"))
		return intTag, value
	case n.Tag == strTag:
		return readDecimal(n.Value)
	}
	return n.Tag, n.Value
}

// readDecimal returns the number in a string in YAML notation, or a string's tag.
func readDecimal(text string) (tag, value string) {
	value = strings.ReplaceAll(strings.TrimSpace(text), "_", "")
	sign, digits := "", strings.TrimPrefix(value, "+")
	if rest, ok := strings.CutPrefix(digits, "-"); ok {
		sign, digits = "-", rest
	}
	if strings.Trim(digits, "0123456789") == "" && digits != "" {
		if digits = strings.TrimLeft(digits, "0"); digits == "" {
			digits = "0"
		}
		return intTag, sign + digits
	}
	if strings.Trim(digits, "0123456789.eE+-") != "" {
		return strTag, text
	}
	if _, err := strconv.ParseFloat(value, 64); err != nil && !errors.Is(err, strconv.ErrRange) {
		return strTag, text
	}
	return floatTag, value
}

func (d *decoder) reportOutOfRange(n *Node, low, high int64) {
	d.report(n.Errorf("limit", "must be between %d and %d, got %s", low, high, n.writtenValue()))
}

func (d *decoder) decodeFloat(n *Node, v reflect.Value) {
	tag, value := d.readNumber(n)
	x, ok := parseFloat(value)
	if i, isInt := parseIntScalar(value).(int64); tag == intTag && isInt { // it may be octal or hexadecimal
		x, ok = float64(i), true
	}
	switch {
	case tag != intTag && tag != floatTag:
		d.report(n.scalarError("a number"))
	case !ok, v.OverflowFloat(x) && !math.IsInf(x, 0):
		d.report(n.Errorf("limit", "%s is too large", n.writtenValue()))
	default:
		v.SetFloat(x)
	}
}

// decodeGoDuration decodes time.Duration, which structs in package genai use. There, a number
// without a unit is in milliseconds, as in ADK's http_options.
func (d *decoder) decodeGoDuration(n *Node, dst *time.Duration) {
	tag, value := n.Tag, n.Value
	if tag == strTag {
		tag, value = readDecimal(value)
	}
	if tag == intTag {
		if ms, ok := parseIntScalar(value).(int64); ok && ms >= 0 && ms <= math.MaxInt64/int64(time.Millisecond) {
			*dst = time.Duration(ms) * time.Millisecond
			return
		}
	}
	d.report((*Duration)(dst).DecodeSpec(n)...)
}

// decodeBase64 accepts both alphabets, with or without padding.
func (d *decoder) decodeBase64(n *Node, dst *[]byte) {
	plain := strings.NewReplacer("-", "+", "_", "/", "\n", "", "=", "").Replace(n.Value)
	b, err := base64.RawStdEncoding.DecodeString(plain)
	if n.Kind != Scalar || n.IsNull() || err != nil {
		d.report(n.typeError("base64"))
		return
	}
	*dst = b
}

// decodeHeader reads a string as a list with one value.
func (d *decoder) decodeHeader(n *Node, dst *http.Header) {
	if n.Kind != Mapping {
		d.report(n.typeError("a mapping"))
		return
	}
	*dst = make(http.Header, len(n.Entries))
	for _, e := range n.Entries {
		items := []*Node{e.Value}
		if e.Value.Kind == Sequence {
			items = e.Value.Items
		}
		values := make([]string, len(items))
		for i, item := range items {
			d.decodeString(item, reflect.ValueOf(&values[i]).Elem())
		}
		(*dst)[http.CanonicalHeaderKey(e.Key.Value)] = values
	}
}

func (d *decoder) unmarshalText(n *Node, dst encoding.TextUnmarshaler) {
	if n.Kind != Scalar || n.IsNull() {
		d.report(n.typeError(stringType))
		return
	}
	if err := dst.UnmarshalText([]byte(n.Value)); err != nil {
		d.report(n.Errorf("value", "cannot parse %q", n.writtenValue()))
	}
}

// A Duration is written as 30s, 5m, 1h30m or 30d. The units are those of [time.ParseDuration], and
// d for 24 hours.
type Duration time.Duration

// String formats the duration like [time.Duration].
func (d Duration) String() string { return time.Duration(d).String() }

// DecodeSpec decodes a duration that is not negative.
func (d *Duration) DecodeSpec(n *Node) Diagnostics {
	v, ok := parseDuration(n.Value)
	if n.Kind != Scalar || !ok {
		diag := n.typeError("a duration")
		if n.Kind == Scalar && (n.Tag == intTag || n.Tag == floatTag) {
			return Diagnostics{diag.WithHint("add the unit: %[1]ss (seconds), %[1]sms, %[1]sm, %[1]sh or %[1]sd", n.Value)}
		}
		return Diagnostics{diag.WithHint("write 30s, 5m, 1h30m or 30d")}
	}
	*d = Duration(v)
	return nil
}

// SchemaSpec describes the written form. The only number without a unit is 0.
func (d *Duration) SchemaSpec() map[string]any {
	return map[string]any{
		"type": []any{"string", "integer"}, "minimum": 0, "maximum": 0, "examples": []any{"30s", "5m", "1h30m", "30d"},
		"pattern": `^(\d+(\.\d+)?(ns|us|µs|ms|s|m|h|d))+$|^0$|^\$\{`,
	}
}

// parseDuration extends time.ParseDuration with leading days, as in 1d12h.
func parseDuration(s string) (time.Duration, bool) {
	var total float64
	if days, rest, ok := strings.Cut(s, "d"); ok {
		n, err := strconv.ParseFloat(days, 64)
		if err != nil || n < 0 {
			return 0, false
		}
		total, s = n*float64(24*time.Hour), rest
		if rest == "" {
			s = "0"
		}
	}
	v, err := time.ParseDuration(s)
	total += float64(v)
	if err != nil || v < 0 || !(total < math.MaxInt64) {
		return 0, false
	}
	return time.Duration(total), true
}

// A Size is a byte count, written as 10MiB, 4KiB, 1GiB, 500kB or as a plain number.
type Size int64

// DecodeSpec decodes a size that is not negative.
func (s *Size) DecodeSpec(n *Node) Diagnostics {
	bytes, ok := ParseSize(n.Value)
	if n.Kind != Scalar || !ok {
		return Diagnostics{n.typeError("a size").WithHint("write 10MiB, 4KiB, 1GB or a number of bytes")}
	}
	*s = Size(bytes)
	return nil
}

// ParseSize parses a byte count such as 10MiB.
func ParseSize(s string) (int64, bool) {
	digits := s[:len(s)-len(strings.TrimLeft(s, "0123456789."))]
	number, err := strconv.ParseFloat(digits, 64)
	unit, known := unitBytes(strings.TrimPrefix(s[len(digits):], " "))
	bytes := number * unit
	return int64(bytes), err == nil && known && bytes < math.MaxInt64
}

// FormatSize formats a byte count in the largest unit that divides it.
func FormatSize(bytes int64) string {
	for i, unit := range []string{"GiB", "MiB", "KiB"} {
		if size := int64(1) << (30 - 10*i); bytes >= size && bytes%size == 0 {
			return strconv.FormatInt(bytes/size, 10) + unit
		}
	}
	return strconv.FormatInt(bytes, 10)
}

func unitBytes(unit string) (float64, bool) {
	switch unit {
	case "", "B":
		return 1, true
	case "kB", "KB":
		return 1e3, true
	case "MB":
		return 1e6, true
	case "GB":
		return 1e9, true
	case "KiB":
		return 1 << 10, true
	case "MiB":
		return 1 << 20, true
	case "GiB":
		return 1 << 30, true
	}
	return 0, false
}

// SchemaSpec describes the written form.
func (s *Size) SchemaSpec() map[string]any {
	return map[string]any{
		"type": []any{"integer", "string"}, "examples": []any{"10MiB", "4KiB", 65536},
		"pattern": `^\d+(\.\d+)? ?(B|kB|KB|MB|GB|KiB|MiB|GiB)?$|^\$\{`,
	}
}
