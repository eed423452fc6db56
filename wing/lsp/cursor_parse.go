package lsp

import (
	"path/filepath"
	"strings"
	"unicode/utf8"

	"agenthost/pkg/spec"
)

// A document with a cursor is rarely valid YAML: a key has no value yet, a bracket is not closed.
// Three texts are tried, from what the author wrote to less of it: the document with a word at the
// cursor, as if the author had finished it; the same with the line's brackets and quotes closed; and
// only what is above that line's end. All have the cursor's line at its place, so that positions hold.

// parsedCursor is a document that could be parsed, with the path to the cursor.
type parsedCursor struct {
	root *spec.Node
	// text is the scalar at the cursor, with a word inserted, or nil. steps are the mappings and
	// lists around it, from the root, with their keys.
	text  *spec.Node
	steps []parsedStep
}

// A parsedStep is a node on the way to the cursor and its key in the mapping before it.
type parsedStep struct {
	key  string
	node *spec.Node
}

// cursorWord is inserted where a word is not typed yet.
const cursorWord = "x"

// parseDocument parses the document around the cursor. root is nil if that is impossible.
func (c *cursor) parseDocument() parsedCursor {
	line := c.before + cursorWord + c.after
	if c.after != "" && isNameCharacter(rune(c.after[0])) {
		line = c.before + c.after
	}
	above := strings.Join(append(append([]string{}, c.lines[:c.line]...), ""), "\n")
	below := ""
	if c.line+1 < len(c.lines) {
		below = "\n" + strings.Join(c.lines[c.line+1:], "\n")
	}
	closed := line + openBrackets(line)
	for _, text := range []string{above + line + below, above + closed + below, above + closed} {
		root, ds := spec.Parse(c.path, []byte(text))
		if ds.HasErrors() {
			continue
		}
		p := parsedCursor{root: root}
		p.findCursor(spec.Pos{Line: c.line + 1, Col: utf8.RuneCountInString(c.before) + 1})
		return p
	}
	return parsedCursor{}
}

// openBrackets returns the quote and brackets that close what a line opens.
func openBrackets(line string) string {
	var open []rune
	quote := rune(0)
	last := ' '
	for _, r := range line {
		switch {
		case quote != 0:
			if r == quote {
				quote = 0
			}
		case (r == '"' || r == '\'') && strings.ContainsRune(" ,:{[", last):
			quote = r
		case r == '{':
			open = append(open, '}')
		case r == '[':
			open = append(open, ']')
		case len(open) > 0 && r == open[len(open)-1]:
			open = open[:len(open)-1]
		}
		last = r
	}
	var b strings.Builder
	if quote != 0 {
		b.WriteRune(quote)
	}
	for i := len(open) - 1; i >= 0; i-- {
		b.WriteRune(open[i])
	}
	return b.String()
}

// findCursor finds the last scalar value that starts at or before a position.
func (p *parsedCursor) findCursor(at spec.Pos) {
	before := func(n *spec.Node) bool {
		return n.Pos.Line < at.Line || n.Pos.Line == at.Line && n.Pos.Col <= at.Col
	}
	n, key := p.root, ""
	for {
		if n.Kind == spec.Scalar {
			p.text = n
			return
		}
		p.steps = append(p.steps, parsedStep{key, n})
		var next *spec.Node
		for _, e := range n.Entries {
			if before(e.Key) {
				next, key = e.Value, e.Key.Value
			}
		}
		for _, item := range n.Items {
			if before(item) {
				next, key = item, ""
			}
		}
		if next == nil || next.Kind == spec.Scalar && !before(next) {
			return
		}
		n = next
	}
}

// agentNames returns the names of the agents around the cursor.
func (p *parsedCursor) agentNames() []string {
	var names []string
	for i, step := range p.steps {
		if i > 1 && p.steps[i-1].key == "agents" {
			names = append(names, step.key)
		}
		if at := step.node.Get("name"); at != nil && at.Kind == spec.Scalar && (i == 0 || step.key == "" || step.key == "root_agent" || p.steps[i-1].key == "agents") {
			names = append(names, at.Value)
		}
	}
	return names
}

// hasVariables reports whether the document has agents and tools.
func (c *cursor) hasVariables() bool {
	kind := c.documentKind()
	return filepath.Ext(c.path) == ".yaml" && (kind == "agent" || kind == "app")
}
