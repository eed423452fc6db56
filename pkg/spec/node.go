package spec

import (
	"fmt"

	"gopkg.in/yaml.v3"
)

// A NodeKind is the shape of a node.
type NodeKind int

// The shapes.
const (
	// Scalar is a single value: text, number, true or false, or nothing.
	Scalar NodeKind = iota
	// Mapping is a list of keys with values.
	Mapping
	// Sequence is a list.
	Sequence
)

// A Node is a piece of a document with its place. Aliases and merge keys are
// already resolved; what came from an anchor has the place of the anchor.
// Nodes are read-only but for [Interpolate], and for the note that a [Secret]
// was decoded from one; then they may be read by many goroutines.
type Node struct {
	Pos  Pos
	Kind NodeKind
	// Tag is the resolved YAML tag: !!str, !!int, !!float, !!bool, !!null,
	// !!map or !!seq.
	Tag string
	// Value is a scalar's text.
	Value string
	// Entries are a mapping's keys and values in order, merged ones last.
	Entries []Entry
	// Items are a sequence's elements.
	Items []*Node

	style yaml.Style
	src   *source
	// parts are the pieces of Value that Interpolate put in; written is what
	// Value was before.
	parts   []substitution
	written string
	// readAsSecret says that a Secret was decoded from the scalar.
	readAsSecret bool
	// neverShown says that it stands in a field that is never shown.
	neverShown bool
}

// An Entry is one key of a mapping with its value. Keys are scalars, and no
// key is there twice.
type Entry struct{ Key, Value *Node }

// Get returns the value under a key of a mapping, or nil. It may be asked of a
// nil node.
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

// WithEntry is a mapping with one key more, whose value is as if it were written
// without quotes, at the place of the mapping. The mapping itself stays.
func (n *Node) WithEntry(key, value string) *Node {
	scalar := func(v string) *Node { return &Node{Pos: n.Pos, Tag: strTag, Value: v, src: n.src} }
	with := *n
	with.Entries = append([]Entry{{scalar(key), scalar(value)}}, n.Entries...)
	return &with
}

// Keys lists the keys of a mapping in order.
func (n *Node) Keys() []string {
	keys := make([]string, len(n.Entries))
	for i, e := range n.Entries {
		keys[i] = e.Key.Value
	}
	return keys
}

// IsNull says whether the node is a null (or empty) scalar, or nil.
func (n *Node) IsNull() bool { return n == nil || n.Kind == Scalar && n.Tag == nullTag }

// Errorf makes an error at the node, with its source line.
func (n *Node) Errorf(rule, format string, args ...any) Diagnostic {
	return Diagnostic{Pos: n.Pos, Rule: rule, Message: fmt.Sprintf(format, args...), Source: n.src.lineText(n.Pos.Line)}
}

// Warnf makes a warning at the node, with its source line.
func (n *Node) Warnf(rule, format string, args ...any) Diagnostic {
	d := n.Errorf(rule, format, args...)
	d.Severity = Warning
	return d
}

// isPlain says whether a scalar is written without quotes and not as a block.
func (n *Node) isPlain() bool { return n.style&^yaml.TaggedStyle == 0 }

// describeType names what a node holds in words for people.
func (n *Node) describeType() string {
	switch n.Kind {
	case Mapping:
		return "a mapping"
	case Sequence:
		return "a list"
	}
	switch n.Tag {
	case nullTag:
		return "nothing"
	case boolTag:
		return "true or false"
	case intTag:
		return "a whole number"
	case floatTag:
		return "a number"
	}
	return stringType
}
