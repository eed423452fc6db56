package openapitool

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"sort"
	"strings"

	"agenthost/internal/limit"
	"agenthost/pkg/spec"
)

// A readMode is how the scanner reads a value.
type readMode int

const (
	// readNow reads the value into a node.
	readNow readMode = iota
	// readLate reads the value's position; see [document.expandNode].
	readLate
	// skip omits the value and its key.
	skip
)

// A jsonScanner reads JSON into nodes in the document's order, with positions. It passes over
// values that are not needed without allocating.
type jsonScanner struct {
	src   []byte
	pos   int
	lines *lineIndex
	// modeOf returns how to read the value at a key path; nil reads everything.
	modeOf func(path []string) readMode
	path   []string
	// late are the values that were read late.
	late map[*spec.Node]lateValue
	// nodes counts the values that were read.
	nodes int
}

// A lateValue is a value that is not yet read: its start in the source and how to read its
// members, or how to convert what another format has instead.
type lateValue struct {
	start   int
	modeOf  func(path []string) readMode
	convert func() *spec.Node
}

// A jsonError is a syntax error at an offset.
type jsonError struct {
	offset  int
	message string
}

// Error returns the message.
func (e *jsonError) Error() string { return e.message }

func (s *jsonScanner) newError(format string, args ...any) error {
	return &jsonError{s.pos, fmt.Sprintf(format, args...)}
}

func (s *jsonScanner) skipSpace() {
	for s.pos < len(s.src) {
		switch s.src[s.pos] {
		case ' ', '\t', '\r', '\n':
			s.pos++
		default:
			return
		}
	}
}

// nextByte returns the next character that is not a space, or 0 at the end.
func (s *jsonScanner) nextByte() byte {
	if s.skipSpace(); s.pos < len(s.src) {
		return s.src[s.pos]
	}
	return 0
}

func (s *jsonScanner) readValue(depth int) (*spec.Node, error) {
	c := s.nextByte()
	if depth > limit.ToolDocument.Depth && (c == '{' || c == '[') {
		return nil, s.newError("nesting exceeds the limit of %d levels", limit.ToolDocument.Depth)
	}
	if s.nodes++; s.nodes > limit.ToolDocument.Values {
		return nil, s.newError("the document exceeds the limit of %d values", limit.ToolDocument.Values)
	}
	n := &spec.Node{Pos: s.lines.positionOf(s.pos)}
	switch c {
	case '{':
		n.Kind, n.Tag = spec.Mapping, "!!map"
		return n, s.readObject(n, depth)
	case '[':
		n.Kind, n.Tag = spec.Sequence, "!!seq"
		return n, s.readArray(n, depth)
	case '"':
		text, err := s.readString()
		n.Tag, n.Value = "!!str", text
		return n, err
	}
	return n, s.readLiteral(n)
}

func (s *jsonScanner) readObject(n *spec.Node, depth int) error {
	return s.eachMember(func(key *spec.Node) error {
		s.path = append(s.path, key.Value)
		defer func() { s.path = s.path[:len(s.path)-1] }()
		mode := readNow
		if s.modeOf != nil {
			mode = s.modeOf(s.path)
		}
		var value *spec.Node
		var err error
		switch mode {
		case skip:
			return s.skipValue()
		case readLate:
			value, err = s.readLateValue()
		default:
			value, err = s.readValue(depth + 1)
		}
		n.Entries = append(n.Entries, spec.Entry{Key: key, Value: value})
		return err
	})
}

// eachMember reads an object, and calls a function at each key's value.
func (s *jsonScanner) eachMember(read func(key *spec.Node) error) error {
	s.pos++
	if s.nextByte() == '}' {
		s.pos++
		return nil
	}
	for {
		if s.nextByte() != '"' {
			return s.newError("expected a key in double quotes")
		}
		key := &spec.Node{Pos: s.lines.positionOf(s.pos), Tag: "!!str"}
		var err error
		if key.Value, err = s.readString(); err != nil {
			return err
		}
		if s.nextByte() != ':' {
			return s.newError("expected : after the key %q", cutMessage(key.Value))
		}
		s.pos++
		s.skipSpace()
		if err := read(key); err != nil {
			return err
		}
		if end, err := s.endItem('}'); end || err != nil {
			return err
		}
	}
}

// endItem reads the comma after an item, or the end of its list or object.
func (s *jsonScanner) endItem(end byte) (bool, error) {
	switch s.nextByte() {
	case ',':
		s.pos++
		return false, nil
	case end:
		s.pos++
		return true, nil
	case 0:
		return false, s.newError("unexpected end of the document")
	}
	return false, s.newError("expected , or %c", end)
}

func (s *jsonScanner) readArray(n *spec.Node, depth int) error {
	s.pos++
	if s.nextByte() == ']' {
		s.pos++
		return nil
	}
	for {
		item, err := s.readValue(depth + 1)
		if err != nil {
			return err
		}
		n.Items = append(n.Items, item)
		if end, err := s.endItem(']'); end || err != nil {
			return err
		}
	}
}

// readLateValue passes over a value and keeps its start. It reads the members that select an
// operation.
func (s *jsonScanner) readLateValue() (*spec.Node, error) {
	n := &spec.Node{Pos: s.lines.positionOf(s.pos), Kind: spec.Mapping, Tag: "!!map"}
	if s.nextByte() != '{' {
		return s.readValue(len(s.path) + 1)
	}
	if s.nodes++; s.nodes > limit.ToolDocument.Values {
		return nil, s.newError("the document exceeds the limit of %d values", limit.ToolDocument.Values)
	}
	late := lateValue{start: s.pos}
	isOperation := s.path[0] != "components" && s.path[0] != "schemas"
	if isOperation {
		late.modeOf = operationMode
	}
	s.late[n] = late
	if !isOperation {
		return n, s.skipValue()
	}
	return n, s.eachMember(func(key *spec.Node) error {
		var value *spec.Node
		var err error
		switch selectorMode(key.Value) {
		case skip:
			return s.skipValue()
		case readLate: // only that it exists
			value, err = &spec.Node{Pos: s.lines.positionOf(s.pos), Tag: "!!null"}, s.skipValue()
		default:
			value, err = s.readValue(len(s.path) + 1)
		}
		n.Entries = append(n.Entries, spec.Entry{Key: key, Value: value})
		return err
	})
}

// selectorMode reads the members that select an operation in an OpenAPI or discovery document.
func selectorMode(key string) readMode {
	switch key {
	case "operationId", "tags", "id", "httpMethod", "path", "flatPath", "$ref":
		return readNow
	case "request", "mediaUpload":
		return readLate
	}
	return skip
}

// skipValue passes over a value. It checks its brackets and strings only.
func (s *jsonScanner) skipValue() error {
	depth := 0
	for s.skipSpace(); s.pos < len(s.src); s.pos++ {
		switch s.src[s.pos] {
		case '"':
			end, _, err := s.findStringEnd()
			if err != nil {
				return err
			}
			s.pos = end
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth < 0 {
				return s.newError("expected a value")
			}
		default:
			if depth == 0 {
				return s.readLiteral(&spec.Node{})
			}
			continue
		}
		if depth == 0 {
			s.pos++
			return nil
		}
	}
	return s.newError("unexpected end of the document")
}

// findStringEnd returns the offset of the string's closing quote at the position, and whether it
// has escapes.
func (s *jsonScanner) findStringEnd() (end int, escaped bool, err error) {
	for i := s.pos + 1; i < len(s.src); i++ {
		switch c := s.src[i]; {
		case c == '"':
			return i, escaped, nil
		case c == '\\':
			escaped = true
			i++
		}
	}
	return 0, false, s.newError("the string is not terminated")
}

func (s *jsonScanner) readString() (string, error) {
	end, escaped, err := s.findStringEnd()
	if err != nil {
		return "", err
	}
	raw := s.src[s.pos : end+1]
	text := string(raw[1 : len(raw)-1])
	if escaped || strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == '\uFFFD' }) {
		if err := json.Unmarshal(raw, &text); err != nil {
			return "", s.newError("invalid string")
		}
	}
	s.pos = end + 1
	return text, nil
}

// readLiteral reads a number, a boolean or null.
func (s *jsonScanner) readLiteral(n *spec.Node) error {
	rest := s.src[s.pos:]
	end := bytes.IndexAny(rest, ",]} \t\r\n")
	if end < 0 {
		end = len(rest)
	}
	text := string(rest[:min(end, maxNumberBytes)])
	switch {
	case text == "":
		return s.newError("expected a value")
	case text == "null":
		n.Tag = "!!null"
	case text == "true", text == "false":
		n.Tag = "!!bool"
	case end > maxNumberBytes || !json.Valid([]byte(text)):
		return s.newError("invalid value %q", cutMessage(text))
	case strings.ContainsAny(text, ".eE"):
		n.Tag = "!!float"
	default:
		n.Tag = "!!int"
	}
	n.Value = text
	s.pos += end
	return nil
}

// maxNumberBytes limits a number.
const maxNumberBytes = 64

// cutMessage returns the start of document text for a message.
func cutMessage(text string) string { return cutText(text, 80) }

// A lineIndex finds the line and column of an offset. It keeps the lines at each block's start.
type lineIndex struct {
	file string
	src  []byte
	// lines are the line breaks before each block, starts its first line's start.
	lines, starts []int
}

// lineBlock is a block's size.
const lineBlock = 4096

func newLineIndex(file string, src []byte) *lineIndex {
	x := &lineIndex{file: file, src: src}
	lines, start := 0, 0
	for at := 0; at <= len(src); at += lineBlock {
		x.lines, x.starts = append(x.lines, lines), append(x.starts, start)
		block := src[at:min(at+lineBlock, len(src))]
		lines += bytes.Count(block, []byte{'\n'})
		if last := bytes.LastIndexByte(block, '\n'); last >= 0 {
			start = at + last + 1
		}
	}
	return x
}

// positionOf returns an offset's position; columns count bytes.
func (x *lineIndex) positionOf(offset int) spec.Pos {
	block := offset / lineBlock
	line, start := x.lines[block], x.starts[block]
	part := x.src[block*lineBlock : offset]
	line += bytes.Count(part, []byte{'\n'})
	if last := bytes.LastIndexByte(part, '\n'); last >= 0 {
		start = block*lineBlock + last + 1
	}
	return spec.Pos{File: x.file, Line: line + 1, Col: offset - start + 1}
}

// maxSourceLine limits the line that a diagnostic shows: a document may be one line.
const maxSourceLine = 1000

// addSources adds the document's lines to diagnostics without one.
func (x *lineIndex) addSources(ds spec.Diagnostics) {
	for i := range ds {
		if ds[i].Pos.File != x.file || ds[i].Source != "" || ds[i].Pos.Line == 0 {
			continue
		}
		if line := x.findLine(ds[i].Pos.Line); len(line) <= maxSourceLine {
			ds[i].Source = string(line)
		}
	}
}

// findLine returns a line without its line break.
func (x *lineIndex) findLine(line int) []byte {
	block := sort.Search(len(x.lines), func(i int) bool { return x.lines[i] >= line }) - 1
	if block < 0 {
		return nil
	}
	at := x.starts[block]
	for n := x.lines[block]; n < line-1; n++ {
		next := bytes.IndexByte(x.src[at:], '\n')
		if next < 0 {
			return nil
		}
		at += next + 1
	}
	end := bytes.IndexByte(x.src[at:], '\n')
	if end < 0 {
		end = len(x.src) - at
	}
	return bytes.TrimSuffix(x.src[at:at+end], []byte{'\r'})
}

// cutText returns at most limit bytes from text, and marks that there are more.
func cutText(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit], "") + "…"
}

// outlineMode reads operations and components late, and skips what no tool uses.
func outlineMode(path []string) readMode {
	switch {
	case len(path) == 1 && path[0] == reducedMark:
		return readNow
	case len(path) == 1 && (path[0] == "webhooks" || path[0] == "definitions" || strings.HasPrefix(path[0], "x-")):
		return skip
	case len(path) == 3 && path[0] == "paths" && slices.Contains(methodNames(), path[2]), len(path) == 3 && path[0] == "components":
		return readLate
	}
	return readNow
}

// operationMode skips an operation's members that no tool uses.
func operationMode(path []string) readMode {
	if len(path) == 1 && isUnusedMember(path[0]) {
		return skip
	}
	return readNow
}

func isUnusedMember(key string) bool {
	return key == "responses" || key == "callbacks" || key == "externalDocs" || strings.HasPrefix(key, "x-")
}

// methodNames lists the path members that are operations, in ADK's order.
func methodNames() []string {
	return []string{"get", "post", "put", "delete", "patch", "head", "options", "trace"}
}

// reducedMark is the member in a reduced document: it lacks the operations that except leaves out.
const reducedMark = "x-agenthost-reduced"
