package spec

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A schemaChecker reports mistakes in a JSON Schema written in YAML.
type schemaChecker struct {
	root   *Node
	shapes map[string]keywordShape
	ds     Diagnostics
}

func newSchemaChecker(root *Node) *schemaChecker {
	c := &schemaChecker{root: root, shapes: map[string]keywordShape{}}
	for s, names := range schemaKeywords() {
		for _, name := range names {
			c.shapes[name] = s
		}
	}
	return c
}

func (c *schemaChecker) report(d Diagnostic) { c.ds = append(c.ds, d) }

// A keywordShape is the required form for a keyword's value.
type keywordShape int

const (
	anyShape keywordShape = iota
	stringShape
	stringsShape
	boolShape
	numberShape
	countShape
	listShape
	typeShape
	patternShape
	refShape
	schemaShape
	schemasShape
	schemaMapShape
	stringsMapShape
)

// schemaKeywords lists the JSON Schema keywords and the model APIs' extensions.
func schemaKeywords() map[keywordShape][]string {
	return map[keywordShape][]string{
		anyShape:        {"const", "default", "example"},
		stringShape:     {"title", "description", "format", "$schema", "$id", "$anchor", "$comment", "contentEncoding", "contentMediaType"},
		stringsShape:    {"required", "propertyOrdering"},
		boolShape:       {"uniqueItems", "nullable", "deprecated", "readOnly", "writeOnly"},
		numberShape:     {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"},
		countShape:      {"minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties", "minContains", "maxContains"},
		listShape:       {"enum", "examples"},
		typeShape:       {"type"},
		patternShape:    {"pattern"},
		refShape:        {"$ref"},
		schemaShape:     {"items", "additionalProperties", "propertyNames", "contains", "not", "if", "then", "else"},
		schemasShape:    {"anyOf", "oneOf", "allOf", "prefixItems"},
		schemaMapShape:  {"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"},
		stringsMapShape: {"dependentRequired"},
	}
}

// checkSchema checks a schema: a mapping or a boolean.
func (c *schemaChecker) checkSchema(n *Node) {
	if n.Tag == boolTag {
		return
	}
	if n.Kind != Mapping {
		c.report(n.typeError("a JSON Schema").WithHint("short forms are not supported inside a JSON Schema: write {type: string}"))
		return
	}
	for _, e := range n.Entries {
		s, ok := c.shapes[e.Key.Value]
		switch {
		case ok:
			c.checkKeyword(s, e.Value)
		case !strings.HasPrefix(e.Key.Value, "x-"):
			c.reportUnknownKeyword(e.Key)
		}
	}
	c.checkRequired(n)
	c.checkDefault(n)
	c.checkRanges(n)
}

func (c *schemaChecker) reportUnknownKeyword(key *Node) {
	d := key.Errorf("unknown-field", "unknown JSON Schema keyword %q", key.Value)
	if d = d.withSuggestion(key.Value, slices.Collect(maps.Keys(c.shapes))); d.Hint == "" {
		d.Hint = `a mapping with "type:" or "properties:" is a JSON Schema; its fields go under properties:`
	}
	c.report(d)
}

func (c *schemaChecker) checkKeyword(s keywordShape, n *Node) {
	switch s {
	case anyShape:
	case schemaShape:
		c.checkSchema(n)
	case schemasShape:
		c.checkItems(n, c.checkSchema)
	case schemaMapShape:
		c.checkEntries(n, c.checkSchema)
	case stringsMapShape:
		c.checkEntries(n, func(m *Node) { c.checkItems(m, c.checkString) })
	case stringsShape:
		c.checkItems(n, c.checkString)
	case listShape:
		c.checkItems(n, func(*Node) {})
	case typeShape:
		c.checkTypeName(n)
	case refShape:
		c.checkRef(n)
	default:
		c.checkScalar(s, n)
	}
}

func (c *schemaChecker) checkScalar(s keywordShape, n *Node) {
	switch s {
	case boolShape:
		if n.Tag != boolTag {
			c.report(n.typeError("true or false"))
		}
	case numberShape:
		if n.Tag != intTag && n.Tag != floatTag {
			c.report(n.typeError("a number"))
		}
	case countShape:
		if n.Tag != intTag || strings.HasPrefix(n.Value, "-") {
			c.report(n.typeError("a non-negative integer"))
		}
	case patternShape:
		c.checkString(n)
		if _, err := regexp.Compile(n.Value); err != nil && n.Tag == strTag {
			c.report(n.Errorf("value", "invalid regular expression: %v", err))
		}
	default:
		c.checkString(n)
	}
}

func (c *schemaChecker) checkString(n *Node) {
	if n.Tag != strTag {
		c.report(n.typeError(stringType))
	}
}

func (c *schemaChecker) checkItems(n *Node, check func(*Node)) {
	if n.Kind != Sequence {
		c.report(n.typeError("a list"))
	}
	for _, item := range n.Items {
		check(item)
	}
}

func (c *schemaChecker) checkEntries(n *Node, check func(*Node)) {
	if n.Kind != Mapping {
		c.report(n.typeError("a mapping"))
	}
	for _, e := range n.Entries {
		check(e.Value)
	}
}

func jsonTypes() []string {
	return []string{"string", "integer", "number", "boolean", "object", "array", "null"}
}

func (c *schemaChecker) checkTypeName(n *Node) {
	if n.Kind == Sequence {
		c.checkItems(n, c.checkTypeName)
		return
	}
	names := jsonTypes()
	if n.Kind == Scalar && slices.Contains(names, n.Value) {
		return
	}
	if n.Kind != Scalar {
		c.report(n.typeError("a type name"))
		return
	}
	c.report(n.Errorf("enum", "%q is not one of: %s", n.writtenValue(), strings.Join(names, ", ")).withSuggestion(n.Value, names))
}

// checkRef resolves a reference, which must point into the same schema.
func (c *schemaChecker) checkRef(n *Node) {
	path, ok := strings.CutPrefix(n.Value, "#")
	if n.Kind != Scalar || !ok {
		c.report(n.Errorf("value", "$ref must point into the same schema").WithHint("write #/$defs/NAME"))
		return
	}
	at := c.root
	for _, step := range strings.Split(path, "/")[1:] {
		if at = at.childAt(strings.NewReplacer("~1", "/", "~0", "~").Replace(step)); at == nil {
			c.report(n.Errorf("value", "$ref %s not found: no %q", n.Value, step))
			return
		}
	}
}

// childAt resolves one JSON pointer token, or returns nil.
func (n *Node) childAt(name string) *Node {
	if n.Kind != Sequence {
		return n.Get(name)
	}
	i, err := strconv.Atoi(name)
	if err != nil || i < 0 || i >= len(n.Items) {
		return nil
	}
	return n.Items[i]
}

// checkRequired warns about required fields without a property: valid, but almost always
// a mistake.
func (c *schemaChecker) checkRequired(n *Node) {
	properties, required := n.Get("properties"), n.Get("required")
	if properties == nil || required == nil || n.Get("allOf") != nil {
		return
	}
	for _, item := range required.Items {
		if properties.Get(item.Value) == nil {
			c.report(item.Warnf("schema-required", "%q is required but not defined under properties", item.Value).
				withSuggestion(item.Value, properties.Keys()))
		}
	}
}

// checkDefault checks that the default matches the type and the enum.
func (c *schemaChecker) checkDefault(n *Node) {
	value, kind, enum := n.Get("default"), n.Get("type"), n.Get("enum")
	if value == nil || value.IsNull() {
		return
	}
	if kind != nil && kind.Kind == Scalar && joinTypes(kind.Value, jsonType(value)) != kind.Value {
		c.report(value.Errorf("schema-default", "the default must be of type %s, got %s", kind.Value, value.describeType()))
	}
	if enum != nil && value.Kind == Scalar && enum.Kind == Sequence && !slices.ContainsFunc(enum.Items, value.equalScalar) {
		c.report(value.Errorf("schema-default", "the default %q is not one of: %s", value.writtenValue(), listValues(enum)))
	}
}

// checkRanges warns about minimums that exceed their maximums.
func (c *schemaChecker) checkRanges(n *Node) {
	for _, pair := range [][2]string{
		{"minimum", "maximum"}, {"minLength", "maxLength"}, {"minItems", "maxItems"}, {"minProperties", "maxProperties"},
	} {
		minNode, maxNode := n.Get(pair[0]), n.Get(pair[1])
		if minNode == nil || maxNode == nil {
			continue
		}
		low, okLow := parseFloat(minNode.Value)
		high, okHigh := parseFloat(maxNode.Value)
		if okLow && okHigh && low > high {
			c.report(minNode.Warnf("schema-range", "%s %s exceeds %s %s: no value is valid", pair[0], minNode.Value, pair[1], maxNode.Value))
		}
	}
}

// equalScalar reports whether two scalars have the same value and type.
func (n *Node) equalScalar(m *Node) bool {
	return n.Kind == Scalar && m.Kind == Scalar && n.Tag == m.Tag && n.Value == m.Value
}

func joinTypes(a, b string) string {
	numbers := []string{"integer", "number"}
	switch {
	case a == "" || a == b:
		return b
	case slices.Contains(numbers, a) && slices.Contains(numbers, b):
		return "number"
	}
	return "mixed"
}

// jsonType returns a node's JSON Schema type.
func jsonType(n *Node) string {
	switch n.Tag {
	case mapTag:
		return "object"
	case seqTag:
		return "array"
	case intTag:
		return "integer"
	case floatTag:
		return "number"
	case boolTag:
		return "boolean"
	case nullTag:
		return "null"
	}
	return "string"
}

func listValues(n *Node) string {
	words := make([]string, len(n.Items))
	for i, item := range n.Items {
		words[i] = item.writtenValue()
	}
	return strings.Join(words, ", ")
}
