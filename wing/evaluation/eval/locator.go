package eval

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode/utf8"

	"agenthost/pkg/spec"
)

// A Locator finds values in a JSON file. It reads each object and list once, however many
// positions are requested. It is not safe for concurrent use.
type Locator struct {
	file string
	src  []byte
	// members maps offsets to the members of the objects and lists that were read.
	members map[int]*jsonMembers
	// last is the last position, at lastOffset. The next one is often close after it.
	last       spec.Pos
	lastOffset int
}

// jsonMembers are an object's or list's members in their order.
type jsonMembers struct {
	list []jsonMember
	// byKey has the first member for each key in normal form; nil for a list.
	byKey map[string]int
}

// A jsonMember is an object's member or a list's item. It starts at its key.
type jsonMember struct{ start, value, end int }

// NewLocator returns a locator for a file's content.
func NewLocator(file string, src []byte) *Locator {
	return &Locator{file: file, src: src, members: map[int]*jsonMembers{}, last: spec.Pos{File: file, Line: 1, Col: 1}}
}

// Locate returns the position of the value at a path of keys and indexes, or else that of the
// innermost value on its way. Keys may have either spelling.
func (l *Locator) Locate(path ...any) spec.Pos {
	found, _ := l.findMember(path)
	return l.positionOf(found.start)
}

// Member returns the text of the object member at a path, from its key on, and its position.
// It returns nil if there is no such member.
func (l *Locator) Member(path ...any) ([]byte, spec.Pos) {
	found, ok := l.findMember(path)
	if !ok {
		return nil, spec.Pos{}
	}
	return l.src[found.start:found.end], l.positionOf(found.start)
}

// findMember returns the member with a path, or else the innermost one that exists.
func (l *Locator) findMember(path []any) (found jsonMember, ok bool) {
	first := nextToken(l.src, 0)
	found = jsonMember{first, first, len(l.src)}
	for _, step := range path {
		members := l.readMembers(found.value)
		i := -1
		switch step := step.(type) {
		case string:
			if n, exists := members.byKey[normalizeKey(step)]; exists {
				i = n
			}
		case int:
			if members.byKey == nil {
				i = step
			}
		}
		if i < 0 || i >= len(members.list) {
			return found, false
		}
		found = members.list[i]
	}
	return found, true
}

// readMembers reads the members if an object or list starts at the offset; other values have
// none.
func (l *Locator) readMembers(offset int) *jsonMembers {
	if known := l.members[offset]; known != nil {
		return known
	}
	read := &jsonMembers{}
	l.members[offset] = read
	dec := json.NewDecoder(bytes.NewReader(l.src[offset:]))
	open, err := dec.Token()
	if err != nil || open != json.Delim('{') && open != json.Delim('[') {
		return read
	}
	if open == json.Delim('{') {
		read.byKey = map[string]int{}
	}
	for dec.More() {
		m := jsonMember{start: nextToken(l.src, offset+int(dec.InputOffset()))}
		key := json.Token(nil)
		if m.value = m.start; read.byKey != nil {
			if key, err = dec.Token(); err != nil {
				return read
			}
			m.value = nextToken(l.src, offset+int(dec.InputOffset()))
		}
		if dec.Decode(new(json.RawMessage)) != nil {
			return read
		}
		m.end = offset + int(dec.InputOffset())
		if name, ok := key.(string); ok {
			if _, exists := read.byKey[normalizeKey(name)]; !exists {
				read.byKey[normalizeKey(name)] = len(read.list)
			}
		}
		read.list = append(read.list, m)
	}
	return read
}

// normalizeKey returns the same string for both spellings: paths in rules have ADK's, files
// their own.
func normalizeKey(key string) string { return strings.ToLower(strings.ReplaceAll(key, "_", "")) }

// nextToken skips white space, commas and colons.
func nextToken(src []byte, offset int) int {
	for offset < len(src) && strings.IndexByte(" \t\r\n,:", src[offset]) >= 0 {
		offset++
	}
	return offset
}

// positionOf counts from the last position if it can.
func (l *Locator) positionOf(offset int) spec.Pos {
	if offset < l.lastOffset {
		l.last, l.lastOffset = spec.Pos{File: l.file, Line: 1, Col: 1}, 0
	}
	between := l.src[l.lastOffset:offset]
	if i := bytes.LastIndexByte(between, '\n'); i >= 0 {
		l.last.Line += bytes.Count(between, []byte("\n"))
		l.last.Col = 1
		between = between[i+1:]
	}
	l.last.Col += utf8.RuneCount(between)
	l.lastOffset = offset
	return l.last
}
