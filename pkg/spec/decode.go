package spec

import (
	"context"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode"
)

// A Decoder is a type with its own YAML form. DecodeSpec receives the value's node. A struct
// field's value is never null.
type Decoder interface {
	DecodeSpec(n *Node) Diagnostics
}

// Decode fills dst, a pointer, from a node. A nil node is null. For a struct, the node must be a
// mapping whose keys are the [Fields] of the struct. Decode reports all problems and decodes the
// fields that are valid:
//
//   - null equals an absent key;
//   - an absent field gets its default, unless dst already holds a value;
//   - booleans and numbers may be quoted, and a boolean may also be written as yes, no, on,
//     off, 1 or 0, as pydantic reads ADK's files;
//   - a scalar that [Interpolate] changed may be a string even if it looks like a
//     number.
//
// Fields may be strings, booleans, numbers, slices, maps with string keys, structs, pointers to
// those, any (see [Node.Any]), *[Node], and types that implement [Decoder]. Bytes are base64,
// standard or URL-safe. Decode does not call DecodeSpec on dst itself, so DecodeSpec may call
// Decode.
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
	fields, advice := d.fields.fieldsOf(v.Type()), d.fields.adviceOf(v.Type())
	found := make([]*Node, len(fields))
	before := len(d.ds)
	for _, e := range n.Entries {
		d.matchField(e, fields, advice, found)
	}
	var matches map[string]int
	if slices.ContainsFunc(d.ds[before:], func(diag Diagnostic) bool { return diag.Rule == "unknown-field" }) {
		matches = d.suggestFields(n, fields, advice)
	}
	for i, f := range fields {
		switch at := v.FieldByIndex(f.index); {
		case found[i] != nil && !found[i].IsNull():
			before := len(d.ds)
			d.decodeField(found[i], at, f)
			advice.hintShape(d.ds[before:], f.Name, found[i])
		case f.Required && at.IsZero() && matches[f.Name] > 0: // already reported as misspelled
		case f.Required && at.IsZero():
			d.report(n.Errorf("required", "missing field %q", f.Name))
		default:
			d.setDefaults(n, at, f)
		}
	}
}

// matchField records a key's value in found, at its field's index.
func (d *decoder) matchField(e Entry, fields []Field, advice Advice, found []*Node) {
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
	d.report(unknownFieldError(e.Key, fields, advice))
}

// suggestFields adds a fix to each unknown field that unambiguously misspells a field that no other
// key sets, or is another program's name for it. It returns how many keys match each field, spelled
// correctly or not.
func (d *decoder) suggestFields(n *Node, fields []Field, advice Advice) map[string]int {
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
		} else if field = advice.findField(e.Key.Value, names); field != "" {
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

// fieldForKey returns the field's name for this key, or "".
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

func unknownFieldError(key *Node, fields []Field, advice Advice) Diagnostic {
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = f.Name
	}
	diag := key.Errorf("unknown-field", "unknown field %q", key.Value).withSuggestion(key.Value, names)
	if hint, ok := typographyHint(key.Value); ok {
		diag.Hint = hint
		return diag
	}
	if hint := advice.hintField(key.Value, names); hint != "" {
		diag.Hint = hint
		return diag
	}
	if diag.Hint == "" && len(names) > 0 && len(names) <= maxHintNames {
		diag.Hint = "valid fields: " + strings.Join(names, ", ")
	}
	return diag
}

// decodeField checks a value against its field's enum and decodes it.
func (d *decoder) decodeField(n *Node, v reflect.Value, f Field) {
	if len(f.Enum) > 0 {
		var ok bool
		if n, ok = d.resolveEnum(n, f); !ok {
			return
		}
	}
	d.decodeValue(n, v, f)
}

// resolveEnum checks a scalar, or the elements of a list or mapping, against the enum. It returns a
// copy with the canonical values.
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

// setDefaults sets an absent field to its default, and an absent struct to its fields' defaults.
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

// A Field describes one key in a config struct. [Decode] accepts it, and [Schema] and [Reference]
// document it.
type Field struct {
	// Name is the key. Alias is an alternative spelling, or "".
	Name, Alias string
	// Doc is the description.
	Doc string
	// Required fields must be present and not null.
	Required bool
	// Default is an absent field's value, in YAML.
	Default string
	// Enum lists the allowed strings, or the allowed list elements.
	Enum []string
	// Secret values are redacted in output.
	Secret bool
	// Deprecated names a deprecated field's replacement, or is "".
	Deprecated string
	// Type is the Go type.
	Type reflect.Type

	index []int
	// fromJSONStruct marks fields in a struct with json tags and without yaml tags.
	fromJSONStruct bool
}

// Fields lists a struct type's fields in order. Fields have the tags
//
//	yaml:"name" alias:"otherName" doc:"…" required:"true" default:"…" enum:"a|b" secret:"true" deprecated:"use x"
//
// and yaml:",inline" adds an embedded struct's fields. A struct with json tags and without yaml
// tags, such as those in package genai, uses its json names in snake_case; the camelCase names are
// aliases.
func Fields(t reflect.Type) []Field {
	var fields []Field
	isJSON := isJSONStruct(t)
	for i := range t.NumField() {
		sf := t.Field(i)
		if !sf.IsExported() {
			continue
		}
		if isJSON {
			fields = appendJSONFields(fields, sf)
			continue
		}
		name, option, _ := strings.Cut(sf.Tag.Get("yaml"), ",")
		switch {
		case option == "inline":
			fields = appendInlined(fields, sf)
		case name != "" && name != "-":
			fields = append(fields, newField(name, sf))
		}
	}
	return fields
}

// fieldTable caches the fields and the advice by struct type: reading tags takes longer than
// decoding. It is safe for concurrent use.
type fieldTable struct{ fields, advice sync.Map }

func (t *fieldTable) fieldsOf(typ reflect.Type) []Field {
	if fields, ok := t.fields.Load(typ); ok {
		return fields.([]Field)
	}
	fields := Fields(typ)
	t.fields.Store(typ, fields)
	return fields
}

func (t *fieldTable) adviceOf(typ reflect.Type) Advice {
	if advice, ok := t.advice.Load(typ); ok {
		return advice.(Advice)
	}
	advice := collectAdvice(typ)
	t.advice.Store(typ, advice)
	return advice
}

func newField(name string, sf reflect.StructField) Field {
	tag := sf.Tag
	f := Field{
		Name: name, Alias: tag.Get("alias"), Doc: tag.Get("doc"),
		Required: tag.Get("required") == "true", Default: tag.Get("default"),
		Secret: tag.Get("secret") == "true", Deprecated: tag.Get("deprecated"),
		Type: sf.Type, index: sf.Index,
	}
	if enum := tag.Get("enum"); enum != "" {
		f.Enum = strings.Split(enum, "|")
	}
	return f
}

func appendInlined(fields []Field, sf reflect.StructField) []Field {
	for _, f := range Fields(sf.Type) {
		f.index = append(append([]int{}, sf.Index...), f.index...)
		fields = append(fields, f)
	}
	return fields
}

// JoinTypes returns a struct type with the fields from several config structs, for a mapping that
// each reads in part. If fields share a name, it has the first; none is required.
func JoinTypes(types ...reflect.Type) reflect.Type {
	var joined []reflect.StructField
	seen := map[string]bool{}
	for _, t := range types {
		for _, f := range Fields(t) {
			if !seen[f.Name] {
				tag := strings.ReplaceAll(string(t.FieldByIndex(f.index).Tag), `required:"true"`, "")
				joined = append(joined, reflect.StructField{Name: "F" + strconv.Itoa(len(joined)), Type: f.Type, Tag: reflect.StructTag(tag)})
			}
			seen[f.Name] = true
		}
	}
	return reflect.StructOf(joined)
}

// SelectFields returns a copy of a mapping with only the keys in a config struct.
func SelectFields(n *Node, t reflect.Type) *Node {
	fields, own := Fields(t), *n
	own.Entries = slices.DeleteFunc(slices.Clone(n.Entries), func(e Entry) bool {
		return !slices.ContainsFunc(fields, func(f Field) bool { return f.matchesKey(e.Key.Value) })
	})
	return &own
}

// isJSONStruct reports whether a struct has json tags and no yaml tags.
func isJSONStruct(t reflect.Type) bool {
	hasJSON := false
	for i := range t.NumField() {
		tag := t.Field(i).Tag
		if _, ok := tag.Lookup("yaml"); ok {
			return false
		}
		hasJSON = hasJSON || tag.Get("json") != ""
	}
	return hasJSON
}

func appendJSONFields(fields []Field, sf reflect.StructField) []Field {
	name, _, _ := strings.Cut(sf.Tag.Get("json"), ",")
	switch {
	case sf.Anonymous && name == "" && sf.Type.Kind() == reflect.Struct:
		return appendInlined(fields, sf)
	case name == "" || name == "-":
		return fields
	}
	f := Field{Name: snakeCase(name), Type: sf.Type, index: sf.Index, fromJSONStruct: true}
	if f.Name != name {
		f.Alias = name
	}
	return append(fields, f)
}

// snakeCase converts responseMimeType to response_mime_type.
func snakeCase(camel string) string {
	var b strings.Builder
	var last rune
	for _, r := range camel {
		if unicode.IsUpper(r) && last != 0 && !unicode.IsUpper(last) && last != '_' {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
		last = r
	}
	return b.String()
}

func (f Field) matchesKey(key string) bool { return f.Name == key || f.Alias != "" && f.Alias == key }

// enumValue returns an enumeration's canonical value. ADK's languages write the same value as sse,
// SSE, StreamingMode.SSE or agent.StreamingModeSSE: enumValue ignores case, underscores, qualifiers
// and the field's name as a prefix.
func (f Field) enumValue(written string) (value string, ok bool) {
	if slices.Contains(f.Enum, written) {
		return written, true
	}
	folded := foldEnum(trimQualifier(written))
	at := slices.IndexFunc(f.Enum, func(v string) bool {
		return foldEnum(v) == folded || foldEnum(f.Name+v) == folded
	})
	if at < 0 {
		return "", false
	}
	return f.Enum[at], true
}

func foldEnum(name string) string {
	return strings.ToLower(strings.NewReplacer("_", "", "-", "").Replace(name))
}

// trimQualifier removes the types before a name: SSE from RunConfig.StreamingMode.SSE.
func trimQualifier(name string) string {
	at := strings.LastIndexByte(name, '.')
	isType := func(r rune) bool {
		return r == '.' || r == '_' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
	}
	if at < 0 || strings.ContainsFunc(name[:at], func(r rune) bool { return !isType(r) }) {
		return name
	}
	return name[at+1:]
}

// A Kind is a named variant of an extension point, such as a tool kind: its config struct, its
// description and its build function. Env is the build's input, T its result.
type Kind[Env, T any] struct {
	// Name is the name in documents. Doc is the description in the reference.
	Name, Doc string

	config func() any
	fields *fieldTable
	build  func(ctx context.Context, env Env, config any) (T, error)
}

// NewKind returns a kind with config struct C.
func NewKind[C, Env, T any](name, doc string, build func(context.Context, Env, *C) (T, error)) Kind[Env, T] {
	return NewKindFrom(name, doc, func() *C { return new(C) }, build)
}

// NewKindFrom returns a kind whose configs are made by newConfig, for kinds that share a
// config struct: they differ in its fields that are not decoded.
func NewKindFrom[C, Env, T any](name, doc string, newConfig func() *C, build func(context.Context, Env, *C) (T, error)) Kind[Env, T] {
	return Kind[Env, T]{
		Name: name, Doc: doc,
		config: func() any { return newConfig() }, fields: new(fieldTable),
		build: func(ctx context.Context, env Env, c any) (T, error) {
			return build(ctx, env, c.(*C))
		},
	}
}

// Decode decodes a mapping into the kind's config. A config that implements [Decoder]
// decodes itself.
func (k Kind[Env, T]) Decode(n *Node) (Plan[Env, T], Diagnostics) {
	config := k.config()
	plan := Plan[Env, T]{Kind: k, Config: config, Node: n}
	if d, ok := config.(Decoder); ok {
		return plan, d.DecodeSpec(n).placeAt(n)
	}
	return plan, decodeInto(n, config, k.fields)
}

// CheckKeys reports keys in a mapping that are not fields of the kind.
func (k Kind[Env, T]) CheckKeys(n *Node) Diagnostics {
	d := &decoder{fields: k.fields}
	fields := k.fields.fieldsOf(k.ConfigType())
	for _, e := range n.Entries {
		d.matchField(e, fields, k.fields.adviceOf(k.ConfigType()), make([]*Node, len(fields)))
	}
	return d.ds
}

// NewConfig returns a config that nothing was decoded into, for the interfaces that configs
// implement.
func (k Kind[Env, T]) NewConfig() any { return k.config() }

// ConfigType returns the config struct's type.
func (k Kind[Env, T]) ConfigType() reflect.Type { return reflect.TypeOf(k.config()).Elem() }

// A Checker is a config that reports problems that its fields alone do not show. n is the
// mapping that it was decoded from; see [Plan.Check] for values that could not be decoded.
type Checker interface {
	Check(n *Node) Diagnostics
}

// A Plan is a kind's decoded config, ready to be built.
type Plan[Env, T any] struct {
	Kind Kind[Env, T]
	// Config is a pointer to the decoded config struct.
	Config any
	// Node is the decoded node.
	Node *Node
}

// Check adds what the config's [Checker] reports to the decoding problems. Values that could not be
// decoded are missing: Check leaves out what is reported at them, or at what contains them. A
// problem without a position concerns the whole node.
func (p Plan[Env, T]) Check(decoding Diagnostics) Diagnostics {
	c, ok := p.Config.(Checker)
	if !ok || decoding.reportsType(p.Node.Pos) {
		return decoding
	}
	found := c.Check(p.Node).placeAt(p.Node)
	if broken := decoding.brokenValues(p.Node); len(broken) > 0 {
		found = slices.DeleteFunc(found, func(d Diagnostic) bool { return broken[d.Pos] })
	}
	return append(decoding, found...)
}

// reportsType reports whether the value at a position has another type, such as a list for a
// mapping, and thus no fields to check.
func (ds Diagnostics) reportsType(at Pos) bool {
	return slices.ContainsFunc(ds, func(d Diagnostic) bool { return d.Rule == "type" && d.Pos == at })
}

// brokenValues returns the positions of the values below a node that could not be decoded, or that
// contain such values. A missing field leaves the others intact.
func (ds Diagnostics) brokenValues(n *Node) map[Pos]bool {
	broken := map[Pos]bool{}
	for _, d := range ds {
		if d.Severity == Error && d.Rule != "required" {
			broken[d.Pos] = true
		}
	}
	if len(broken) > 0 {
		n.markBroken(broken, map[*Node]bool{})
	}
	return broken
}

// markBroken adds the positions of nodes that contain broken ones, and reports whether n does.
func (n *Node) markBroken(broken map[Pos]bool, visited map[*Node]bool) bool {
	if result, ok := visited[n]; ok {
		return result
	}
	found := broken[n.Pos]
	for _, e := range n.Entries {
		found = e.Value.markBroken(broken, visited) || broken[e.Key.Pos] || found
	}
	for _, item := range n.Items {
		found = item.markBroken(broken, visited) || found
	}
	if visited[n] = found; found {
		broken[n.Pos] = true
	}
	return found
}

// Build builds the result. It may be called more than once.
func (p Plan[Env, T]) Build(ctx context.Context, env Env) (T, error) {
	return p.Kind.build(ctx, env, p.Config)
}

// Kinds lists an extension point's kinds.
type Kinds[Env, T any] []Kind[Env, T]

// Lookup returns the kind with a name.
func (ks Kinds[Env, T]) Lookup(name string) (Kind[Env, T], bool) {
	for _, k := range ks {
		if k.Name == name {
			return k, true
		}
	}
	return Kind[Env, T]{}, false
}

// Names lists the kinds' names in order, for example for [Suggest].
func (ks Kinds[Env, T]) Names() []string {
	names := make([]string, len(ks))
	for i, k := range ks {
		names[i] = k.Name
	}
	return names
}

// SortByName sorts the kinds by name, regardless of case, and returns them.
func (ks Kinds[Env, T]) SortByName() Kinds[Env, T] {
	slices.SortFunc(ks, func(a, b Kind[Env, T]) int { return strings.Compare(strings.ToLower(a.Name), strings.ToLower(b.Name)) })
	return ks
}
