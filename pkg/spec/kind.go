package spec

import (
	"context"
	"reflect"
)

// A Kind is one thing that a document may name: its fields, its sentence, and
// how it is built. Env is what building may use; T is what is built.
type Kind[Env, T any] struct {
	// Name is what documents write; Doc is the sentence of the reference page.
	Name, Doc string

	config func() any
	fields *fieldTable
	build  func(ctx context.Context, env Env, config any) (T, error)
}

// NewKind ties a config struct to the function that builds from it.
func NewKind[C, Env, T any](name, doc string, build func(context.Context, Env, *C) (T, error)) Kind[Env, T] {
	return Kind[Env, T]{
		Name: name, Doc: doc,
		config: func() any { return new(C) }, fields: new(fieldTable),
		build: func(ctx context.Context, env Env, c any) (T, error) {
			return build(ctx, env, c.(*C))
		},
	}
}

// Decode checks a mapping against the kind's fields. A config that is a
// [Decoder] reads itself.
func (k Kind[Env, T]) Decode(n *Node) (Plan[Env, T], Diagnostics) {
	config := k.config()
	plan := Plan[Env, T]{Kind: k, Config: config, Node: n}
	if d, ok := config.(Decoder); ok {
		return plan, d.DecodeSpec(n)
	}
	return plan, decodeInto(n, config, k.fields)
}

// CheckKeys reports the keys of a mapping that are no fields of the kind.
func (k Kind[Env, T]) CheckKeys(n *Node) Diagnostics {
	d := &decoder{fields: k.fields}
	fields := k.fields.fieldsOf(k.ConfigType())
	for _, e := range n.Entries {
		d.matchField(e, fields, make([]*Node, len(fields)))
	}
	return d.ds
}

// ConfigType is the kind's config struct.
func (k Kind[Env, T]) ConfigType() reflect.Type { return reflect.TypeOf(k.config()).Elem() }

// Reference is the kind's Markdown page.
func (k Kind[Env, T]) Reference() string { return Reference(k.Name, k.Doc, k.ConfigType()) }

// A Plan is a decoded document piece of some kind, ready to be built.
type Plan[Env, T any] struct {
	Kind Kind[Env, T]
	// Config is the decoded config struct, a pointer.
	Config any
	// Node is what was decoded.
	Node *Node
}

// Build makes the thing. It may be called more than once.
func (p Plan[Env, T]) Build(ctx context.Context, env Env) (T, error) {
	return p.Kind.build(ctx, env, p.Config)
}

// Kinds is the list of an extension point.
type Kinds[Env, T any] []Kind[Env, T]

// Lookup finds a kind by name.
func (ks Kinds[Env, T]) Lookup(name string) (Kind[Env, T], bool) {
	for _, k := range ks {
		if k.Name == name {
			return k, true
		}
	}
	return Kind[Env, T]{}, false
}

// Names lists the names of the kinds in order, such as for [Suggest].
func (ks Kinds[Env, T]) Names() []string {
	names := make([]string, len(ks))
	for i, k := range ks {
		names[i] = k.Name
	}
	return names
}
