package spec

import (
	"reflect"
	"slices"
	"strings"
)

// A Decoder is a type with its own YAML form. DecodeSpec receives the node of the value.
// The value of a struct field is never null.
type Decoder interface {
	DecodeSpec(n *Node) Diagnostics
}

// Decode fills dst, a pointer, from a node. A nil node is null. For a struct, the node
// must be a mapping whose keys are the [Fields] of the struct. Decode reports all
// problems and decodes the fields that are valid:
//
//   - null equals an absent key;
//   - an absent field gets its default, unless dst already holds a value;
//   - a boolean may also be written as yes, no, on or off;
//   - a scalar that [Interpolate] changed may be a string even if it looks like a
//     number.
//
// Fields may be strings, booleans, numbers, slices, maps with string keys, structs,
// pointers to those, any (see [Node.Any]), *[Node], and types that implement [Decoder].
// Bytes are base64, standard or URL-safe. Decode does not call DecodeSpec of dst itself,
// so DecodeSpec may call Decode.
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
	before := len(d.ds)
	for _, e := range n.Entries {
		d.matchField(e, fields, found)
	}
	var matches map[string]int
	if slices.ContainsFunc(d.ds[before:], func(diag Diagnostic) bool { return diag.Rule == "unknown-field" }) {
		matches = d.suggestFields(n, fields)
	}
	for i, f := range fields {
		switch at := v.FieldByIndex(f.index); {
		case found[i] != nil && !found[i].IsNull():
			d.decodeField(found[i], at, f)
		case f.Required && at.IsZero() && matches[f.Name] > 0: // already reported as misspelled
		case f.Required && at.IsZero():
			d.report(n.Errorf("required", "missing field %q", f.Name))
		default:
			d.setDefaults(n, at, f)
		}
	}
}

// matchField records the value of a key in found, at the index of its field.
func (d *decoder) matchField(e Entry, fields []Field, found []*Node) {
	for i, f := range fields {
		if !f.matchesKey(e.Key.Value) {
			continue
		}
		if found[i] != nil {
			d.report(e.Key.Errorf("duplicate-key", "%q and %q are the same field", f.Name, f.Alias))
		}
		if f.Deprecated != "" {
			d.report(e.Key.Warnf("deprecated", "field %q is deprecated: %s", f.Name, f.Deprecated))
		}
		found[i] = e.Value
		return
	}
	d.report(unknownFieldError(e.Key, fields))
}

// suggestFields adds a fix to each unknown field that is an unambiguous misspelling of a
// field that no other key sets. It returns the number of keys that match each field,
// spelled correctly or not.
func (d *decoder) suggestFields(n *Node, fields []Field) map[string]int {
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = f.Name
	}
	type misspelling struct {
		key  *Node
		near string
	}
	matches, misspellings := map[string]int{}, map[Pos]misspelling{}
	for _, e := range n.Entries {
		if field := fieldForKey(e.Key.Value, fields); field != "" {
			matches[field]++
		} else if field = suggestUnambiguous(e.Key.Value, names); field != "" {
			matches[field]++
			misspellings[e.Key.Pos] = misspelling{e.Key, field}
		}
	}
	for i, diag := range d.ds {
		m, ok := misspellings[diag.Pos]
		if ok && diag.Rule == "unknown-field" && matches[m.near] == 1 && m.key.isPlain() {
			d.ds[i] = diag.WithFix(m.key.Value, m.near)
		}
	}
	return matches
}

// fieldForKey returns the name of the field with this key, or "".
func fieldForKey(key string, fields []Field) string {
	for _, f := range fields {
		if f.matchesKey(key) {
			return f.Name
		}
	}
	return ""
}

// maxHintNames limits the names that a hint lists.
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
		diag.Hint = "valid fields: " + strings.Join(names, ", ")
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

// resolveEnum checks a scalar, or the elements of a list or mapping, against the enum.
// It returns a copy of the node with the canonical values.
func (d *decoder) resolveEnum(n *Node, f Field) (*Node, bool) {
	resolved, ok := *n, true
	resolved.Items = make([]*Node, len(n.Items))
	for i, item := range n.Items {
		inner, innerOK := d.resolveEnum(item, f)
		resolved.Items[i], ok = inner, ok && innerOK
	}
	if f.Type.Kind() == reflect.Map {
		resolved.Entries = make([]Entry, len(n.Entries))
		for i, e := range n.Entries {
			inner, innerOK := d.resolveEnum(e.Value, f)
			resolved.Entries[i], ok = Entry{e.Key, inner}, ok && innerOK
		}
	}
	if n.Kind != Scalar {
		return &resolved, ok
	}
	value, known := f.enumValue(n.Value)
	if !known {
		d.report(n.Errorf("enum", "%q is not one of: %s", n.writtenValue(), strings.Join(f.Enum, ", ")).withSuggestion(n.writtenValue(), f.Enum))
		return n, false
	}
	resolved.Value = value
	return &resolved, ok
}

// setDefaults sets an absent field to its default, and an absent struct to the defaults
// of its fields.
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

const stringType = "a string"

// typeError reports a value of the wrong type.
func (n *Node) typeError(what string) Diagnostic {
	d := n.Errorf("type", "expected %s, got %s", what, n.describeType())
	if len(n.parts) > 0 && !n.isPlain() {
		d.Hint = "quotes make the reference a string: remove them and write it on its own line"
	} else if n.Kind == Scalar && !n.isPlain() && resolveTag(n.Value) != strTag {
		d.Hint = "quotes make it a string: write " + n.Value
	}
	if what == stringType && n.Kind == Mapping && n.src != nil && strings.HasPrefix(n.src.textFrom(n.Pos), "{") {
		d.Hint = "quote text that begins with {"
	}
	return d
}
