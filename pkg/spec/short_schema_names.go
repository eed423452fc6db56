package spec

import "slices"

// ResolveSchemaNames puts schemas in the place of their names: where a short schema
// has a word that is no type, find may return the schema of that name. What it
// returns has names of its own; a schema that holds itself is a diagnostic, and
// so is one that grows beyond 10 000 values by schemas that use others twice.
// The tree is not changed: what differs is new.
func ResolveSchemaNames(n *Node, find func(name string) *Node) (*Node, Diagnostics) {
	s := schemaResolver{find: find, budget: maxAliased}
	whole := s.resolveField(n)
	if s.budget < 0 {
		s.ds = append(s.ds, n.Errorf("limit", "the schemas that are used here have more than %d values", maxAliased))
		whole = anyTypeNode(n)
	}
	return whole, s.ds
}

type schemaResolver struct {
	find func(name string) *Node
	// budget is how many values may still come from names.
	budget int
	// resolving are the names of the schemas around the present place.
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

// anyTypeNode takes the place of a schema that cannot be had.
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
		s.ds = append(s.ds, n.Errorf("cycle", "the schema %s holds itself", n.Value).
			WithHint("a JSON Schema may: with $defs and $ref"))
		return anyTypeNode(n)
	}
	s.resolving = append(s.resolving, n.Value)
	whole := s.resolveField(found)
	s.resolving = s.resolving[:len(s.resolving)-1]
	return whole
}
