package lsp

import (
	"fmt"
	"path/filepath"
	"strings"

	"agenthost/pkg/loader"
	"agenthost/pkg/spec"
)

// hoverAtCursor describes the word at the cursor: a key's documentation, a name's definition,
// or the resolved value of a string with ${…}.
func (s *Server) hoverAtCursor(c *cursor) any {
	word, start := c.wordAtCursor()
	if word == "" {
		return nil
	}
	if text := s.resolvedValue(c); text != "" {
		return hoverResult{*newMarkdown(text)}
	}
	if c.isOnKey(start) {
		for _, f := range sortedFields(filterBySiblings(s.loadSchema(c.documentKind()).schemasAt(c.keys), c.siblings)) {
			if f.name == word {
				return hoverResult{*newMarkdown(describeField(f))}
			}
		}
	}
	if named, what, ok := s.findNamed(c, word); ok {
		text := fmt.Sprintf("%s **%s**", what, named.Name)
		if named.Doc != "" {
			text += "\n\n" + named.Doc
		}
		return hoverResult{*newMarkdown(text + "\n\n" + filepath.Base(named.Pos.File) + fmt.Sprintf(":%d", named.Pos.Line))}
	}
	return nil
}

// isOnKey reports whether the word that starts at this offset is a key.
func (c *cursor) isOnKey(start int) bool {
	head := strings.TrimLeft(c.before[:start], " -")
	return head == "" || strings.HasSuffix(head, "{") || strings.HasSuffix(strings.TrimRight(head, " "), ",")
}

func describeField(f field) string {
	var b strings.Builder
	fmt.Fprintf(&b, "**%s**", f.name)
	if t := schemaTypeName(f.schema); t != "" {
		fmt.Fprintf(&b, " (%s)", t)
	}
	if d := stringProperty(f.schema, "description"); d != "" {
		b.WriteString("\n\n" + d)
	}
	if d, ok := f.schema["default"]; ok {
		fmt.Fprintf(&b, "\n\nDefault: `%v`.", d)
	}
	if values := enumValues([]map[string]any{f.schema}); len(values) > 0 {
		fmt.Fprintf(&b, "\n\nOne of `%s`.", strings.Join(values, "`, `"))
	}
	return b.String()
}

// resolvedValue returns the value of a string with ${…} on the cursor's line. Secrets are not
// shown.
func (s *Server) resolvedValue(c *cursor) string {
	rel, err := filepath.Rel(c.dir, c.path)
	if err != nil {
		return ""
	}
	n := findInterpolated(s.outlineOf(c).Documents[filepath.ToSlash(rel)], c.line+1)
	if n == nil || !strings.Contains(c.lines[c.line], "${") {
		return ""
	}
	written, _ := n.BeforeInterpolation()
	if strings.Contains(written, "${secret:") {
		return "Contains a secret; the value is hidden."
	}
	return "Value:\n\n```\n" + n.RedactedValue() + "\n```"
}

// findInterpolated finds the scalar on a line that contained ${…}.
func findInterpolated(n *spec.Node, line int) *spec.Node {
	if n == nil {
		return nil
	}
	if _, ok := n.BeforeInterpolation(); ok && n.Pos.Line == line {
		return n
	}
	for _, e := range n.Entries {
		if found := findInterpolated(e.Value, line); found != nil {
			return found
		}
	}
	for _, item := range n.Items {
		if found := findInterpolated(item, line); found != nil {
			return found
		}
	}
	return nil
}

// findNamed looks up a word: first in the names that the key expects, then in all names in
// the app.
func (s *Server) findNamed(c *cursor, word string) (loader.Symbol, string, bool) {
	for _, n := range s.namesForKey(c) {
		if n.Name == word {
			return n, "reference to", true
		}
	}
	o := s.outlineOf(c)
	for _, list := range []struct {
		what  string
		names []loader.Symbol
	}{{"agent", o.Agents}, {"tool", o.Tools}, {"model", o.Models}} {
		for _, n := range list.names {
			if n.Name == word {
				return n, list.what, true
			}
		}
	}
	return loader.Symbol{}, "", false
}
