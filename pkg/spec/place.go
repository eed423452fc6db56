package spec

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"gopkg.in/yaml.v3"
)

// positionAt returns the position of a byte offset in the value of a scalar.
func (n *Node) positionAt(offset int) Pos {
	if n.src == nil || n.Kind != Scalar {
		return n.Pos
	}
	written, offset := n.sourceOffset(offset)
	start := n.contentStart()
	switch {
	case n.style&yaml.LiteralStyle != 0:
		return n.literalPosition(written, offset)
	case n.style&yaml.FoldedStyle != 0:
		return n.Pos
	case n.style&yaml.DoubleQuotedStyle != 0:
		return n.quotedPosition(start, offset, stepDoubleQuoted)
	case n.style&yaml.SingleQuotedStyle != 0:
		return n.quotedPosition(start, offset, stepSingleQuoted)
	}
	if !strings.HasPrefix(n.src.textFrom(start), written) {
		return start
	}
	return start.moveRight(runesBefore(written, offset))
}

func runesBefore(s string, offset int) int {
	return utf8.RuneCountInString(s[:min(max(offset, 0), len(s))])
}

// contentStart returns the position after an anchor and a tag, at which the YAML parser
// starts a node.
func (n *Node) contentStart() Pos {
	pos := n.Pos
	rest := n.src.textFrom(pos)
	for strings.HasPrefix(rest, "&") || strings.HasPrefix(rest, "!") {
		end := strings.IndexAny(rest, " \t")
		if end < 0 {
			return n.Pos
		}
		end += len(rest[end:]) - len(strings.TrimLeft(rest[end:], " \t"))
		pos = pos.moveRight(utf8.RuneCountInString(rest[:end]))
		rest = rest[end:]
	}
	return pos
}

// literalPosition finds an offset in a block scalar `|`, whose lines appear in the file
// unchanged except for indentation.
func (n *Node) literalPosition(value string, offset int) Pos {
	before := value[:min(max(offset, 0), len(value))]
	row := strings.Count(before, "\n")
	column := utf8.RuneCountInString(before[strings.LastIndex(before, "\n")+1:])
	pos := Pos{n.Pos.File, n.Pos.Line + 1 + row, n.literalIndent(value) + column + 1}
	return n.src.clampPos(pos)
}

func (n *Node) literalIndent(value string) int {
	row := n.Pos.Line + 1
	for line := range strings.Lines(value) {
		line = strings.TrimSuffix(line, "\n")
		if indent, ok := strings.CutSuffix(n.src.lineText(row), line); ok && line != "" {
			return len(indent)
		}
		row++
	}
	return 0
}

// An unescapeStep reads one character of a quoted string: the bytes it occupies in the
// file, and those it adds to the value.
type unescapeStep func(rest string) (read, written int)

// quotedPosition walks along a quoted string. For offsets after the first line, it
// returns the start of the string.
func (n *Node) quotedPosition(start Pos, offset int, step unescapeStep) Pos {
	rest := n.src.textFrom(start)
	if rest == "" {
		return start
	}
	at, rest := start.moveRight(1), rest[1:]
	for offset > 0 {
		if rest == "" {
			return start
		}
		read, written := step(rest)
		read = min(read, len(rest))
		at = at.moveRight(utf8.RuneCountInString(rest[:read]))
		rest = rest[read:]
		offset -= written
	}
	return at
}

func stepSingleQuoted(rest string) (read, written int) {
	if strings.HasPrefix(rest, "''") {
		return 2, 1
	}
	_, size := utf8.DecodeRuneInString(rest)
	return size, size
}

func stepDoubleQuoted(rest string) (read, written int) {
	if rest[0] != '\\' || len(rest) < 2 {
		_, size := utf8.DecodeRuneInString(rest)
		return size, size
	}
	digits := map[byte]int{'x': 2, 'u': 4, 'U': 8}[rest[1]]
	switch {
	case digits > 0 && len(rest) >= 2+digits:
		code, _ := strconv.ParseUint(rest[2:2+digits], 16, 32)
		return 2 + digits, max(utf8.RuneLen(rune(code)), 1)
	case rest[1] == 'L' || rest[1] == 'P':
		return 2, 3
	case rest[1] == 'N' || rest[1] == '_':
		return 2, 2
	}
	return 2, 1
}
