package spec

import (
	"encoding"
	"encoding/base64"
	"math"
	"net/http"
	"reflect"
	"strings"
	"time"
)

// value decodes into a value of any supported type.
func (d *decoder) value(n *Node, v reflect.Value, f Field) {
	if f.Secret {
		n.private = true
	}
	if dec, ok := v.Addr().Interface().(Decoder); ok {
		d.add(dec.DecodeSpec(n)...)
		return
	}
	d.plainValue(n, v, f)
}

func isDecoder(v reflect.Value) bool {
	_, ok := v.Addr().Interface().(Decoder)
	return ok
}

// plainValue is value but for the type's own DecodeSpec.
func (d *decoder) plainValue(n *Node, v reflect.Value, f Field) {
	switch dst := v.Addr().Interface().(type) {
	case **Node:
		*dst = n
		return
	case *time.Duration:
		d.duration(n, dst)
		return
	case *[]byte:
		d.bytes(n, dst)
		return
	case *any:
		*dst = n.Any()
		return
	case *http.Header:
		d.header(n, dst)
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
		d.value(n, v.Elem(), f)
	case reflect.Struct:
		d.structure(n, v)
	case reflect.Slice:
		d.slice(n, v, f)
	case reflect.Map:
		d.mapOf(n, v, f)
	default:
		d.scalar(n, v, f)
	}
}

func (d *decoder) slice(n *Node, v reflect.Value, f Field) {
	if n.Kind != Sequence {
		d.add(n.want("a list").WithHint("write [a, b], or each element on a line of its own, after a -"))
		return
	}
	s := reflect.MakeSlice(v.Type(), len(n.Items), len(n.Items))
	for i, item := range n.Items {
		d.value(item, s.Index(i), f)
	}
	v.Set(s)
}

func (d *decoder) mapOf(n *Node, v reflect.Value, f Field) {
	if n.Kind != Mapping {
		d.add(n.want("a mapping"))
		return
	}
	t := v.Type()
	m := reflect.MakeMapWithSize(t, len(n.Entries))
	for _, e := range n.Entries {
		item := reflect.New(t.Elem()).Elem()
		d.value(e.Value, item, f)
		m.SetMapIndex(reflect.ValueOf(e.Key.Value).Convert(t.Key()), item)
	}
	v.Set(m)
}

func (d *decoder) scalar(n *Node, v reflect.Value, f Field) {
	switch k := v.Kind(); {
	case k == reflect.String:
		d.text(n, v)
		if f.isForeignEnum(v.Type()) {
			v.SetString(foreignEnum(v.Type(), v.String()))
		}
	case k == reflect.Bool:
		d.boolean(n, v)
	case v.CanInt():
		d.integer(n, v, f)
	case v.CanUint():
		d.unsigned(n, v, f)
	case v.CanFloat():
		d.float(n, v, f)
	default:
		d.add(n.Errorf("type", "no value can be written here"))
	}
}

func (d *decoder) text(n *Node, v reflect.Value) {
	if n.Kind == Scalar && (n.Tag == strTag || len(n.parts) > 0) {
		v.SetString(n.Value)
		return
	}
	diag := n.want(aString)
	if n.Kind == Scalar && !n.IsNull() {
		diag = diag.WithHint("put it in quotes: %q", n.Value)
	}
	d.add(diag)
}

// boolean takes also the words of YAML 1.1, which ADK reads.
func (d *decoder) boolean(n *Node, v reflect.Value) {
	if n.Kind == Scalar && n.plain() {
		switch strings.ToLower(n.Value) {
		case "true", "yes", "on":
			v.SetBool(true)
			return
		case "false", "no", "off":
			v.SetBool(false)
			return
		}
	}
	d.add(n.want("true or false"))
}

func (d *decoder) integer(n *Node, v reflect.Value, f Field) {
	i, ok := d.whole(n, f).(int64)
	switch {
	case !ok:
	case v.OverflowInt(i):
		bits := v.Type().Bits() - 1
		d.outside(n, -1<<bits, 1<<bits-1)
	default:
		v.SetInt(i)
	}
}

func (d *decoder) unsigned(n *Node, v reflect.Value, f Field) {
	i, ok := d.whole(n, f).(int64)
	switch {
	case !ok:
	case i < 0 || v.OverflowUint(uint64(i)):
		d.outside(n, 0, int64(min(uint64(math.MaxInt64), 1<<v.Type().Bits()-1)))
	default:
		v.SetUint(uint64(i))
	}
}

// whole reads a whole number, also one such as 1.0 or 1e3, as JSON has it. It
// returns nil when there is none that int64 holds.
func (d *decoder) whole(n *Node, f Field) any {
	tag := n.numberTag(f)
	if tag == intTag {
		if i, ok := parseWhole(n.Value).(int64); ok {
			return i
		}
		d.outside(n, math.MinInt64, math.MaxInt64)
		return nil
	}
	if x, ok := parseFloat(n.Value); ok && tag == floatTag && x == math.Trunc(x) && math.Abs(x) < 1<<53 {
		return int64(x)
	}
	d.add(n.want("a whole number"))
	return nil
}

// numberTag is the tag of a scalar, seen through quotes where the field allows
// them around numbers.
func (n *Node) numberTag(f Field) string {
	if f.quoted && n.Kind == Scalar && n.Tag == strTag {
		return resolveTag(n.Value)
	}
	return n.Tag
}

func (d *decoder) outside(n *Node, low, high int64) {
	d.add(n.Errorf("limit", "%s is not between %d and %d", n.shown(), low, high))
}

func (d *decoder) float(n *Node, v reflect.Value, f Field) {
	tag := n.numberTag(f)
	x, ok := parseFloat(n.Value)
	if tag == intTag {
		x, ok = wholeFloat(n.Value)
	}
	switch {
	case tag != intTag && tag != floatTag || !ok:
		d.add(n.want("a number"))
	case v.OverflowFloat(x) && !math.IsInf(x, 0):
		d.add(n.Errorf("limit", "%s is too large", n.shown()))
	default:
		v.SetFloat(x)
	}
}

// wholeFloat reads a !!int, which may be octal or hexadecimal.
func wholeFloat(value string) (float64, bool) {
	if i, ok := parseWhole(value).(int64); ok {
		return float64(i), true
	}
	return parseFloat(value)
}

// duration reads into Go's own type, which the structs of package genai have.
// A plain number is milliseconds there, as in ADK's http_options.
func (d *decoder) duration(n *Node, dst *time.Duration) {
	if n.Tag == intTag {
		if ms, ok := parseWhole(n.Value).(int64); ok && ms >= 0 && ms <= math.MaxInt64/int64(time.Millisecond) {
			*dst = time.Duration(ms) * time.Millisecond
			return
		}
	}
	d.add((*Duration)(dst).DecodeSpec(n)...)
}

// bytes reads base64 in either alphabet, with padding or without.
func (d *decoder) bytes(n *Node, dst *[]byte) {
	plain := strings.NewReplacer("-", "+", "_", "/", "\n", "", "=", "").Replace(n.Value)
	b, err := base64.RawStdEncoding.DecodeString(plain)
	if n.Kind != Scalar || n.IsNull() || err != nil {
		d.add(n.want("base64"))
		return
	}
	*dst = b
}

// header takes a text for a list of one.
func (d *decoder) header(n *Node, dst *http.Header) {
	if n.Kind != Mapping {
		d.add(n.want("a mapping"))
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
			d.text(item, reflect.ValueOf(&values[i]).Elem())
		}
		(*dst)[http.CanonicalHeaderKey(e.Key.Value)] = values
	}
}

func (d *decoder) unmarshalText(n *Node, dst encoding.TextUnmarshaler) {
	if n.Kind != Scalar || n.IsNull() {
		d.add(n.want(aString))
		return
	}
	if err := dst.UnmarshalText([]byte(n.Value)); err != nil {
		d.add(n.Errorf("value", "%q cannot be read", n.shown()))
	}
}
