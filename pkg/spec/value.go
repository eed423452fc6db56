package spec

import "fmt"

// A Text is a scalar for people or templates that remembers its place. It
// takes text, and numbers, true and false as they are written.
type Text struct {
	Value string
	Pos   Pos
	node  *Node
}

// DecodeSpec reads a scalar.
func (t *Text) DecodeSpec(n *Node) Diagnostics {
	if n.Kind != Scalar || n.IsNull() {
		return Diagnostics{n.typeError(stringType)}
	}
	*t = Text{Value: n.Value, Pos: n.Pos, node: n}
	return nil
}

// Text is the scalar with its place; what is no scalar is an empty text.
func (n *Node) Text() Text {
	if n.Kind != Scalar {
		return Text{Pos: n.Pos, node: n}
	}
	return Text{Value: n.Value, Pos: n.Pos, node: n}
}

// SchemaSpec allows what DecodeSpec reads.
func (t *Text) SchemaSpec() map[string]any {
	return map[string]any{"type": []any{"string", "number", "boolean"}}
}

// String is the value.
func (t Text) String() string { return t.Value }

// At returns the place of the byte offset in Value. In a folded block or a
// plain or quoted text over several lines it is the place where the text
// starts.
func (t Text) At(offset int) Pos {
	if t.node == nil {
		return t.Pos
	}
	return t.node.positionAt(offset)
}

// Mapping is a mapping of one key with a value, at the place of the text: what
// the text is short for.
func (t Text) Mapping(key, value string) *Node {
	scalar := func(v string) *Node { return &Node{Pos: t.Pos, Tag: strTag, Value: v, src: t.nodeSource()} }
	return &Node{Pos: t.Pos, Kind: Mapping, Tag: mapTag, Entries: []Entry{{scalar(key), scalar(value)}}, src: t.nodeSource()}
}

func (t Text) nodeSource() *source {
	if t.node == nil {
		return nil
	}
	return t.node.src
}

// Errorf makes an error at a byte offset of the text.
func (t Text) Errorf(offset int, rule, format string, args ...any) Diagnostic {
	pos := t.At(offset)
	d := Diagnostic{Pos: pos, Rule: rule, Message: fmt.Sprintf(format, args...)}
	if t.node != nil {
		d.Source = t.node.src.lineText(pos.Line)
	}
	return d
}

// Warnf makes a warning at a byte offset of the text.
func (t Text) Warnf(offset int, rule, format string, args ...any) Diagnostic {
	d := t.Errorf(offset, rule, format, args...)
	d.Severity = Warning
	return d
}

// An Expr is the text of an expression.
type Expr struct{ Text }
