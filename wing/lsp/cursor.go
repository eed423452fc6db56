package lsp

import (
	"path/filepath"
	"slices"
	"strings"

	"agenthost/pkg/loader"
)

// listItem is the path step into a list.
const listItem = "[]"

// A cursor is a position in a document that is being edited. Its path is derived
// from lines and indentation, because an unfinished document cannot be parsed.
type cursor struct {
	path, dir string
	// files are the file kinds besides app documents.
	files []loader.FileKind
	lines []string
	line  int
	// before and after are the line's text on both sides of the cursor.
	before, after string
	// keys is the path to the mapping or list that contains the cursor. key is
	// the key whose value is at the cursor; it is empty when a key is typed.
	keys []string
	key  string
	// siblings are that mapping's other keys, with their one-line values.
	siblings map[string]string
}

func newCursorAt(path, text string, at position, s *Server) *cursor {
	c := &cursor{path: path, files: s.opts.Kinds.Files, lines: splitIntoLines(text), line: at.Line, siblings: map[string]string{}}
	if at.Line >= len(c.lines) || at.Line < 0 { // an editor may be ahead of its changes
		c.line = len(c.lines) - 1
	}
	line := c.lines[c.line]
	offset := s.encoding.byteOffset(line, at.Character)
	c.before, c.after = line[:offset], line[offset:]
	c.resolvePath()
	return c
}

// marker is a dash or a key in a block style line.
type marker struct {
	col   int
	key   string // empty for a dash
	value string
}

// lineMarkers returns a line's dashes, then its key.
func lineMarkers(line string) []marker {
	var marks []marker
	rest := strings.TrimLeft(line, " ")
	col := len(line) - len(rest)
	for strings.HasPrefix(rest, "- ") || rest == "-" {
		marks = append(marks, marker{col: col})
		next := strings.TrimLeft(rest[1:], " ")
		col += len(rest) - len(next)
		rest = next
	}
	if key, value, ok := splitKeyValue(rest); ok {
		marks = append(marks, marker{col, key, value})
	}
	return marks
}

// splitKeyValue splits text in the form key: value.
func splitKeyValue(text string) (key, value string, ok bool) {
	if text == "" || strings.ContainsAny(text[:1], "#{[&*!|>%@`") {
		return "", "", false
	}
	key, value, ok = strings.Cut(text, ":")
	if !ok || value != "" && value[0] != ' ' {
		return "", "", false
	}
	return strings.Trim(key, `"'`), strings.TrimSpace(value), true
}

// resolvePath sets keys, key and siblings.
func (c *cursor) resolvePath() {
	marks := lineMarkers(c.before)
	col := len(c.before) - len(strings.TrimLeft(c.before, " "))
	if len(marks) > 0 {
		last := marks[len(marks)-1]
		col = last.col
		if last.key != "" {
			c.key = last.key
			marks = marks[:len(marks)-1]
		} else {
			col = len(c.before) - len(strings.TrimLeft(c.before[last.col+1:], " "))
		}
	}
	c.collectSiblings(col)
	at := col
	for _, m := range slices.Backward(marks) {
		c.keys = append(c.keys, listItem)
		at = m.col
	}
	c.addEnclosingKeys(at, len(marks) > 0)
	slices.Reverse(c.keys)
	c.resolveFlowPath()
}

// addEnclosingKeys adds the keys and lists in the lines above, innermost first. A
// list may have the same indentation as its key.
func (c *cursor) addEnclosingKeys(at int, inList bool) {
	for n := c.line - 1; n >= 0; n-- {
		if isBlankOrComment(c.lines[n]) {
			continue
		}
		for _, m := range slices.Backward(lineMarkers(c.lines[n])) {
			switch {
			case m.key == "" && m.col < at:
				c.keys = append(c.keys, listItem)
				at, inList = m.col, true
			case m.key != "" && (m.col < at || inList && m.col == at):
				c.keys = append(c.keys, m.key)
				at, inList = m.col, false
			}
		}
	}
}

func isBlankOrComment(line string) bool {
	text := strings.TrimSpace(line)
	return text == "" || strings.HasPrefix(text, "#")
}

// collectSiblings collects the mapping's other keys at this column.
func (c *cursor) collectSiblings(col int) {
	collectLine := func(n int) (inMapping bool) {
		if isBlankOrComment(c.lines[n]) {
			return true
		}
		marks := lineMarkers(c.lines[n])
		for _, m := range marks {
			if m.key != "" && m.col == col {
				c.siblings[m.key] = strings.Trim(m.value, `"'`)
			}
		}
		indent := len(c.lines[n]) - len(strings.TrimLeft(c.lines[n], " "))
		return indent >= col
	}
	for n := c.line - 1; n >= 0 && collectLine(n); n-- {
	}
	if startsListItem(c.lines[c.line], col) {
		c.siblings = map[string]string{} // the keys above belong to another item
	}
	for n := c.line + 1; n < len(c.lines) && !startsListItem(c.lines[n], col) && collectLine(n); n++ {
	}
}

// startsListItem reports whether the line has a dash before this column, so that
// a new mapping begins here.
func startsListItem(line string, col int) bool {
	marks := lineMarkers(line)
	return len(marks) > 1 && marks[0].key == "" && marks[0].col < col || len(marks) == 1 && marks[0].key == "" && marks[0].col < col
}

// resolveFlowPath follows { and [ between the line's key and the cursor.
func (c *cursor) resolveFlowPath() {
	open := -1
	if c.key != "" {
		open = strings.Index(c.before, ":") + 1
	} else if trimmed := strings.TrimLeft(c.before, " -"); strings.HasPrefix(trimmed, "{") || strings.HasPrefix(trimmed, "[") {
		open = len(c.before) - len(trimmed)
	}
	if open < 0 || !strings.ContainsAny(c.before[open:], "{[") {
		return
	}
	f := &flowReader{keys: c.keys, key: c.key, siblings: c.siblings}
	for _, r := range c.before[open:] {
		f.readRune(r)
	}
	if len(f.stack) > 0 {
		f.recordValue()
		c.keys, c.key, c.siblings = f.keys, f.key, f.siblings
	}
}

// flowReader reads text in flow style up to the cursor.
type flowReader struct {
	keys     []string
	key      string
	siblings map[string]string
	stack    []flowLevel
	word     strings.Builder
	quote    rune
}

type flowLevel struct {
	keys     []string
	key      string
	siblings map[string]string
	list     bool
}

func (f *flowReader) readRune(r rune) {
	switch {
	case f.quote != 0:
		if r == f.quote {
			f.quote = 0
		} else {
			f.word.WriteRune(r)
		}
	case (r == '"' || r == '\'') && strings.TrimSpace(f.word.String()) == "":
		f.quote = r
	case r == '{' || r == '[':
		f.enterCollection(r == '[')
	case (r == '}' || r == ']') && len(f.stack) > 0:
		last := f.stack[len(f.stack)-1]
		f.stack = f.stack[:len(f.stack)-1]
		f.keys, f.key, f.siblings = last.keys, last.key, last.siblings
		f.word.Reset()
	case r == ':' && len(f.stack) > 0 && f.key == "" && !f.inList():
		f.key = strings.TrimSpace(f.word.String())
		f.word.Reset()
	case r == ',':
		f.recordValue()
		f.key = ""
		f.word.Reset()
	default:
		f.word.WriteRune(r)
	}
}

func (f *flowReader) inList() bool { return f.stack[len(f.stack)-1].list }

// enterCollection enters a mapping or list, the current key's value.
func (f *flowReader) enterCollection(list bool) {
	inner := slices.Clone(f.keys)
	if f.key != "" {
		inner = append(inner, f.key)
	}
	if list {
		inner = append(inner, listItem)
	}
	f.stack = append(f.stack, flowLevel{f.keys, f.key, f.siblings, list})
	f.keys, f.key, f.siblings = inner, "", map[string]string{}
	f.word.Reset()
}

// recordValue adds the current key and its value to the siblings.
func (f *flowReader) recordValue() {
	if f.key != "" && len(f.stack) > 0 {
		f.siblings[f.key] = strings.TrimSpace(f.word.String())
	}
}

// wordAtCursor returns the whole name at the cursor and its start offset.
func (c *cursor) wordAtCursor() (string, int) {
	start := strings.LastIndexFunc(c.before, func(r rune) bool { return !isNameCharacter(r) }) + 1
	end := strings.IndexFunc(c.after, func(r rune) bool { return !isNameCharacter(r) })
	if end < 0 {
		end = len(c.after)
	}
	return c.before[start:] + c.after[:end], start
}

func isNameCharacter(r rune) bool {
	return r == '_' || r == '-' || r == '.' || r == '/' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r > 127
}

// fileKind returns the document's file kind, or nil.
func (c *cursor) fileKind() *loader.FileKind {
	for i, k := range c.files {
		if k.Matches(filepath.ToSlash(c.path)) {
			return &c.files[i]
		}
	}
	return nil
}

// documentKind returns the document's kind: app, agent, script, or its file kind's.
func (c *cursor) documentKind() string {
	if k := c.fileKind(); k != nil {
		return k.Name
	}
	name := filepath.Base(c.path)
	switch {
	case name == "app.yaml", strings.HasPrefix(name, "app.") && strings.HasSuffix(name, ".yaml"):
		return "app"
	case strings.HasSuffix(name, ".script.yaml"):
		return "script"
	}
	for _, line := range c.lines {
		if !isBlankOrComment(line) {
			if strings.HasPrefix(line, "- ") {
				return "script"
			}
			break
		}
	}
	return "agent"
}
