package spec

import (
	"context"
	"reflect"
)

// A Kind is a named variant of an extension point, such as a kind of tool: its config
// struct, its description and its build function. Env is the input of the build, T its
// result.
type Kind[Env, T any] struct {
	// Name is the name in documents. Doc is the description in the reference.
	Name, Doc string

	config func() any
	fields *fieldTable
	build  func(ctx context.Context, env Env, config any) (T, error)
}

// NewKind returns a kind with config struct C.
func NewKind[C, Env, T any](name, doc string, build func(context.Context, Env, *C) (T, error)) Kind[Env, T] {
	return Kind[Env, T]{
		Name: name, Doc: doc,
		config: func() any { return new(C) }, fields: new(fieldTable),
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
		return plan, d.DecodeSpec(n)
	}
	return plan, decodeInto(n, config, k.fields)
}

// CheckKeys reports keys of a mapping that are not fields of the kind.
func (k Kind[Env, T]) CheckKeys(n *Node) Diagnostics {
	d := &decoder{fields: k.fields}
	fields := k.fields.fieldsOf(k.ConfigType())
	for _, e := range n.Entries {
		d.matchField(e, fields, make([]*Node, len(fields)))
	}
	return d.ds
}

// ConfigType returns the type of the config struct.
func (k Kind[Env, T]) ConfigType() reflect.Type { return reflect.TypeOf(k.config()).Elem() }

// Reference returns the kind's section of the reference in Markdown.
func (k Kind[Env, T]) Reference() string { return Reference(k.Name, k.Doc, k.ConfigType()) }

// A Plan is a decoded config of a kind, ready to be built.
type Plan[Env, T any] struct {
	Kind Kind[Env, T]
	// Config is a pointer to the decoded config struct.
	Config any
	// Node is the decoded node.
	Node *Node
}

// Build builds the result. It may be called more than once.
func (p Plan[Env, T]) Build(ctx context.Context, env Env) (T, error) {
	return p.Kind.build(ctx, env, p.Config)
}

// Kinds is the list of kinds of an extension point.
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

// Names lists the names of the kinds in order, for example for [Suggest].
func (ks Kinds[Env, T]) Names() []string {
	names := make([]string, len(ks))
	for i, k := range ks {
		names[i] = k.Name
	}
	return names
}
