package terminal

import (
	"bytes"
	"regexp"
	"slices"
	"strings"

	"github.com/yuin/goldmark/parser"
)

// An answer arrives in small chunks, and rendering it whole after each one is quadratic. So the
// stream is cut into blocks that do not depend on what follows them: at empty lines whose next line
// is not indented, and in code after each line. A finished block is rendered once. Only the last
// block is rendered again while it grows, and a block has at most maxBlock bytes: a longer one is
// cut between lines, or in a line that is longer itself.
//
// Invariants: all that Append and Finish return, joined, does not depend on the chunks; and
// what has been returned never changes. Tail returns what Finish would, so that a reader sees no
// difference when the stream ends.

// maxBlock limits a block's bytes.
const maxBlock = 16 << 10

// A Markdown renders a stream of Markdown from outside for a terminal. Use [NewMarkdown].
type Markdown struct {
	parser parser.Parser
	width  int
	styles Styles
	filter Filter

	// partial is the stream's last line, which has no newline yet.
	partial []byte
	// block has the lines of the last block.
	block []byte
	// hasBlank reports that an empty line ended the block, unless an indented line continues it.
	hasBlank bool
	// hasList reports that the block has a list, whose items can have fenced code.
	hasList bool
	// repeated counts the bytes at the block's start that repeat a cut table's titles.
	repeated int
	// fence is the current code block's; its character is 0 outside of one.
	fence fence
	// started reports that there is output, joined that the next block continues it.
	started, joined bool
	// parsed counts the bytes that were parsed, for tests.
	parsed int
}

// A fence begins and ends code.
type fence struct {
	character      byte
	length, indent int
}

// NewMarkdown returns a stream for width columns; a width of 0 or less means no limit.
func NewMarkdown(width int, styles Styles) *Markdown {
	return &Markdown{parser: newParser(), width: width, styles: styles}
}

// RenderMarkdown renders a whole text. The result ends with a newline unless it is empty.
func RenderMarkdown(source string, width int, styles Styles) string {
	m := NewMarkdown(width, styles)
	return m.Append(source) + m.Finish()
}

// Append adds a chunk and returns the lines in the blocks that it finishes, each with its newline.
func (m *Markdown) Append(chunk string) string {
	var out strings.Builder
	text := m.filter.Append(nil, []byte(chunk))
	for len(text) > 0 {
		end := bytes.IndexByte(text, '\n') + 1
		if end == 0 {
			m.partial = append(m.partial, text...)
			for len(m.partial) > maxBlock {
				m.addLine(&out, m.partial[:maxBlock])
				m.partial = m.partial[maxBlock:]
			}
			break
		}
		m.partial = append(m.partial, text[:end]...)
		text = text[end:]
		for len(m.partial) > maxBlock {
			m.addLine(&out, m.partial[:maxBlock])
			m.partial = m.partial[maxBlock:]
		}
		m.addLine(&out, m.partial)
		m.partial = nil
	}
	return out.String()
}

// Tail returns the lines in the last, unfinished block, as far as the stream has it. They may
// change with the next chunk, and repeated calls render them again.
func (m *Markdown) Tail() string {
	unfinished := *m
	unfinished.block, unfinished.partial = slices.Clip(m.block), slices.Clip(m.partial)
	unfinished.filter = Filter{} // half a character is not shown
	tail := unfinished.Finish()
	m.parsed = unfinished.parsed
	return tail
}

// Finish ends the stream and returns its last block's lines.
func (m *Markdown) Finish() string {
	var out strings.Builder
	m.partial = m.filter.Flush(m.partial)
	if len(m.partial) > 0 {
		m.addLine(&out, m.partial)
		m.partial = nil
	}
	m.endBlock(&out)
	return out.String()
}

// addLine adds a line with its newline, or a part of a longer line without one.
func (m *Markdown) addLine(out *strings.Builder, l []byte) {
	if m.fence.character != 0 {
		if m.isFenceEnd(l) {
			m.fence, m.joined = fence{}, false
			return
		}
		l = bytes.TrimSuffix(l, []byte("\n"))
		for range m.fence.indent {
			l = bytes.TrimPrefix(l, []byte(" "))
		}
		m.writeBlock(out, formatLines(codeLines(l, m.width), m.styles))
		m.joined = true
		return
	}
	indent := countIndent(l)
	if len(bytes.TrimSpace(l)) == 0 {
		m.hasBlank = len(m.block) > 0
		if !m.hasBlank {
			m.joined = false
			return
		}
		m.block = append(m.block, l...)
	} else {
		if m.hasBlank && indent < 2 {
			m.endBlock(out)
		}
		if opened, ok := openFence(l, indent); ok && (indent < 2 || !m.hasList) {
			m.endBlock(out)
			m.fence, m.joined = opened, false
			return
		}
		m.hasBlank = false
		m.hasList = m.hasList || listItem.Match(l)
		if nested := nestedMarkers.FindIndex(l); nested != nil {
			rest := moreMarkers.ReplaceAll(l[nested[1]:], nil)
			l = slices.Concat(l[:nested[1]], rest)
		}
		m.block = append(m.block, l...)
	}
	if len(m.block) > maxBlock {
		titles := tableTitles(m.block)
		m.endBlock(out)
		m.block, m.repeated, m.joined = slices.Clone(titles), len(titles), len(titles) == 0
	}
}

// endBlock renders the block.
func (m *Markdown) endBlock(out *strings.Builder) {
	if len(bytes.TrimSpace(m.block)) > 0 && len(m.block) > m.repeated {
		m.parsed += len(m.block)
		m.writeBlock(out, renderSource(m.parser, m.block, m.width, m.styles))
	}
	m.block, m.hasBlank, m.hasList, m.repeated, m.joined = nil, false, false, 0, false
}

// writeBlock writes a block's lines, after an empty line unless they continue the last ones.
func (m *Markdown) writeBlock(out *strings.Builder, lines string) {
	if m.started && !m.joined {
		out.WriteByte('\n')
	}
	m.started = true
	out.WriteString(lines)
	out.WriteByte('\n')
}

// listItem matches a line that begins a list item.
var listItem = regexp.MustCompile(`^[ \t]*([-*+]|[0-9]{1,9}[.)])([ \t\n]|$)`)

// nestedMarkers matches a line whose text is in many quotes and lists, moreMarkers those in which it
// also is. A reader sees maxIndents of them, and parsing is quadratic in their number.
var (
	nestedMarkers = regexp.MustCompile(`^([ \t]*(>|[-+*][ \t]|[0-9]{1,9}[.)][ \t])){64}`)
	moreMarkers   = regexp.MustCompile(`^([ \t]*(>|[-+*][ \t]|[0-9]{1,9}[.)][ \t]))+`)
)

// countIndent returns the number of columns before a line's text.
func countIndent(l []byte) int {
	columns := 0
	for _, c := range l {
		switch c {
		case ' ':
			columns++
		case '\t':
			columns += 4
		default:
			return columns
		}
	}
	return columns
}

// openFence returns the fence that a line has.
func openFence(l []byte, indent int) (opened fence, ok bool) {
	l = bytes.TrimSpace(l)
	if indent > 3 || len(l) < 3 || l[0] != '`' && l[0] != '~' {
		return fence{}, false
	}
	length := len(l) - len(bytes.TrimLeft(l, string(l[:1])))
	if length < 3 || l[0] == '`' && bytes.IndexByte(l[length:], '`') >= 0 {
		return fence{}, false
	}
	return fence{l[0], length, indent}, true
}

// isFenceEnd reports whether a line ends the current code.
func (m *Markdown) isFenceEnd(l []byte) bool {
	if countIndent(l) > 3 {
		return false
	}
	l = bytes.TrimSpace(l)
	return len(l) >= m.fence.length && len(bytes.Trim(l, string(m.fence.character))) == 0
}

// tableDelimiter matches the line between a table's titles and its rows.
var tableDelimiter = regexp.MustCompile(`^ {0,3}\|?[ \t]*:?-+:?[ \t]*(\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*\n$`)

// tableTitles returns the lines that a table's next part must repeat; nil if the block is not a
// table.
func tableTitles(block []byte) []byte {
	first := bytes.IndexByte(block, '\n') + 1
	second := bytes.IndexByte(block[first:], '\n') + 1
	if first == 0 || second == 0 || first+second > maxBlock/4 || bytes.IndexByte(block[:first], '|') < 0 || !tableDelimiter.Match(block[first:first+second]) {
		return nil
	}
	return block[:first+second]
}
