package spec

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	yaml "gopkg.in/yaml.v3"
)

// StringAt returns a document's string at a position, as it is written before [Interpolate].
func StringAt(src []byte, at Pos) (string, bool) {
	doc, _ := Parse(at.File, src)
	n := doc.findScalar(at)
	if n == nil {
		return "", false
	}
	return n.Value, true
}

// ReplaceString returns a document with another string at a position. Every other byte is
// unchanged, comments included. A block or a string over several lines becomes a literal block;
// others stay in one line. An error means that the string cannot be replaced alone, such as one
// with an anchor.
func ReplaceString(src []byte, at Pos, text string) ([]byte, error) {
	doc, ds := Parse(at.File, src)
	if ds.HasErrors() {
		return nil, ds.Err()
	}
	n := doc.findScalar(at)
	if n == nil {
		return nil, fmt.Errorf("%s: no string found", at)
	}
	start, ok := offsetOf(src, lineStarts(src), Fix{Line: at.Line, Col: at.Col})
	if !ok {
		return nil, fmt.Errorf("%s: no string found", at)
	}
	e := &stringEdit{src: src, node: n, start: start}
	if e.end, ok = e.findEnd(); ok {
		for _, form := range e.renderForms(text) {
			edited := slices.Concat(src[:e.start], []byte(form.text), src[form.end:])
			if e.isOnlyChange(doc, edited, text) {
				return edited, nil
			}
		}
	}
	return nil, fmt.Errorf("%s: the string cannot be replaced: write it without an anchor or a tag", at)
}

// findScalar returns the string at a position, or nil.
func (n *Node) findScalar(at Pos) *Node {
	if n == nil {
		return nil
	}
	if n.Kind == Scalar {
		if n.Tag == strTag && n.Pos.Line == at.Line && n.Pos.Col == at.Col {
			return n
		}
		return nil
	}
	for _, e := range n.Entries {
		if found := e.Value.findScalar(at); found != nil {
			return found
		}
	}
	for _, item := range n.Items {
		if found := item.findScalar(at); found != nil {
			return found
		}
	}
	return nil
}

// A stringEdit replaces the bytes from start to end, which are a string.
type stringEdit struct {
	src        []byte
	node       *Node
	start, end int
}

// findEnd returns the string's end.
func (e *stringEdit) findEnd() (int, bool) {
	if e.start >= len(e.src) {
		return 0, false
	}
	rest := e.src[e.start:]
	switch rest[0] {
	case '"', '\'':
		length := quotedLength(rest)
		return e.start + length, length > 0
	case '|', '>':
		return e.start + blockLength(rest), true
	}
	length := plainLength(rest, e.node.Value)
	return e.start + length, length > 0
}

// quotedLength returns a quoted string's length, or 0.
func quotedLength(rest []byte) int {
	quote := rest[0]
	for i := 1; i < len(rest); i++ {
		switch {
		case rest[i] == '\\' && quote == '"':
			i++
		case rest[i] != quote:
		case quote == '\'' && i+1 < len(rest) && rest[i+1] == quote:
			i++
		default:
			return i + 1
		}
	}
	return 0
}

// blockLength returns a block scalar's length: up to its last line with text, or with + also the
// blank lines after it. Its lines are indented as the first one, or more.
func blockLength(rest []byte) int {
	header, _, _ := bytes.Cut(rest, []byte("\n"))
	keep := bytes.Contains(header, []byte("+"))
	end, at, indent := 0, 0, 1
	for i, line := range bytes.SplitAfter(rest, []byte("\n")) {
		text := bytes.TrimRight(line, "\r\n")
		spaces := len(text) - len(bytes.TrimLeft(text, " "))
		isBlank := spaces == len(text)
		if i > 0 && !isBlank && spaces < indent {
			return end
		}
		if i == 0 || !isBlank || keep && len(line) > 0 {
			end = at + len(text)
		}
		if i > 0 && !isBlank && indent == 1 {
			indent = spaces
		}
		at += len(line)
	}
	return end
}

// plainLength returns an unquoted string's length if it has a value, or 0. A line break is a space
// in the value, and each blank line a line break.
func plainLength(rest []byte, value string) int {
	i := 0
	for value != "" {
		if i < len(rest) && rest[i] == value[0] && rest[i] != '\n' {
			i, value = i+1, value[1:]
			continue
		}
		space := len(rest[i:]) - len(bytes.TrimLeft(rest[i:], " \t\r\n"))
		breaks := bytes.Count(rest[i:i+space], []byte("\n"))
		folded := " "
		if breaks > 1 {
			folded = strings.Repeat("\n", breaks-1)
		}
		if breaks == 0 || !strings.HasPrefix(value, folded) {
			return 0
		}
		i, value = i+space, value[len(folded):]
	}
	return i
}

// stringForm is a string's form, which replaces the bytes up to end.
type stringForm struct {
	text string
	end  int
}

// renderForms returns the text in the forms that it may have, the preferred one first.
func (e *stringEdit) renderForms(text string) []stringForm {
	var forms []stringForm
	block := e.node.style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0
	if strings.Contains(text, "\n") || block {
		if indent, ok := e.blockIndent(); ok {
			comment, end := e.findComment(block)
			forms = append(forms, stringForm{e.renderBlock(text, comment, indent), end})
		}
	} else if e.node.isPlain() {
		forms = append(forms, stringForm{text, e.end})
	}
	return append(forms, stringForm{strconv.Quote(text), e.end})
}

// findComment returns the string's comment with the blanks before it, for a block's first line, and
// where the string ends with its comment.
func (e *stringEdit) findComment(block bool) (comment string, end int) {
	line, _, _ := bytes.Cut(e.src[e.start:], []byte("\n"))
	if !block {
		line, _, _ = bytes.Cut(e.src[e.end:], []byte("\n"))
	}
	line = bytes.TrimRight(line, "\r")
	i := bytes.IndexByte(line, '#')
	if i < 0 {
		return "", e.end
	}
	blanks := len(line[:i]) - len(bytes.TrimRight(line[:i], " \t"))
	if end = e.end; !block {
		end += len(line)
	}
	return string(line[i-blanks:]), end
}

// blockIndent returns the indentation for a block that replaces the string, which must be a key's
// value in its line.
func (e *stringEdit) blockIndent() (int, bool) {
	line := e.src[bytes.LastIndexByte(e.src[:e.start], '\n')+1 : e.start]
	if bytes.ContainsAny(line, "{[") || !bytes.HasSuffix(bytes.TrimRight(line, " "), []byte(":")) {
		return 0, false
	}
	key := bytes.TrimLeft(line, " ")
	for bytes.HasPrefix(key, []byte("- ")) {
		key = bytes.TrimLeft(key[2:], " ")
	}
	return utf8.RuneCount(line[:len(line)-len(key)]) + 2, true
}

// renderBlock returns a literal block without the line break after it.
func (e *stringEdit) renderBlock(text, comment string, indent int) string {
	header := "|"
	if first := strings.TrimLeft(text, "\n"); strings.HasPrefix(first, " ") {
		header += "2" // the indentation, which the first line does not show
	}
	body := strings.TrimRight(text, "\n")
	switch len(text) - len(body) {
	case 0:
		header += "-"
	case 1:
	default:
		header += "+"
	}
	lineBreak := "\n"
	if bytes.Contains(e.src, []byte("\r\n")) {
		lineBreak = "\r\n"
	}
	var b strings.Builder
	b.WriteString(header + comment)
	for line := range strings.Lines(text) {
		b.WriteString(lineBreak)
		if line = strings.TrimSuffix(line, "\n"); line != "" {
			b.WriteString(strings.Repeat(" ", indent) + line)
		}
	}
	return b.String()
}

// isOnlyChange reports whether the edited document is the same but for the string.
func (e *stringEdit) isOnlyChange(doc *Node, edited []byte, text string) bool {
	after, ds := Parse(e.node.Pos.File, edited)
	return !ds.HasErrors() && e.isSameNode(doc, after, text)
}

func (e *stringEdit) isSameNode(before, after *Node, text string) bool {
	want := before.Value
	if before == e.node {
		want = text
	}
	return before.Kind == after.Kind && before.Tag == after.Tag && want == after.Value &&
		slices.EqualFunc(before.Entries, after.Entries, func(a, b Entry) bool {
			return a.Key.Value == b.Key.Value && e.isSameNode(a.Value, b.Value, text)
		}) &&
		slices.EqualFunc(before.Items, after.Items, func(a, b *Node) bool { return e.isSameNode(a, b, text) })
}
