package spec

import (
	"reflect"
	"slices"
	"strings"
)

// A Decoder is a type with its own YAML form. DecodeSpec is called with what
// stands in the place of the value; the value of a field is never null.
type Decoder interface {
	DecodeSpec(n *Node) Diagnostics
}

// Decode fills dst, a pointer, from a node; nil is a null node. For a struct the node must be a
// mapping, whose keys are the [Fields] of the struct. It reports every problem
// and fills what it can:
//
//   - null is as good as an absent key;
//   - an absent field takes its default, unless dst already holds a value;
//   - a field for true or false takes also yes, no, on and off;
//   - what [Interpolate] put into a scalar may be text also where it looks
//     like a number.
//
// Fields may be text, booleans, numbers, slices, maps with string keys,
// structs, pointers to those, any (as [Node.Any]), *[Node], and types that are
// a [Decoder]. Bytes are base64 in either alphabet. The DecodeSpec of dst
// itself is not called, so that it can call Decode.
func Decode(n *Node, dst any) Diagnostics { return decodeInto(n, dst, new(fieldTable)) }

func decodeInto(n *Node, dst any, fields *fieldTable) Diagnostics {
	if n == nil {
		n = &Node{Tag: nullTag}
	}
	d := &decoder{fields: fields}
	d.decodeWithoutDecoder(n, reflect.ValueOf(dst).Elem(), Field{})
	d.ds.Sort()
	return d.ds
}

type decoder struct {
	ds     Diagnostics
	fields *fieldTable
}

func (d *decoder) report(ds ...Diagnostic) { d.ds = append(d.ds, ds...) }

// decodeStruct fills a struct from a mapping.
func (d *decoder) decodeStruct(n *Node, v reflect.Value) {
	if n.IsNull() {
		n = &Node{Pos: n.Pos, Kind: Mapping, Tag: mapTag, src: n.src}
	}
	if n.Kind != Mapping {
		d.report(n.typeError("a mapping"))
		return
	}
	fields := d.fields.fieldsOf(v.Type())
	found := make([]*Node, len(fields))
	told := len(d.ds)
	for _, e := range n.Entries {
		d.matchField(e, fields, found)
	}
	var meant map[string]int
	if slices.ContainsFunc(d.ds[told:], func(diag Diagnostic) bool { return diag.Rule == "unknown-field" }) {
		meant = d.suggestFields(n, fields)
	}
	for i, f := range fields {
		switch at := v.FieldByIndex(f.index); {
		case found[i] != nil && !found[i].IsNull():
			d.decodeField(found[i], at, f)
		case f.Required && at.IsZero() && meant[f.Name] > 0: // told already: it is misspelt
		case f.Required && at.IsZero():
			d.report(n.Errorf("required", "missing field %q", f.Name))
		default:
			d.setDefaults(n, at, f)
		}
	}
}

// matchField finds the field of a key.
func (d *decoder) matchField(e Entry, fields []Field, found []*Node) {
	for i, f := range fields {
		if !f.matchesKey(e.Key.Value) {
			continue
		}
		if found[i] != nil {
			d.report(e.Key.Errorf("duplicate-key", "%q and %q are the same field", f.Name, f.Alias))
		}
		if f.Deprecated != "" {
			d.report(e.Key.Warnf("deprecated", "the field %q is deprecated: %s", f.Name, f.Deprecated))
		}
		found[i] = e.Value
		return
	}
	d.report(unknownFieldError(e.Key, fields))
}

// suggestFields gives an unknown field its repair: the one field that it must
// have been meant for, when nothing else of the mapping is that field. It returns
// how many keys were meant for each field.
func (d *decoder) suggestFields(n *Node, fields []Field) map[string]int {
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = f.Name
	}
	type mistake struct {
		key  *Node
		near string
	}
	meant, mistakes := map[string]int{}, map[Pos]mistake{}
	for _, e := range n.Entries {
		if field := fieldForKey(e.Key.Value, fields); field != "" {
			meant[field]++
		} else if field = suggestUnambiguous(e.Key.Value, names); field != "" {
			meant[field]++
			mistakes[e.Key.Pos] = mistake{e.Key, field}
		}
	}
	for i, diag := range d.ds {
		m, ok := mistakes[diag.Pos]
		if ok && diag.Rule == "unknown-field" && meant[m.near] == 1 && m.key.isPlain() {
			d.ds[i] = diag.WithFix(m.key.Value, m.near)
		}
	}
	return meant
}

// fieldForKey is the name of the field that a key stands for, or "".
func fieldForKey(key string, fields []Field) string {
	for _, f := range fields {
		if f.matchesKey(key) {
			return f.Name
		}
	}
	return ""
}

// maxHintNames bounds the names that a hint lists.
const maxHintNames = 12

func unknownFieldError(key *Node, fields []Field) Diagnostic {
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = f.Name
	}
	diag := key.Errorf("unknown-field", "unknown field %q", key.Value).withSuggestion(key.Value, names)
	if hint, ok := typographyHint(key.Value); ok {
		diag.Hint = hint
		return diag
	}
	if diag.Hint == "" && len(names) > 0 && len(names) <= maxHintNames {
		diag.Hint = "the fields here are " + strings.Join(names, ", ")
	}
	return diag
}

// decodeField checks a value against the enum of its field and decodes it.
func (d *decoder) decodeField(n *Node, v reflect.Value, f Field) {
	if len(f.Enum) > 0 {
		var ok bool
		if n, ok = d.resolveEnum(n, f); !ok {
			return
		}
	}
	d.decodeValue(n, v, f)
}

// resolveEnum checks a scalar, or the elements of a list or mapping. It returns the node
// with the values that the enum's names stand for.
func (d *decoder) resolveEnum(n *Node, f Field) (*Node, bool) {
	settled, ok := *n, true
	settled.Items = make([]*Node, len(n.Items))
	for i, item := range n.Items {
		inner, fits := d.resolveEnum(item, f)
		settled.Items[i], ok = inner, ok && fits
	}
	if f.Type.Kind() == reflect.Map {
		settled.Entries = make([]Entry, len(n.Entries))
		for i, e := range n.Entries {
			inner, fits := d.resolveEnum(e.Value, f)
			settled.Entries[i], ok = Entry{e.Key, inner}, ok && fits
		}
	}
	if n.Kind != Scalar {
		return &settled, ok
	}
	value, known := f.enumValue(n.Value)
	if !known {
		d.report(n.Errorf("enum", "%q is not one of: %s", n.writtenValue(), strings.Join(f.Enum, ", ")).withSuggestion(n.writtenValue(), f.Enum))
		return n, false
	}
	settled.Value = value
	return &settled, ok
}

// setDefaults gives a field that is not there its default, and a struct that is not
// there the defaults of its fields.
func (d *decoder) setDefaults(n *Node, v reflect.Value, f Field) {
	switch {
	case !v.IsZero():
	case f.Default != "":
		d.decodeValue(defaultNode(n, f), v, f)
	case v.Kind() == reflect.Struct && !isDecoder(v):
		for _, inner := range d.fields.fieldsOf(v.Type()) {
			d.setDefaults(n, v.FieldByIndex(inner.index), inner)
		}
	}
}

func defaultNode(n *Node, f Field) *Node {
	node := &Node{Pos: n.Pos, Tag: resolveTag(f.Default), Value: f.Default, src: n.src}
	if f.Type.Kind() == reflect.String {
		node.Tag = strTag
	}
	return node
}

// stringType is what want calls text.
const stringType = "a string"

// typeError reports a value of the wrong type.
func (n *Node) typeError(what string) Diagnostic {
	d := n.Errorf("type", "expected %s, got %s", what, n.describeType())
	if len(n.parts) > 0 && !n.isPlain() {
		d.Hint = "a reference in quotes is text: write it without them, on a line of its own"
	} else if n.Kind == Scalar && !n.isPlain() && resolveTag(n.Value) != strTag {
		d.Hint = "in quotes it is text: write " + n.Value
	}
	if what == stringType && n.Kind == Mapping && n.src != nil && strings.HasPrefix(n.src.textFrom(n.Pos), "{") {
		d.Hint = "put text that begins with { in quotes"
	}
	return d
}
