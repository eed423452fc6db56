package lsp

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"agenthost/internal/turn"
	"agenthost/pkg/loader"
	"agenthost/pkg/spec"
	"agenthost/pkg/template"
)

// memberPath matches the names and dots before a cursor in an expression.
var memberPath = regexp.MustCompile(`[A-Za-z_][A-Za-z0-9_]*(?:\??\.[A-Za-z_][A-Za-z0-9_]*)*\??\.?$`)

// completeInText completes a name in an expression, or in a template's placeholder. Ok is false if the
// cursor is in neither.
func (s *Server) completeInText(c *cursor, parsed *parsedCursor) ([]completionItem, bool) {
	if parsed.text == nil || len(parsed.steps) == 0 {
		return nil, false
	}
	v, ok := s.findVariables(c, parsed)
	switch {
	case !ok:
		return nil, false
	case !v.Template:
		return s.completeExpression(c, v), true
	}
	brace := strings.LastIndexAny(c.before, "{}")
	if brace < 0 || c.before[brace] != '{' || strings.HasSuffix(c.before[:brace], "$") {
		return []completionItem{}, true
	}
	return s.completePlaceholder(c, v, brace+1), true
}

// findVariables returns the variables for the string at the cursor.
func (s *Server) findVariables(c *cursor, parsed *parsedCursor) (loader.Variables, bool) {
	if kind := c.fileKind(); kind != nil {
		last := parsed.steps[len(parsed.steps)-1]
		isExpression := c.key == "expect" || last.key == "expect" && last.node.Kind == spec.Sequence
		if isExpression && (kind.Name == "test" || kind.Name == "eval") {
			return loader.Variables{Env: turn.NewEnv(map[string]any{})}, true
		}
		return loader.Variables{}, false
	}
	if !c.hasVariables() {
		return loader.Variables{}, false
	}
	return s.loader.FindVariables(parsed.root, parsed.text)
}

// completeExpression completes a variable, or a member of one.
func (s *Server) completeExpression(c *cursor, v loader.Variables) []completionItem {
	items := []completionItem{}
	path := memberPath.FindString(c.before)
	dot := strings.LastIndexByte(path, '.')
	if dot < 0 {
		for _, name := range orderVariables(v.Env) {
			items = append(items, completionItem{Label: name, Kind: kindVariable, Detail: sampleType(v.Env[name])})
		}
		return items
	}
	owner := strings.ReplaceAll(path[:dot], "?", "")
	switch owner {
	case "args":
		return s.completeParams(v, "")
	case "state":
		for _, k := range s.outlineOf(c).State {
			if !strings.Contains(k.Name, ":") {
				items = append(items, newStateItem(k))
			}
		}
		return items
	case "body", "response":
		return s.completeResponse(c, v)
	}
	for _, name := range memberNames(v.Env, owner) {
		items = append(items, completionItem{Label: name, Kind: kindProperty})
	}
	return items
}

// orderVariables returns the names that an expression may use, those with members of this app first.
func orderVariables(env template.Env) []string {
	names := slices.Sorted(maps.Keys(env))
	first := []string{"args", "state", "body", "response", "status", "tool", "calls", "text"}
	slices.SortStableFunc(names, func(a, b string) int {
		at := func(name string) int {
			if i := slices.Index(first, name); i >= 0 {
				return i
			}
			return len(first)
		}
		return at(a) - at(b)
	})
	return names
}

// sampleType returns the type that a sample in an environment stands for, or "".
func sampleType(sample any) string {
	switch sample.(type) {
	case string:
		return "string"
	case bool:
		return "boolean"
	case int, int64:
		return "integer"
	case float64:
		return "number"
	case []any:
		return "list"
	case map[string]any, template.Env:
		return "object"
	}
	return ""
}

// memberNames returns the members of a path in an environment.
func memberNames(env template.Env, path string) []string {
	var at any = env
	for _, name := range strings.Split(path, ".") {
		switch inner := at.(type) {
		case template.Env:
			at = inner[name]
		case map[string]any:
			at = inner[name]
		default:
			return nil
		}
	}
	switch inner := at.(type) {
	case template.Env:
		return slices.Sorted(maps.Keys(inner))
	case map[string]any:
		return slices.Sorted(maps.Keys(inner))
	}
	return nil
}

// completeParams returns a tool's params with their types, after a prefix.
func (s *Server) completeParams(v loader.Variables, prefix string) []completionItem {
	items := []completionItem{}
	if v.Params == nil {
		for _, name := range memberNames(v.Env, "args") {
			items = append(items, completionItem{Label: prefix + name, Kind: kindProperty})
		}
		return items
	}
	for _, e := range v.Params.Entries {
		item := completionItem{Label: prefix + e.Key.Value, Kind: kindProperty, Detail: loader.DescribeType(e.Value)}
		if doc := e.Value.Get("description"); doc != nil {
			item.Documentation = newMarkdown(doc.Value)
		}
		items = append(items, item)
	}
	return items
}

// completeResponse returns the fields that tests and eval sets return for the tool.
func (s *Server) completeResponse(c *cursor, v loader.Variables) []completionItem {
	items := []completionItem{}
	var walk func(n *spec.Node)
	walk = func(n *spec.Node) {
		for _, e := range n.Entries {
			if e.Key.Value == v.Tool && e.Value.Get("return") != nil {
				for _, field := range e.Value.Get("return").Entries {
					item := completionItem{Label: field.Key.Value, Kind: kindProperty, Detail: "in a test's response"}
					if !slices.ContainsFunc(items, func(i completionItem) bool { return i.Label == item.Label }) {
						items = append(items, item)
					}
				}
			}
			walk(e.Value)
		}
		for _, item := range n.Items {
			walk(item)
		}
	}
	documents := s.outlineOf(c).Documents
	for _, file := range slices.Sorted(maps.Keys(documents)) {
		if v.Tool != "" {
			walk(documents[file])
		}
	}
	return items
}

// completePlaceholder completes what begins at an offset after a brace: in a tool's template params
// and state keys, else state keys.
func (s *Server) completePlaceholder(c *cursor, v loader.Variables, start int) []completionItem {
	items := []completionItem{}
	if v.Env != nil {
		items = append(items, s.completeParams(v, "args.")...)
	}
	items = append(items, s.completeStateKeys(c)...)
	if v.Env != nil {
		for _, name := range memberNames(v.Env, "session") {
			items = append(items, completionItem{Label: "session." + name, Kind: kindVariable})
		}
	}
	s.replaceFrom(c, start, items)
	return items
}

// replaceFrom makes items replace the text between an offset and the cursor: for an editor, a colon
// or a dot may end a word.
func (s *Server) replaceFrom(c *cursor, start int, items []completionItem) {
	from := position{c.line, s.encoding.countUnits(c.before, len([]rune(c.before[:start])))}
	to := position{c.line, s.encoding.countUnits(c.before, len(c.before))}
	for i := range items {
		items[i].TextEdit = &textEdit{textRange{from, to}, items[i].Label}
	}
}

// completeStateKeys returns the app's state keys: first those that it writes.
func (s *Server) completeStateKeys(c *cursor) []completionItem {
	items := []completionItem{}
	keys := s.outlineOf(c).State
	for _, written := range []bool{true, false} {
		for _, k := range keys {
			if k.Written == written {
				items = append(items, newStateItem(k))
			}
		}
	}
	return items
}

func newStateItem(k loader.StateKey) completionItem {
	item := completionItem{Label: k.Name, Kind: kindVariable, Detail: "state key"}
	if k.Type != "" {
		item.Detail += ", " + k.Type
	}
	if k.Doc != "" {
		item.Documentation = newMarkdown(k.Doc)
	}
	return item
}

// isSchemaField reports whether the value at the cursor is a field's type in a short schema.
func (c *cursor) isSchemaField() bool {
	if c.key == "" || slices.Contains(c.keys, "openapi") {
		return false
	}
	at := slices.IndexFunc(c.keys, func(key string) bool {
		return slices.Contains([]string{"params", "input_schema", "output_schema", "state_schema", "schemas"}, key)
	})
	_, full := c.siblings["type"]
	return at >= 0 && !full && c.keys[len(c.keys)-1] != "properties" && c.fileKind() == nil
}

// completeTypes returns the types of a short schema, and the app's schemas.
func (s *Server) completeTypes(c *cursor) []completionItem {
	items := []completionItem{}
	for _, t := range []struct{ name, doc string }{
		{"string", "Text."},
		{"integer", "A number without a fraction."},
		{"number", "A number."},
		{"boolean", "`true` or `false`."},
		{"object", "A mapping of any fields. For known fields, write a mapping of their types."},
		{"any", "A value of any type."},
		{"string?", "Optional text. All types may end with a question mark."},
		{"[string]", "A list of strings."},
	} {
		item := completionItem{Label: t.name, Kind: kindValue, Documentation: newMarkdown(t.doc)}
		if strings.HasSuffix(t.name, "?") && openBrackets(c.before) != "" {
			item.InsertText = strconv.Quote(t.name) // YAML 1.1 has no plain ? there
		}
		items = append(items, item)
	}
	items = append(items, completionItem{Label: "{enum: []}", Kind: kindValue, Documentation: newMarkdown("One of the listed values.")})
	documents := s.outlineOf(c).Documents
	for _, file := range slices.Sorted(maps.Keys(documents)) {
		for _, name := range documents[file].Get("schemas").Keys() {
			items = append(items, completionItem{Label: name, Kind: kindName, Detail: "schema"})
		}
	}
	return items
}
