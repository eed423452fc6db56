package spec

import (
	"bytes"
	"strings"

	"gopkg.in/yaml.v3"
)

// Locating finds the bytes in a file that a part of a string was read from, so that an editor can
// replace them. A [Pos] is not enough: it has no end, and inside a folded string it is where the
// string starts.
//
// A parser with positions per character was not needed. The value and the file are walked side by
// side from where the string starts: what the file has more than the value is indentation, an
// escape or a line break, and each style has its own rule for those.
//
// Invariant: a range that is reported as exact has the same bytes in the file as in the value.
// Whatever the walk does not understand is reported as inexact, never at another place.

// A Range is a byte range [Start, End) in a file.
type Range struct{ Start, End int }

// A Locator finds ranges in the file that a document was parsed from. It is not safe for concurrent
// use.
type Locator struct {
	src    []byte
	starts []int
	// strides has, by the number of a long line, the offsets of every strideLength'th
	// character: a document may be one line.
	strides map[int][]int
	// walk is the last walk, along the string walked: the next range is often after the last one.
	walk   *scalarWalk
	walked *Node
}

// NewLocator returns a locator for a file. The documents must have been parsed from these bytes.
func NewLocator(src []byte) *Locator {
	return &Locator{src: src, starts: lineStarts(src), strides: map[int][]int{}}
}

// OffsetOf returns the byte offset for a position, and whether the file has it.
func (l *Locator) OffsetOf(p Pos) (int, bool) {
	if p.Col <= strideLength || p.Line < 1 || p.Line > len(l.starts) {
		return offsetOf(l.src, l.starts, Fix{Line: p.Line, Col: p.Col})
	}
	start, ok := offsetOf(l.src, l.starts, Fix{Line: p.Line, Col: 1})
	if !ok {
		return 0, false
	}
	offsets, known := l.strides[p.Line]
	if !known {
		end := len(l.src)
		if p.Line < len(l.starts) {
			end = l.starts[p.Line]
		}
		offsets = strideOffsets(string(l.src[start:end]))
		l.strides[p.Line] = offsets
	}
	if (p.Col-1)/strideLength >= len(offsets) {
		return 0, false
	}
	near := start + offsets[(p.Col-1)/strideLength]
	rest, ok := offsetOf(l.src[near:], []int{0}, Fix{Line: 1, Col: (p.Col-1)%strideLength + 1})
	return near + rest, ok
}

// Locate returns where the file has the text's bytes [from, to). If they are not in the file as they
// are, because of an escape, a line break or a reference, it returns where the string starts, and
// false. A reference's default is in the file.
func (l *Locator) Locate(t Text, from, to int) (Range, bool) {
	start, ok := l.OffsetOf(t.Pos)
	if !ok || t.node == nil || t.node.Kind != Scalar || from < 0 || to > len(t.Value) || from > to {
		return Range{start, start}, false
	}
	n := t.node
	value, first := n.sourceOffset(from)
	for _, p := range n.parts {
		if from < p.end && to > p.start {
			if first = p.writtenEnd - len("}") - (p.end - from); !n.isDefault(p) || from < p.start || to > p.end {
				return Range{start, start}, false
			}
		}
	}
	w := l.walk
	if w == nil || l.walked != n || w.in > first {
		w = l.newWalk(n, value)
	}
	l.walk, l.walked = nil, nil
	if w == nil || !w.walkTo(first) {
		return Range{start, start}, false
	}
	found := Range{w.at, w.at}
	if !w.walkTo(first + to - from) {
		return Range{start, start}, false
	}
	found.End = w.at
	l.walk, l.walked = w, n
	if !bytes.Equal(l.src[found.Start:found.End], []byte(t.Value[from:to])) {
		return Range{start, start}, false
	}
	return found, true
}

// isDefault reports whether a reference's value is its default, as it is written.
func (n *Node) isDefault(p substitution) bool {
	return strings.HasSuffix(n.written[p.writtenStart:p.writtenEnd], ":-"+n.Value[p.start:p.end]+"}")
}

// RangeOf returns the bytes of a value with its quotes or brackets. A value whose end cannot be
// found ends where its last part begins.
func (l *Locator) RangeOf(n *Node) Range {
	start, ok := l.OffsetOf(n.Pos)
	if !ok {
		return Range{}
	}
	r := Range{start, start}
	if n.Kind != Scalar {
		for _, e := range n.Entries {
			r.End = max(r.End, l.RangeOf(e.Key).End, l.RangeOf(e.Value).End)
		}
		for _, item := range n.Items {
			r.End = max(r.End, l.RangeOf(item).End)
		}
		if start < len(l.src) && (l.src[start] == '{' || l.src[start] == '[') {
			rest := l.src[r.End:]
			if end := bytes.IndexAny(rest, "}]"); end >= 0 && len(bytes.Trim(rest[:end], " \t\r\n,{[")) == 0 {
				r.End += end + 1
			}
		}
		return r
	}
	if w := l.newWalk(n, n.writtenValue()); w != nil && w.walkTo(len(w.value)) {
		r.End = w.at
		if w.step != nil && r.End < len(l.src) {
			r.End++ // the closing quote
		}
	}
	return r
}

// A scalarWalk walks along a string value and the bytes that it was read from.
type scalarWalk struct {
	src   []byte
	value string
	// at is the offset in the file, and in is the offset in the value.
	at, in int
	// step reads a quoted string's character; nil for the other styles.
	step unescapeStep
	// block reports a block scalar, whose lines have this indentation.
	block  bool
	indent int
}

// newWalk starts a walk where a scalar's text starts, or returns nil.
func (l *Locator) newWalk(n *Node, value string) *scalarWalk {
	at, ok := l.OffsetOf(n.contentPos())
	if !ok {
		return nil
	}
	w := &scalarWalk{src: l.src, value: value, at: at}
	switch {
	case n.style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0:
		return w.enterBlock()
	case n.style&yaml.DoubleQuotedStyle != 0:
		w.at, w.step = at+1, stepDoubleQuoted
	case n.style&yaml.SingleQuotedStyle != 0:
		w.at, w.step = at+1, stepSingleQuoted
	}
	return w
}

// contentPos is contentStart for nodes that have no source.
func (n *Node) contentPos() Pos {
	if n.src == nil {
		return n.Pos
	}
	return n.contentStart()
}

// enterBlock moves the walk to a block's first line, and finds its indentation. It returns nil if
// the header states the indentation.
func (w *scalarWalk) enterBlock() *scalarWalk {
	header, body, ok := bytes.Cut(w.src[w.at:], []byte("\n"))
	if !ok {
		return nil
	}
	indicators, _, _ := strings.Cut(string(header), "#")
	if strings.ContainsAny(indicators, "123456789") {
		return nil
	}
	w.block = true
	w.at += len(header) + 1
	for line := range bytes.Lines(body) {
		if text := bytes.TrimLeft(line, " "); len(bytes.TrimRight(text, "\r\n")) > 0 {
			w.indent = len(line) - len(text)
			break
		}
	}
	w.skipIndent()
	return w
}

func (w *scalarWalk) skipIndent() {
	for n := 0; n < w.indent && w.at < len(w.src) && w.src[w.at] == ' '; n++ {
		w.at++
	}
}

// walkTo walks to an offset in the value, and reports whether it was reached exactly. There, the
// file's next byte is the value's.
func (w *scalarWalk) walkTo(offset int) bool {
	for w.in < offset || w.in < len(w.value) && offset < len(w.value) && w.atFold() && w.value[w.in] != ' ' && w.value[w.in] != '\n' {
		if w.at >= len(w.src) {
			return w.in == offset && w.in == len(w.value)
		}
		switch {
		case w.atFold():
			if !w.walkFold() {
				return false
			}
		case w.step != nil:
			read, written := w.step(string(w.src[w.at:min(len(w.src), w.at+12)]))
			w.at, w.in = w.at+read, w.in+written
		case w.in < len(w.value) && w.src[w.at] == w.value[w.in]:
			w.at, w.in = w.at+1, w.in+1
		default:
			return false
		}
	}
	return w.in == offset
}

// atFold reports whether the file has a line break next. Blanks before it count, except in a block.
func (w *scalarWalk) atFold() bool {
	rest := w.src[w.at:]
	if w.step != nil && len(rest) > 1 && rest[0] == '\\' && (rest[1] == '\n' || rest[1] == '\r') {
		return true
	}
	if !w.block {
		rest = bytes.TrimLeft(rest, " \t")
	}
	return len(rest) > 0 && (rest[0] == '\n' || rest[0] == '\r')
}

// walkFold walks over line breaks with the blank lines after them. In the value they are a space,
// line breaks, or nothing after a backslash.
func (w *scalarWalk) walkFold() bool {
	if w.src[w.at] == '\\' {
		w.at++
		w.skipBreak()
		w.at += len(w.src[w.at:]) - len(bytes.TrimLeft(w.src[w.at:], " \t"))
		return true
	}
	breaks := 0
	for w.at < len(w.src) && w.atFold() {
		if !w.block {
			w.at += len(w.src[w.at:]) - len(bytes.TrimLeft(w.src[w.at:], " \t"))
		}
		w.skipBreak()
		breaks++
		if w.block {
			w.skipIndent()
		}
	}
	if !w.block {
		w.at += len(w.src[w.at:]) - len(bytes.TrimLeft(w.src[w.at:], " \t"))
	}
	rest := w.value[w.in:]
	lines := min(breaks, len(rest)-len(strings.TrimLeft(rest, "\n")))
	switch {
	case lines == 0 && breaks == 1 && strings.HasPrefix(rest, " "):
		w.in++
	case lines == breaks || lines == breaks-1:
		w.in += lines
	default:
		return false
	}
	return true
}

func (w *scalarWalk) skipBreak() {
	if bytes.HasPrefix(w.src[w.at:], []byte("\r\n")) {
		w.at++
	}
	w.at++
}
