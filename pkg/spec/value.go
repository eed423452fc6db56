package spec

import "fmt"

// Text is a string with its position, for messages and templates. It accepts strings,
// and numbers and booleans as written.
type Text struct {
	Value string
	Pos   Pos
	node  *Node
}

// DecodeSpec decodes a scalar.
func (t *Text) DecodeSpec(n *Node) Diagnostics {
	if n.Kind != Scalar || n.IsNull() {
		return Diagnostics{n.typeError(stringType)}
	}
	*t = Text{Value: n.Value, Pos: n.Pos, node: n}
	return nil
}

// Text returns the scalar with its position, or an empty text if n is not a scalar.
func (n *Node) Text() Text {
	if n.Kind != Scalar {
		return Text{Pos: n.Pos, node: n}
	}
	return Text{Value: n.Value, Pos: n.Pos, node: n}
}

// SchemaSpec describes the accepted types.
func (t *Text) SchemaSpec() map[string]any {
	return map[string]any{"type": []any{"string", "number", "boolean"}}
}

// String returns the value.
func (t Text) String() string { return t.Value }

// At returns the position of a byte offset in Value. In a folded block, or a plain or
// quoted string over several lines, it returns the start of the string.
func (t Text) At(offset int) Pos {
	if t.node == nil {
		return t.Pos
	}
	return t.node.positionAt(offset)
}

// Mapping returns a mapping with one entry at the position of the text, for texts that
// are a short form of it.
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

// Errorf returns an error at a byte offset of the text.
func (t Text) Errorf(offset int, rule, format string, args ...any) Diagnostic {
	pos := t.At(offset)
	d := Diagnostic{Pos: pos, Rule: rule, Message: fmt.Sprintf(format, args...)}
	if t.node != nil {
		d.Source = t.node.src.lineText(pos.Line)
	}
	return d
}

// Warnf returns a warning at a byte offset of the text.
func (t Text) Warnf(offset int, rule, format string, args ...any) Diagnostic {
	d := t.Errorf(offset, rule, format, args...)
	d.Severity = Warning
	return d
}

// An Expr is the source of an expression.
type Expr struct{ Text }
