package openapitool

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"agenthost/pkg/spec"
)

// A schemaConverter converts one operation's schemas to JSON Schema: references become copies, or
// definitions if they are recursive.
type schemaConverter struct {
	doc *document
	// left is how many schemas remain; beyond it a schema accepts anything.
	left int
	// defs are the definitions; names are the pointers' names, and queue the pointers to convert.
	defs  map[string]any
	names map[string]string
	queue []string
	// active are the pointers being converted.
	active []string
}

// maxSchemas limits one operation's schemas: package tool accepts 2000 objects and lists.
const maxSchemas = 300

// Limits within one schema: schemas that exceed them lack the member.
const (
	maxSchemaText   = 2000 // bytes in a description
	maxDefaultNodes = 50
	maxEnum         = 500
)

// countNodes counts a tree's nodes.
func countNodes(n *spec.Node) int {
	count := 1
	for _, e := range n.Entries {
		count += countNodes(e.Value)
	}
	for _, item := range n.Items {
		count += countNodes(item)
	}
	return count
}

func newSchemaConverter(doc *document) *schemaConverter {
	return &schemaConverter{doc: doc, left: maxSchemas, defs: map[string]any{}, names: map[string]string{}}
}

// isCut reports whether a schema exceeded the limit.
func (c *schemaConverter) isCut() bool { return c.left < 0 }

// convertSchema returns a node's schema; an absent one accepts anything.
func (c *schemaConverter) convertSchema(n *spec.Node) map[string]any {
	if c.left--; c.left < 0 || n == nil || n.Kind != spec.Mapping {
		return map[string]any{}
	}
	ref := n.Get("$ref")
	if ref == nil || ref.Kind != spec.Scalar {
		return c.convertMembers(n)
	}
	found := c.convertRef(ref)
	if text := n.Get("description"); isString(text) { // a sibling overrides, since 3.1
		found["description"] = text.Value
	}
	return found
}

func (c *schemaConverter) convertRef(ref *spec.Node) map[string]any {
	if slices.Contains(c.active, ref.Value) { // a recursive schema gets a name, and its definition is queued
		name, ok := c.names[ref.Value]
		if !ok {
			name = snakeName(ref.Value[strings.LastIndexByte(ref.Value, '/')+1:]) + "_" + strconv.Itoa(len(c.names)+1)
			c.names[ref.Value] = name
			c.queue = append(c.queue, ref.Value)
		}
		return map[string]any{"$ref": "#/$defs/" + name}
	}
	if len(c.active) >= maxRefs {
		return map[string]any{}
	}
	target := c.doc.findRef(ref)
	if target == nil {
		return map[string]any{}
	}
	c.active = append(c.active, ref.Value)
	defer func() { c.active = c.active[:len(c.active)-1] }()
	return c.convertSchema(target)
}

// buildDefinitions converts the queued definitions, which may queue others.
func (c *schemaConverter) buildDefinitions() map[string]any {
	for len(c.queue) > 0 {
		pointer := c.queue[0]
		c.queue = c.queue[1:]
		c.active = []string{pointer}
		c.defs[c.names[pointer]] = c.convertSchema(c.doc.findPointer(strings.TrimPrefix(pointer, "#")))
	}
	c.active = nil
	return c.defs
}

// convertMembers converts a schema's members that JSON Schema has too. It leaves out others, and
// members with a wrong type.
func (c *schemaConverter) convertMembers(n *spec.Node) map[string]any {
	schema := make(map[string]any, len(n.Entries))
	hidden := readOnlyProperties(c.doc, n)
	for _, e := range n.Entries {
		switch key, v := e.Key.Value, e.Value; memberType(key) {
		case "string":
			if isString(v) {
				schema[key] = cutText(v.Value, maxSchemaText)
			}
		case "number":
			if v.Tag == "!!int" || v.Tag == "!!float" {
				schema[key] = v.Any()
			}
		case "bool":
			if v.Tag == "!!bool" {
				schema[key] = v.Any()
			}
		case "any":
			if countNodes(v) <= maxDefaultNodes {
				schema[key] = v.Any()
			}
		case "schema":
			schema[key] = c.convertSubschema(v)
		case "list":
			c.convertList(schema, key, v)
		case "map":
			c.convertMap(schema, key, v, hidden)
		}
	}
	setRequired(schema, n.Get("required"), hidden)
	setType(schema, n)
	if schema["type"] == nil && isTrue(n.Get("nullable")) {
		return acceptNull(schema)
	}
	return schema
}

func memberType(key string) string {
	switch key {
	case "title", "description", "format", "contentMediaType", "contentEncoding":
		return "string"
	case "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf",
		"minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties":
		return "number"
	case "uniqueItems", "deprecated":
		return "bool"
	case "default", "const":
		return "any"
	case "items", "additionalProperties", "not", "contains", "propertyNames", "if", "then", "else":
		return "schema"
	case "allOf", "anyOf", "oneOf", "prefixItems":
		return "list"
	case "properties", "patternProperties":
		return "map"
	}
	return ""
}

func isString(n *spec.Node) bool { return n != nil && n.Kind == spec.Scalar && n.Tag == "!!str" }

func (c *schemaConverter) convertSubschema(n *spec.Node) any {
	if n.Tag == "!!bool" {
		return n.Any()
	}
	return c.convertSchema(n)
}

func (c *schemaConverter) convertList(schema map[string]any, key string, n *spec.Node) {
	list := make([]any, 0, min(len(n.Items), maxSchemas))
	for _, item := range n.Items {
		if c.left < 0 {
			break
		}
		list = append(list, c.convertSubschema(item))
	}
	if len(list) > 0 {
		schema[key] = list
	}
}

func (c *schemaConverter) convertMap(schema map[string]any, key string, n *spec.Node, hidden map[string]bool) {
	m := make(map[string]any, min(len(n.Entries), maxSchemas))
	for _, e := range n.Entries {
		if c.left < 0 {
			break
		}
		if key == "properties" && hidden[e.Key.Value] {
			continue
		}
		m[e.Key.Value] = c.convertSubschema(e.Value)
	}
	schema[key] = m
}

// readOnlyProperties returns the properties that requests do not have.
func readOnlyProperties(doc *document, n *spec.Node) map[string]bool {
	properties := n.Get("properties")
	if properties == nil {
		return nil
	}
	names := map[string]bool{}
	for _, e := range properties.Entries {
		prop := e.Value
		if ref := prop.Get("$ref"); isString(ref) && prop.Get("readOnly") == nil {
			if found, _ := doc.followRefs(prop); found != nil {
				prop = found
			}
		}
		if only := prop.Get("readOnly"); only != nil && only.Tag == "!!bool" && only.Any() == true {
			names[e.Key.Value] = true
		}
	}
	return names
}

// setRequired sets the required properties that requests have.
func setRequired(schema map[string]any, n *spec.Node, hidden map[string]bool) {
	if n == nil {
		return
	}
	var names []any
	seen := map[string]bool{}
	for _, item := range n.Items {
		if isString(item) && !hidden[item.Value] && !seen[item.Value] {
			seen[item.Value] = true
			names = append(names, item.Value)
		}
	}
	if len(names) > 0 {
		schema["required"] = names
	}
}

// setType sets the type, the enum, the bounds and the pattern, which OpenAPI 3.0 writes
// differently.
func setType(schema map[string]any, n *spec.Node) {
	types := typesOf(n)
	if nullable := n.Get("nullable"); nullable != nil && nullable.Any() == true && len(types) > 0 && !slices.Contains(types, "null") {
		types = append(types, "null")
	}
	switch len(types) {
	case 0:
	case 1:
		schema["type"] = types[0]
	default:
		list := make([]any, len(types))
		for i, t := range types {
			list[i] = t
		}
		schema["type"] = list
	}
	if enum := n.Get("enum"); enum != nil && len(enum.Items) > 0 && len(enum.Items) <= maxEnum {
		var values []any
		for _, item := range enum.Items {
			v := item.Any()
			if slices.Contains(types, "string") && item.Kind == spec.Scalar && !item.IsNull() {
				v = item.Value // YAML reads some strings as numbers or booleans
			}
			values = append(values, v)
		}
		schema["enum"] = values
	}
	for exclusive, bound := range map[string]string{"exclusiveMinimum": "minimum", "exclusiveMaximum": "maximum"} {
		if is := n.Get(exclusive); is != nil && is.Tag == "!!bool" && is.Any() == true && schema[bound] != nil {
			schema[exclusive] = schema[bound]
			delete(schema, bound)
		}
	}
	if pattern := n.Get("pattern"); isString(pattern) {
		if _, err := regexp.Compile(pattern.Value); err == nil { // else it is only ECMAScript
			schema["pattern"] = pattern.Value
		}
	}
}

// acceptNull returns a schema that also accepts null.
func acceptNull(schema map[string]any) map[string]any {
	if enum, ok := schema["enum"].([]any); ok && !slices.Contains(enum, nil) {
		schema["enum"] = append(slices.Clip(enum), nil)
	}
	switch types := schema["type"].(type) {
	case string:
		if types != "null" {
			schema["type"] = []any{types, "null"}
		}
	case []any:
		if !slices.Contains(types, any("null")) {
			schema["type"] = append(slices.Clip(types), "null")
		}
	default:
		if _, composed := firstOf(schema, "$ref", "allOf", "anyOf", "oneOf"); composed {
			return map[string]any{"anyOf": []any{schema, map[string]any{"type": "null"}}}
		}
	}
	return schema
}

// typesOf returns a schema's types in lower case, without unknown ones such as file.
func typesOf(n *spec.Node) []string {
	at := n.Get("type")
	if at == nil {
		return nil
	}
	items := at.Items
	if at.Kind == spec.Scalar {
		items = []*spec.Node{at}
	}
	var types []string
	for _, item := range items {
		t := strings.ToLower(item.Value)
		if slices.Contains([]string{"string", "integer", "number", "boolean", "object", "array", "null"}, t) && !slices.Contains(types, t) {
			types = append(types, t)
		}
	}
	return types
}

func isTrue(n *spec.Node) bool { return n != nil && n.Tag == "!!bool" && n.Any() == true }

func firstOf(m map[string]any, keys ...string) (any, bool) {
	for _, key := range keys {
		if v, ok := m[key]; ok {
			return v, true
		}
	}
	return nil, false
}
