package lsp

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"agenthost/pkg/loader"
)

// completeAtCursor returns the completions at the cursor: names in an expression or a placeholder,
// otherwise document keys or values. They keep their order.
func (s *Server) completeAtCursor(c *cursor) any {
	parsed := c.parseDocument()
	items, ok := s.completeInText(c, &parsed)
	switch {
	case ok:
	case c.inPlaceholder():
		items = s.completeStateKeys(c)
	case c.key == "":
		items = s.completeFields(c, &parsed)
	default:
		items = s.completeValues(c, &parsed)
	}
	for i := range items {
		items[i].SortText = fmt.Sprintf("%05d", i)
	}
	return map[string]any{"isIncomplete": false, "items": items}
}

// inPlaceholder reports whether a state key is being typed: after an opening
// brace in a string, or after state. in an expression.
func (c *cursor) inPlaceholder() bool {
	word := c.before[strings.LastIndexAny(c.before, " \t\"'(![{,")+1:]
	if strings.HasPrefix(word, "state.") {
		return true
	}
	brace := strings.LastIndexAny(c.before, "{}")
	if brace < 0 || c.before[brace] != '{' || strings.ContainsAny(c.before[brace:], " :,") {
		return false
	}
	return !startsFlowMapping(c.before[:brace])
}

// startsFlowMapping reports whether a brace after this text begins a YAML flow mapping: after a
// key, after a dash, or inside another mapping or list.
func startsFlowMapping(before string) bool {
	text := strings.TrimRight(before, " ")
	return text == "" || strings.ContainsAny(text[len(text)-1:], ":-[,{")
}

// completeFields returns the keys that the mapping does not have yet: first the required and the
// usual ones.
func (s *Server) completeFields(c *cursor, parsed *parsedCursor) []completionItem {
	items := []completionItem{}
	for _, named := range s.namedKeys(c) {
		items = append(items, completionItem{Label: named.Name, Kind: kindName, Documentation: newMarkdown(named.Doc), InsertText: named.Name + ": "})
	}
	for _, f := range orderFields(filterBySiblings(s.loadSchema(c.documentKind()).schemasAt(c.keys), c.siblings)) {
		if _, set := c.siblings[f.name]; !set {
			items = append(items, completionItem{
				Label: f.name, Kind: kindProperty, Detail: schemaTypeName(f.schema),
				Documentation: newMarkdown(stringProperty(f.schema, "description")), InsertText: f.name + ": ",
			})
		}
	}
	if len(items) == 0 || len(c.keys) > 0 && c.keys[len(c.keys)-1] == listItem {
		items = append(items, s.completeValues(c, parsed)...)
	}
	return items
}

// namedKeys returns the agents or tools whose names are keys at the cursor. Only file kinds have
// such keys: models, stubs, and criteria for tools.
func (s *Server) namedKeys(c *cursor) []loader.Symbol {
	if len(c.keys) == 0 {
		return nil
	}
	return s.namesOfKind(c, "")
}

// namesOfKind returns the app's names that the file's kind offers for a key.
func (s *Server) namesOfKind(c *cursor, key string) []loader.Symbol {
	kind := c.fileKind()
	if kind == nil || kind.Names == nil {
		return nil
	}
	switch kind.Names(c.keys, key) {
	case loader.AgentNames:
		return s.outlineOf(c).Agents
	case loader.ToolNames:
		return s.outlineOf(c).Tools
	case loader.ModelNames:
		return s.outlineOf(c).Models
	case loader.NoNames:
	}
	return nil
}

// schemaTypeName returns a schema's title or type as plain text.
func schemaTypeName(one map[string]any) string {
	if title := stringProperty(one, "title"); title != "" {
		return plainText(title)
	}
	return stringProperty(one, "type")
}

// completeValues returns the possible values for a key, or items for a list.
func (s *Server) completeValues(c *cursor, parsed *parsedCursor) []completionItem {
	items := []completionItem{}
	own := parsed.agentNames()
	for _, named := range s.namesForKey(c) {
		if c.key == "use" && slices.Contains(own, named.Name) {
			continue // an agent below itself
		}
		items = append(items, completionItem{Label: named.Name, Kind: kindName, Documentation: newMarkdown(named.Doc)})
	}
	switch c.key {
	case "config_path", "script":
		for _, file := range s.listDocuments(c, c.key == "script") {
			items = append(items, completionItem{Label: file, Kind: kindFile})
		}
	case "output_key":
		items = append(items, s.completeStateKeys(c)...)
	}
	if c.isSchemaField() {
		items = append(items, s.completeTypes(c)...)
	}
	keys := c.keys
	if c.key != "" {
		keys = append(slices.Clone(keys), c.key)
	}
	for _, v := range enumValues(s.loadSchema(c.documentKind()).schemasAt(keys)) {
		items = append(items, completionItem{Label: v, Kind: kindValue})
	}
	return items
}

// namesForKey returns the app's names that may be the key's value.
func (s *Server) namesForKey(c *cursor) []loader.Symbol {
	if c.key != "" {
		if names := s.namesOfKind(c, c.key); names != nil {
			return names
		}
	}
	o := s.outlineOf(c)
	switch c.key {
	case "model", "fallback":
		return o.Models
	case "agent_name":
		return o.Agents
	case "use":
		last := slices.DeleteFunc(slices.Clone(c.keys), func(k string) bool { return k == listItem })
		if len(last) > 0 && last[len(last)-1] == "tools" {
			return o.Tools
		}
		return o.Agents
	}
	return nil
}

// listDocuments lists the YAML files in the app that a key may name, with paths relative to the
// document: scripts, or agents other than the root agent and the document itself.
func (s *Server) listDocuments(c *cursor, scripts bool) []string {
	if c.dir == "" {
		return nil
	}
	var files []string
	_ = fs.WalkDir(os.DirFS(c.dir), ".", func(path string, d fs.DirEntry, err error) error {
		file := filepath.Join(c.dir, path)
		switch {
		case err != nil || d.IsDir() && path != "." && strings.HasPrefix(d.Name(), "."):
			return fs.SkipDir // omit unreadable files
		case !strings.HasSuffix(path, ".yaml") || strings.HasSuffix(path, ".script.yaml") != scripts:
			return nil
		case file == c.path || path == "root_agent.yaml" || path == "app.yaml" || strings.HasPrefix(path, "app.") && !strings.Contains(path, "/"):
			return nil
		case slices.ContainsFunc(s.opts.Kinds.Files, func(k loader.FileKind) bool { return k.Includes(path) }):
			return nil
		}
		if rel, err := filepath.Rel(filepath.Dir(c.path), file); err == nil && !strings.HasPrefix(rel, "..") {
			files = append(files, filepath.ToSlash(rel))
		}
		return nil
	})
	return files
}
