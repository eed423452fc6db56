package spec

import "slices"

// A StateSchema is a [ShortSchema] of the keys of a session's state. A key may also
// declare who may write it:
//
//	note:  string?
//	limit: {type: number, default: 50, writable: agent}
//	plan:  {writable: admin}                             # of any type
type StateSchema struct {
	ShortSchema
	// writers holds the values of writable by key.
	writers map[string]*Node
}

// Writers returns the values of `writable` by key.
func (s StateSchema) Writers() map[string]*Node { return s.writers }

// DecodeSpec decodes both forms of a [ShortSchema].
func (s *StateSchema) DecodeSpec(n *Node) Diagnostics {
	s.writers = map[string]*Node{}
	if n.Kind == Mapping {
		n = s.withoutWriters(n)
	}
	return s.ShortSchema.DecodeSpec(n)
}

// withoutWriters records and removes `writable` from the keys.
func (s *StateSchema) withoutWriters(n *Node) *Node {
	if !isJSONSchema(n) {
		return s.stripWriters(n, anyTypeNode)
	}
	with := *n
	with.Entries = slices.Clone(n.Entries)
	for i, e := range with.Entries {
		if e.Key.Value == "properties" && e.Value.Kind == Mapping {
			with.Entries[i].Value = s.stripWriters(e.Value, func(at *Node) *Node { return at })
		}
	}
	return &with
}

// stripWriters records and removes `writable` from a mapping of keys. empty replaces
// fields that have no other entry.
func (s *StateSchema) stripWriters(n *Node, empty func(*Node) *Node) *Node {
	with := *n
	with.Entries = slices.Clone(n.Entries)
	for i, e := range with.Entries {
		at := e.Value.Get("writable")
		if at == nil || at.Kind != Scalar || slices.Contains(shortTypes(), at.Value) && !isJSONSchema(e.Value) && !isEnum(e.Value) {
			continue // a field named writable
		}
		s.writers[e.Key.Value] = at
		field := *e.Value
		field.Entries = slices.DeleteFunc(slices.Clone(field.Entries), func(f Entry) bool { return f.Key.Value == "writable" })
		with.Entries[i].Value = &field
		if len(field.Entries) == 0 {
			with.Entries[i].Value = empty(&field)
		}
	}
	return &with
}
