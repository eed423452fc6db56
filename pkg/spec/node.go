package spec

import (
	"fmt"

	"gopkg.in/yaml.v3"
)

// A NodeKind is the structure of a node.
type NodeKind int

// Node kinds.
const (
	// Scalar is a single value: a string, number, boolean or null.
	Scalar NodeKind = iota
	// Mapping is a list of key-value pairs.
	Mapping
	// Sequence is a list.
	Sequence
)

// A Node is a value of a document with its position. Aliases and merge keys are
// resolved; nodes from an anchor have the position of the anchor. After [Interpolate]
// and [Decode], nodes are read-only and safe for concurrent use.
type Node struct {
	Pos  Pos
	Kind NodeKind
	// Tag is the resolved YAML tag: !!str, !!int, !!float, !!bool, !!null, !!map or
	// !!seq.
	Tag string
	// Value is the value of a scalar.
	Value string
	// Entries are the key-value pairs of a mapping in order, merged ones last.
	Entries []Entry
	// Items are the elements of a sequence.
	Items []*Node

	style yaml.Style
	src   *source
	// parts are the ranges of Value that Interpolate replaced; written is the value
	// before that.
	parts   []substitution
	written string
	// readAsSecret is set once a Secret has been decoded from the scalar.
	readAsSecret bool
	// neverShown is set if the value belongs to a secret field.
	neverShown bool
}

// An Entry is a key-value pair of a mapping. Keys are scalars and unique.
type Entry struct{ Key, Value *Node }

// Get returns the value of a key of a mapping, or nil. It accepts a nil node.
func (n *Node) Get(key string) *Node {
	if n == nil {
		return nil
	}
	for _, e := range n.Entries {
		if e.Key.Value == key {
			return e.Value
		}
	}
	return nil
}

// WithEntry returns a copy of a mapping with one more entry, an unquoted string, at the
// position of the mapping.
func (n *Node) WithEntry(key, value string) *Node {
	scalar := func(v string) *Node { return &Node{Pos: n.Pos, Tag: strTag, Value: v, src: n.src} }
	extended := *n
	extended.Entries = append([]Entry{{scalar(key), scalar(value)}}, n.Entries...)
	return &extended
}

// Keys returns the keys of a mapping in order.
func (n *Node) Keys() []string {
	keys := make([]string, len(n.Entries))
	for i, e := range n.Entries {
		keys[i] = e.Key.Value
	}
	return keys
}

// IsNull reports whether the node is nil, null or empty.
func (n *Node) IsNull() bool { return n == nil || n.Kind == Scalar && n.Tag == nullTag }

// Errorf returns an error at the node, with its source line.
func (n *Node) Errorf(rule, format string, args ...any) Diagnostic {
	return Diagnostic{Pos: n.Pos, Rule: rule, Message: fmt.Sprintf(format, args...), Source: n.src.lineText(n.Pos.Line)}
}

// Warnf returns a warning at the node, with its source line.
func (n *Node) Warnf(rule, format string, args ...any) Diagnostic {
	d := n.Errorf(rule, format, args...)
	d.Severity = Warning
	return d
}

// isPlain reports whether a scalar is neither quoted nor a block.
func (n *Node) isPlain() bool { return n.style&^yaml.TaggedStyle == 0 }

// describeType returns the type of a node for messages, with its article.
func (n *Node) describeType() string {
	switch n.Kind {
	case Mapping:
		return "a mapping"
	case Sequence:
		return "a list"
	}
	switch n.Tag {
	case nullTag:
		return "null"
	case boolTag:
		return "a boolean"
	case intTag:
		return "an integer"
	case floatTag:
		return "a number"
	}
	return stringType
}
