package spec

import "slices"

// ResolveSchemaNames replaces names of schemas in a short schema: for a word that is not
// a type, find may return the schema of that name, which is resolved in turn. It reports
// schemas that refer to themselves, and schemas that expand to more than 10,000 values.
// The tree is not changed; changed nodes are copies.
func ResolveSchemaNames(n *Node, find func(name string) *Node) (*Node, Diagnostics) {
	s := schemaResolver{find: find, budget: maxAliased}
	whole := s.resolveField(n)
	if s.budget < 0 {
		s.ds = append(s.ds, n.Errorf("limit", "the referenced schemas exceed the limit of %d values", maxAliased))
		whole = anyTypeNode(n)
	}
	return whole, s.ds
}

type schemaResolver struct {
	find func(name string) *Node
	// budget is the number of values that names may still add.
	budget int
	// resolving holds the names of the schemas being resolved.
	resolving []string
	ds        Diagnostics
}

func (s *schemaResolver) resolveField(n *Node) *Node {
	if len(s.resolving) > 0 {
		s.budget--
	}
	switch {
	case s.budget < 0:
		return n
	case n.Kind == Scalar:
		return s.resolveName(n)
	case n.Kind == Sequence:
		with := *n
		with.Items = make([]*Node, len(n.Items))
		for i, item := range n.Items {
			with.Items[i] = s.resolveField(item)
		}
		if slices.Equal(with.Items, n.Items) {
			return n
		}
		return &with
	case isJSONSchema(n) || isEnum(n):
		return n
	}
	with := *n
	with.Entries = make([]Entry, len(n.Entries))
	for i, e := range n.Entries {
		with.Entries[i] = Entry{e.Key, s.resolveField(e.Value)}
	}
	if slices.Equal(with.Entries, n.Entries) {
		return n
	}
	return &with
}

// anyTypeNode replaces a schema that cannot be resolved.
func anyTypeNode(n *Node) *Node { return &Node{Pos: n.Pos, Tag: strTag, Value: "any", src: n.src} }

func (s *schemaResolver) resolveName(n *Node) *Node {
	if n.Tag != strTag || slices.Contains(shortTypes(), n.Value) {
		return n
	}
	found := s.find(n.Value)
	switch {
	case found == nil:
		return n
	case slices.Contains(s.resolving, n.Value):
		s.ds = append(s.ds, n.Errorf("cycle", "schema %s refers to itself", n.Value).
			WithHint("for a recursive schema, use a JSON Schema with $defs and $ref"))
		return anyTypeNode(n)
	}
	s.resolving = append(s.resolving, n.Value)
	whole := s.resolveField(found)
	s.resolving = s.resolving[:len(s.resolving)-1]
	return whole
}
