package spec

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A schemaChecker finds mistakes in a JSON Schema that is written in YAML.
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

// A shape is what the value of a keyword must be.
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

// schemaKeywords are those of JSON Schema, and those that model APIs add to it.
func schemaKeywords() map[keywordShape][]string {
	return map[keywordShape][]string{
		anyShape:        {"const", "default", "example"},
		stringShape:     {"title", "description", "format", "$schema", "$id", "$comment", "contentEncoding", "contentMediaType"},
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

// checkSchema checks a schema: a mapping, or true or false.
func (c *schemaChecker) checkSchema(n *Node) {
	if n.Tag == boolTag {
		return
	}
	if n.Kind != Mapping {
		c.report(n.typeError("a JSON Schema").WithHint("inside a JSON Schema there are no short forms: write {type: string}"))
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
	d := key.Errorf("unknown-field", "%q is not a keyword of JSON Schema", key.Value)
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
			c.report(n.typeError("a whole number from 0"))
		}
	case patternShape:
		c.checkString(n)
		if _, err := regexp.Compile(n.Value); err != nil && n.Tag == strTag {
			c.report(n.Errorf("value", "this is not a regular expression: %v", err))
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
		c.report(n.typeError("the name of a type"))
		return
	}
	c.report(n.Errorf("enum", "%q is not one of: %s", n.writtenValue(), strings.Join(names, ", ")).withSuggestion(n.Value, names))
}

// checkRef follows a reference, which leads to a place in the same schema.
func (c *schemaChecker) checkRef(n *Node) {
	path, ok := strings.CutPrefix(n.Value, "#")
	if n.Kind != Scalar || !ok {
		c.report(n.Errorf("value", "a $ref leads to a place in the same schema").WithHint("write #/$defs/NAME"))
		return
	}
	at := c.root
	for _, step := range strings.Split(path, "/")[1:] {
		if at = at.childAt(strings.NewReplacer("~1", "/", "~0", "~").Replace(step)); at == nil {
			c.report(n.Errorf("value", "%s leads nowhere: there is no %q", n.Value, step))
			return
		}
	}
}

// childAt follows one step of a JSON pointer, or returns nil.
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

// checkRequired warns of required fields that are no properties: allowed, and
// nearly always a slip.
func (c *schemaChecker) checkRequired(n *Node) {
	properties, required := n.Get("properties"), n.Get("required")
	if properties == nil || required == nil || n.Get("allOf") != nil {
		return
	}
	for _, item := range required.Items {
		if properties.Get(item.Value) == nil {
			c.report(item.Warnf("schema-required", "%q is required but is not under properties", item.Value).
				withSuggestion(item.Value, properties.Keys()))
		}
	}
}

// checkDefault compares the default's type, and the choices, with the default.
func (c *schemaChecker) checkDefault(n *Node) {
	value, kind, enum := n.Get("default"), n.Get("type"), n.Get("enum")
	if value == nil || value.IsNull() {
		return
	}
	if kind != nil && kind.Kind == Scalar && joinTypes(kind.Value, jsonType(value)) != kind.Value {
		c.report(value.Errorf("schema-default", "the default is %s, but the type is %s", value.describeType(), kind.Value))
	}
	if enum != nil && value.Kind == Scalar && enum.Kind == Sequence && !slices.ContainsFunc(enum.Items, value.equalScalar) {
		c.report(value.Errorf("schema-default", "the default %q is not one of: %s", value.writtenValue(), listValues(enum)))
	}
}

// checkRanges warns of a least value that is above the greatest one: nothing
// goes with it.
func (c *schemaChecker) checkRanges(n *Node) {
	for _, pair := range [][2]string{
		{"minimum", "maximum"}, {"minLength", "maxLength"}, {"minItems", "maxItems"}, {"minProperties", "maxProperties"},
	} {
		least, most := n.Get(pair[0]), n.Get(pair[1])
		if least == nil || most == nil {
			continue
		}
		low, okLow := parseFloat(least.Value)
		high, okHigh := parseFloat(most.Value)
		if okLow && okHigh && low > high {
			c.report(least.Warnf("schema-range", "%s %s is more than %s %s: no value fits", pair[0], least.Value, pair[1], most.Value))
		}
	}
}
