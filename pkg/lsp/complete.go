package lsp

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"agenthost/pkg/loader"
)

// complete lists what may be typed at a place: keys of the state inside of a
// text, keys of the document, or values.
func (s *Server) complete(c *cursor) any {
	var items []completionItem
	switch {
	case c.inPlaceholder():
		items = s.stateKeys(c)
	case c.key == "":
		items = s.fields(c)
	default:
		items = s.values(c)
	}
	return map[string]any{"isIncomplete": false, "items": items}
}

// inPlaceholder says whether a key of the state is being typed: behind a brace
// in a text, or behind state. in an expression.
func (c *cursor) inPlaceholder() bool {
	word := c.before[strings.LastIndexAny(c.before, " \t\"'(![{,")+1:]
	if strings.HasPrefix(word, "state.") {
		return true
	}
	brace := strings.LastIndexAny(c.before, "{}")
	if brace < 0 || c.before[brace] != '{' || strings.ContainsAny(c.before[brace:], " :,") {
		return false
	}
	return !isFlow(c.before[:brace])
}

// isFlow says whether a brace behind a text begins a mapping of YAML: behind a
// key, a dash, or in another mapping or list.
func isFlow(before string) bool {
	text := strings.TrimRight(before, " ")
	return text == "" || strings.ContainsAny(text[len(text)-1:], ":-[,{")
}

func (s *Server) stateKeys(c *cursor) []completionItem {
	items := []completionItem{}
	for _, key := range s.outline(c).State {
		items = append(items, completionItem{Label: key, Kind: kindVariable, Detail: "key of the state"})
	}
	return items
}

// fields lists the keys that a mapping may still have.
func (s *Server) fields(c *cursor) []completionItem {
	items := []completionItem{}
	for _, named := range s.namedKeys(c) {
		items = append(items, completionItem{Label: named.Name, Kind: kindName, Documentation: markdown(named.Doc), InsertText: named.Name + ": "})
	}
	for _, f := range fieldsOf(fits(s.schema(c.language()).at(c.keys), c.beside)) {
		if _, there := c.beside[f.name]; !there {
			items = append(items, completionItem{
				Label: f.name, Kind: kindProperty, Detail: typeOf(f.schema),
				Documentation: markdown(textOf(f.schema, "description")), InsertText: f.name + ": ",
			})
		}
	}
	if len(items) == 0 || len(c.keys) > 0 && c.keys[len(c.keys)-1] == item {
		items = append(items, s.values(c)...)
	}
	return items
}

// namedKeys are the names of the app that are keys: in tests, agents and tools.
func (s *Server) namedKeys(c *cursor) []loader.Named {
	if c.language() != "test" || len(c.keys) != 2 {
		return nil
	}
	switch c.keys[1] {
	case "model":
		return s.outline(c).Agents
	case "tools":
		return s.outline(c).Tools
	}
	return nil
}

func typeOf(one map[string]any) string {
	if title := textOf(one, "title"); title != "" {
		return title
	}
	return textOf(one, "type")
}

// values lists what may stand behind a key, or as an item of a list.
func (s *Server) values(c *cursor) []completionItem {
	items := []completionItem{}
	for _, named := range s.namesFor(c) {
		items = append(items, completionItem{Label: named.Name, Kind: kindName, Documentation: markdown(named.Doc)})
	}
	switch c.key {
	case "config_path", "script":
		for _, file := range yamlFiles(c.dir, filepath.Dir(c.path)) {
			items = append(items, completionItem{Label: file, Kind: kindFile})
		}
	case "output_key":
		items = append(items, s.stateKeys(c)...)
	}
	keys := c.keys
	if c.key != "" {
		keys = append(slices.Clone(keys), c.key)
	}
	for _, v := range valuesOf(s.schema(c.language()).at(keys)) {
		items = append(items, completionItem{Label: v, Kind: kindValue})
	}
	return items
}

// namesFor are the names of the app that may be the value of the key.
func (s *Server) namesFor(c *cursor) []loader.Named {
	o := s.outline(c)
	switch c.key {
	case "model", "fallback":
		return o.Models
	case "agent_name":
		return o.Agents
	case "use":
		last := slices.DeleteFunc(slices.Clone(c.keys), func(k string) bool { return k == item })
		if len(last) > 0 && last[len(last)-1] == "tools" {
			return o.Tools
		}
		return o.Agents
	}
	return nil
}

// yamlFiles lists the YAML files below an app's folder, by their paths from the
// folder of a file.
func yamlFiles(dir, from string) []string {
	if dir == "" {
		return nil
	}
	var files []string
	_ = fs.WalkDir(os.DirFS(dir), ".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil || d.IsDir() && path != "." && strings.HasPrefix(d.Name(), "."):
			return fs.SkipDir // what cannot be read is not offered
		case !strings.HasSuffix(path, ".yaml") || strings.HasSuffix(path, ".test.yaml") || path == "app.yaml":
			return nil
		}
		if rel, err := filepath.Rel(from, filepath.Join(dir, path)); err == nil && !strings.HasPrefix(rel, "..") {
			files = append(files, filepath.ToSlash(rel))
		}
		return nil
	})
	return files
}
