package spec

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"unicode"
)

// Formatting changes white space only: indentation by two spaces for each level, one space after a
// colon, a dash and a comma, none inside brackets or at a line's end, and at most one blank line in a
// row.
//
// It works on lines, because a printer of the parsed tree would lose comments, quotes and the form of
// strings. A line belongs to the mapping or list of its column; a stack maps the columns of the
// source to those of the result. Lines that continue a string, a block or brackets move with the line
// that begins them, and are otherwise as the author wrote them.
//
// Invariants: the result parses to the same values, has the same bytes but for white space, and is
// its own result. [Format] verifies this and otherwise returns an error, so that a document that the
// line rules misunderstand is left alone.

// A LineEdit replaces a line, counted from 0, or removes it with its line break.
type LineEdit struct {
	Line    int
	Text    string
	Removed bool
}

// errNotFormatted is returned for a document whose meaning the rules would change.
var errNotFormatted = errors.New("the document has a form that the formatter does not support")

// Format returns a document with uniform white space. It is an error if the document does not parse.
func Format(src []byte) ([]byte, error) {
	edits, err := FormatLines(src)
	if err != nil || len(edits) == 0 {
		return src, err
	}
	return applyLineEdits(src, edits), nil
}

// FormatLines returns the edits with which [Format] changes a document, in order.
func FormatLines(src []byte) ([]LineEdit, error) {
	before, ds := Parse("", src)
	if ds.HasErrors() {
		return nil, ds.Err()
	}
	if bytes.ContainsAny(src, "\u0085\u2028\u2029") || bytes.Contains(bytes.ReplaceAll(src, []byte("\r\n"), nil), []byte("\r")) {
		return nil, errNotFormatted // line breaks that editors do not count
	}
	edits := editLines(strings.Split(string(src), "\n"))
	formatted := applyLineEdits(src, edits)
	after, ds := Parse("", formatted)
	if ds.HasErrors() || !isSameDocument(before, after) || !bytes.Equal(removeSpace(src), removeSpace(formatted)) ||
		len(editLines(strings.Split(string(formatted), "\n"))) > 0 {
		return nil, errNotFormatted
	}
	return edits, nil
}

func applyLineEdits(src []byte, edits []LineEdit) []byte {
	lines := strings.SplitAfter(string(src), "\n")
	for _, e := range edits {
		end := lines[e.Line][len(strings.TrimRight(lines[e.Line], "\r\n")):]
		if lines[e.Line] = e.Text + end; e.Removed {
			lines[e.Line] = ""
		}
	}
	return []byte(strings.Join(lines, ""))
}

// isSameDocument reports whether two trees have the same values in the same styles.
func isSameDocument(a, b *Node) bool {
	return a.Kind == b.Kind && a.Tag == b.Tag && a.Value == b.Value && a.style == b.style &&
		slices.EqualFunc(a.Entries, b.Entries, func(a, b Entry) bool { return isSameDocument(a.Key, b.Key) && isSameDocument(a.Value, b.Value) }) &&
		slices.EqualFunc(a.Items, b.Items, isSameDocument)
}

func removeSpace(text []byte) []byte {
	return bytes.Map(func(r rune) rune {
		if unicode.IsSpace(r) {
			return -1
		}
		return r
	}, text)
}

// editLines returns the lines that change.
func editLines(lines []string) []LineEdit {
	var edits []LineEdit
	f := lineFormatter{levels: []level{{source: -1, result: -indentStep}}}
	blank := true // none at the document's start
	last := len(lines)
	for last > 0 && strings.TrimSpace(lines[last-1]) == "" {
		last--
	}
	for i, line := range lines {
		line = strings.TrimSuffix(line, "\r")
		isBlank := strings.TrimSpace(line) == "" && !f.inText()
		isLast := i == len(lines)-1
		switch {
		case isBlank && !isLast && (blank || i >= last) && !f.keepsBlanks:
			edits = append(edits, LineEdit{Line: i, Removed: true})
			continue
		case isBlank:
			blank = true
			if line != "" && !f.keepsBlanks {
				edits = append(edits, LineEdit{Line: i})
			}
			continue
		}
		blank = false
		if text := f.formatLine(line, lines[i+1:]); text != line {
			edits = append(edits, LineEdit{Line: i, Text: text})
		}
	}
	return edits
}

const indentStep = 2

// A level is a mapping or list, by its column in the source and in the result.
type level struct {
	source, result int
	list           bool
}

// A lineFormatter formats a document's lines in order.
type lineFormatter struct {
	levels []level
	// block is set in a block scalar, whose lines are deeper than its parent's column; keepsBlanks is
	// set after one whose blank lines at its end are part of the value.
	block       bool
	blockParent int
	keepsBlanks bool
	// quote and depth are the quote and the brackets that the lines before have not closed.
	quote byte
	depth int
	// shift is how far the last line moved that begins a value.
	shift int
}

// inText reports whether a blank line is part of a string.
func (f *lineFormatter) inText() bool { return f.block || f.quote != 0 }

// formatLine returns a line's result. rest are the lines after it.
func (f *lineFormatter) formatLine(line string, rest []string) string {
	text := strings.TrimLeft(line, " ")
	column := len(line) - len(text)
	if f.block {
		if text == "" || column > f.blockParent {
			return f.moveLine(line)
		}
		f.block = false
	}
	switch {
	case f.quote != 0 || f.depth > 0:
		wasQuoted := f.quote != 0
		f.scanFlow(text)
		if moved := f.moveLine(line); !wasQuoted && f.quote == 0 {
			return strings.TrimRight(moved, " \t")
		} else {
			return moved
		}
	case strings.HasPrefix(text, "#"):
		return f.formatComment(text, column, rest)
	case strings.HasPrefix(text, "%"), column == 0 && (strings.HasPrefix(line, "---") || strings.HasPrefix(line, "...")):
		return line
	}
	return f.formatContent(text, column)
}

// moveLine moves a line that continues a value.
func (f *lineFormatter) moveLine(line string) string {
	text := strings.TrimLeft(line, " ")
	if line == "" || text == "" && len(line)+f.shift <= 0 {
		return ""
	}
	return strings.Repeat(" ", max(len(line)-len(text)+f.shift, 0)) + text
}

// formatComment indents a comment as the next line with content, if that belongs to a level that is
// open or begins below the last one, and else as the level of its column.
func (f *lineFormatter) formatComment(text string, column int, rest []string) string {
	for _, line := range rest {
		next := strings.TrimLeft(line, " ")
		if next = strings.TrimRight(next, "\r"); next == "" || strings.HasPrefix(next, "#") {
			continue
		}
		copied := lineFormatter{levels: slices.Clone(f.levels)}
		return strings.Repeat(" ", copied.enterColumn(len(line)-len(strings.TrimLeft(line, " ")), strings.HasPrefix(next, "- ") || next == "-")) + strings.TrimRight(text, " \t")
	}
	copied := lineFormatter{levels: slices.Clone(f.levels)}
	return strings.Repeat(" ", copied.enterColumn(column, false)) + strings.TrimRight(text, " \t")
}

// enterColumn closes the levels that end before a line at a column, opens a new one if it is deeper,
// and returns its column in the result.
func (f *lineFormatter) enterColumn(column int, list bool) int {
	for len(f.levels) > 1 && f.levels[len(f.levels)-1].source > column {
		f.levels = f.levels[:len(f.levels)-1]
	}
	top := f.levels[len(f.levels)-1]
	if top.source == column && top.list && !list {
		f.levels = f.levels[:len(f.levels)-1] // a list with its key's column has ended
		top = f.levels[len(f.levels)-1]
	}
	if top.source == column && top.list == list {
		return top.result
	}
	f.levels = append(f.levels, level{column, top.result + indentStep, list})
	return top.result + indentStep
}

// formatContent formats a line that begins a key, an item or a value, or continues a plain string.
func (f *lineFormatter) formatContent(text string, column int) string {
	f.keepsBlanks = false
	rest := text
	isItem := strings.HasPrefix(rest, "- ") || rest == "-"
	key := keyLength(rest)
	if !isItem && key < 0 && len(f.levels) > 1 {
		f.scanFlow(text) // continues a string, or is the value of the line above
		moved := f.moveLine(strings.Repeat(" ", column) + text)
		f.openBlock(text, f.levels[len(f.levels)-1].source)
		return strings.TrimRight(moved, " \t")
	}
	var b strings.Builder
	result := f.enterColumn(column, isItem)
	b.WriteString(strings.Repeat(" ", result))
	for isItem {
		f.shift = result - column
		next := strings.TrimLeft(rest[1:], " ")
		b.WriteByte('-')
		if next == "" || strings.HasPrefix(next, "#") {
			if next != "" {
				b.WriteString(rest[1:])
			}
			return strings.TrimRight(b.String(), " \t")
		}
		b.WriteByte(' ')
		column += len(rest) - len(next)
		result += indentStep
		rest = next
		isItem = strings.HasPrefix(rest, "- ") || rest == "-"
		if key = keyLength(rest); isItem || key >= 0 {
			f.levels = append(f.levels, level{column, result, isItem})
		}
	}
	parent := f.levels[len(f.levels)-1].source
	if key >= 0 {
		f.shift = result - column
		value := strings.TrimLeft(rest[key+1:], " ")
		b.WriteString(rest[:key+1])
		switch {
		case strings.HasPrefix(value, "#"):
			b.WriteString(rest[key+1:])
			return strings.TrimRight(b.String(), " \t")
		case value != "":
			b.WriteByte(' ')
		}
		rest = value
	}
	b.WriteString(f.formatValue(rest))
	f.openBlock(rest, parent)
	return strings.TrimRight(b.String(), " \t")
}

// openBlock begins a block scalar if the text ends with its header.
func (f *lineFormatter) openBlock(value string, parent int) {
	header, _, _ := strings.Cut(value, " #")
	header = strings.TrimRight(header, " \t")
	at := strings.LastIndexByte(header, ' ') + 1
	if f.quote != 0 || f.depth > 0 || at == len(header) || !strings.ContainsAny(header[at:at+1], "|>") || strings.Trim(header[at+1:], "+-123456789") != "" {
		return
	}
	if at > 0 && !strings.ContainsAny(header[:1], "&!") {
		return // plain text that ends with the character
	}
	f.block, f.blockParent = true, parent
	f.keepsBlanks = strings.Contains(header[at:], "+")
}

// formatValue returns a value with uniform spaces in its brackets, if they end in the line.
func (f *lineFormatter) formatValue(value string) string {
	start := f.depth
	f.scanFlow(value)
	if value == "" || start > 0 || f.depth > 0 || f.quote != 0 || value[0] != '{' && value[0] != '[' {
		return value
	}
	return formatFlow(value)
}

// scanFlow follows quotes and brackets in a value that begins with one, or continues one.
func (f *lineFormatter) scanFlow(text string) {
	if f.quote == 0 && f.depth == 0 && (text == "" || !strings.ContainsAny(text[:1], "\"'{[")) {
		return
	}
	startsWord := true
	for i := 0; i < len(text); i++ {
		switch b := text[i]; {
		case f.quote == '"' && b == '\\':
			i++
		case f.quote == '\'' && b == '\'' && i+1 < len(text) && text[i+1] == '\'':
			i++
		case f.quote != 0:
			if b == f.quote {
				if f.quote = 0; f.depth == 0 {
					return // a comment, or nothing, is after it
				}
			}
			startsWord = false
		case (b == '"' || b == '\'') && startsWord:
			f.quote = b
		case b == '{' || b == '[':
			f.depth++
			startsWord = true
		case b == '}' || b == ']':
			if f.depth--; f.depth <= 0 {
				f.depth = 0
				return
			}
		case b == '#' && (i == 0 || text[i-1] == ' '):
			return
		case b != ' ':
			startsWord = b == ',' || b == ':'
		}
	}
}

// formatFlow returns brackets and what is after them with one space after a comma, and none inside the
// brackets.
func formatFlow(value string) string {
	var b strings.Builder
	quote := byte(0)
	depth, startsWord := 0, true
	for i := 0; i < len(value); i++ {
		c := value[i]
		if quote != 0 {
			b.WriteByte(c)
			switch {
			case c == '\\' && quote == '"' && i+1 < len(value):
				i++
				b.WriteByte(value[i])
			case c == quote:
				quote = 0
				if rest := strings.TrimLeft(value[i+1:], " "); rest != "" && strings.ContainsAny(rest[:1], "}]") {
					i = len(value) - len(rest) - 1
				}
			}
			continue
		}
		switch {
		case (c == '"' || c == '\'') && startsWord:
			quote = c
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			depth--
		}
		b.WriteByte(c)
		if depth == 0 {
			return b.String() + value[i+1:]
		}
		rest := strings.TrimLeft(value[i+1:], " ")
		skipped := len(value) - i - 1 - len(rest)
		switch {
		case rest == "":
		case (c == '{' || c == '[') && rest[0] != '#':
			i += skipped
		case strings.ContainsAny(rest[:1], "}]") && c != ',':
			i += skipped
		case c == ',':
			i += skipped
			if !strings.ContainsAny(rest[:1], "}]") {
				b.WriteByte(' ')
			}
		}
		startsWord = strings.ContainsAny(string(c), "{[,: ")
	}
	return b.String()
}

// keyLength returns the length of a key at the start of text, or -1.
func keyLength(text string) int {
	if text == "" {
		return -1
	}
	end := 0
	switch text[0] {
	case '"', '\'':
		if end = quotedLength([]byte(text)); end == 0 {
			return -1
		}
	case '{', '[', '#', '|', '>', '@', '`', '&', '*', '!', '%':
		return -1
	}
	for i := end; i < len(text); i++ {
		switch {
		case text[i] == ':' && (i+1 == len(text) || text[i+1] == ' ' || text[i+1] == '\t'):
			return i
		case text[i] == '#' && i > 0 && text[i-1] == ' ', end > 0 && text[i] != ' ':
			return -1
		}
	}
	return -1
}
