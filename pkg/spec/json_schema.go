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
	shapes map[string]shape
	ds     Diagnostics
}

func newSchemaChecker(root *Node) *schemaChecker {
	c := &schemaChecker{root: root, shapes: map[string]shape{}}
	for s, names := range keywords() {
		for _, name := range names {
			c.shapes[name] = s
		}
	}
	return c
}

func (c *schemaChecker) add(d Diagnostic) { c.ds = append(c.ds, d) }

// A shape is what the value of a keyword must be.
type shape int

const (
	anyShape shape = iota
	textShape
	textsShape
	boolShape
	numberShape
	countShape
	listShape
	typeShape
	patternShape
	refShape
	schemaShape
	schemasShape
	namedShape
	namedTextsShape
)

// keywords are those of JSON Schema, and those that model APIs add to it.
func keywords() map[shape][]string {
	return map[shape][]string{
		anyShape:        {"const", "default", "example"},
		textShape:       {"title", "description", "format", "$schema", "$id", "$comment", "contentEncoding", "contentMediaType"},
		textsShape:      {"required", "propertyOrdering"},
		boolShape:       {"uniqueItems", "nullable", "deprecated", "readOnly", "writeOnly"},
		numberShape:     {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"},
		countShape:      {"minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties", "minContains", "maxContains"},
		listShape:       {"enum", "examples"},
		typeShape:       {"type"},
		patternShape:    {"pattern"},
		refShape:        {"$ref"},
		schemaShape:     {"items", "additionalProperties", "propertyNames", "contains", "not", "if", "then", "else"},
		schemasShape:    {"anyOf", "oneOf", "allOf", "prefixItems"},
		namedShape:      {"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"},
		namedTextsShape: {"dependentRequired"},
	}
}

// schema checks a schema: a mapping, or true or false.
func (c *schemaChecker) schema(n *Node) {
	if n.Tag == boolTag {
		return
	}
	if n.Kind != Mapping {
		c.add(n.want("a JSON Schema").WithHint("inside a JSON Schema there are no short forms: write {type: string}"))
		return
	}
	for _, e := range n.Entries {
		s, ok := c.shapes[e.Key.Value]
		switch {
		case ok:
			c.keyword(s, e.Value)
		case !strings.HasPrefix(e.Key.Value, "x-"):
			c.unknownKeyword(e.Key)
		}
	}
	c.checkRequired(n)
	c.checkDefault(n)
	c.checkRanges(n)
}

func (c *schemaChecker) unknownKeyword(key *Node) {
	d := key.Errorf("unknown-field", "%q is not a keyword of JSON Schema", key.Value)
	if d = d.withNear(key.Value, slices.Collect(maps.Keys(c.shapes))); d.Hint == "" {
		d.Hint = `a mapping with "type:" or "properties:" is a JSON Schema; its fields go under properties:`
	}
	c.add(d)
}

func (c *schemaChecker) keyword(s shape, n *Node) {
	switch s {
	case anyShape:
	case schemaShape:
		c.schema(n)
	case schemasShape:
		c.each(n, c.schema)
	case namedShape:
		c.named(n, c.schema)
	case namedTextsShape:
		c.named(n, func(m *Node) { c.each(m, c.text) })
	case textsShape:
		c.each(n, c.text)
	case listShape:
		c.each(n, func(*Node) {})
	case typeShape:
		c.typeName(n)
	case refShape:
		c.ref(n)
	default:
		c.scalar(s, n)
	}
}

func (c *schemaChecker) scalar(s shape, n *Node) {
	switch s {
	case boolShape:
		if n.Tag != boolTag {
			c.add(n.want("true or false"))
		}
	case numberShape:
		if n.Tag != intTag && n.Tag != floatTag {
			c.add(n.want("a number"))
		}
	case countShape:
		if n.Tag != intTag || strings.HasPrefix(n.Value, "-") {
			c.add(n.want("a whole number from 0"))
		}
	case patternShape:
		c.text(n)
		if _, err := regexp.Compile(n.Value); err != nil && n.Tag == strTag {
			c.add(n.Errorf("value", "this is not a regular expression: %v", err))
		}
	default:
		c.text(n)
	}
}

func (c *schemaChecker) text(n *Node) {
	if n.Tag != strTag {
		c.add(n.want(aString))
	}
}

func (c *schemaChecker) each(n *Node, check func(*Node)) {
	if n.Kind != Sequence {
		c.add(n.want("a list"))
	}
	for _, item := range n.Items {
		check(item)
	}
}

func (c *schemaChecker) named(n *Node, check func(*Node)) {
	if n.Kind != Mapping {
		c.add(n.want("a mapping"))
	}
	for _, e := range n.Entries {
		check(e.Value)
	}
}

func jsonTypes() []string {
	return []string{"string", "integer", "number", "boolean", "object", "array", "null"}
}

func (c *schemaChecker) typeName(n *Node) {
	if n.Kind == Sequence {
		c.each(n, c.typeName)
		return
	}
	names := jsonTypes()
	if n.Kind == Scalar && slices.Contains(names, n.Value) {
		return
	}
	if n.Kind != Scalar {
		c.add(n.want("the name of a type"))
		return
	}
	c.add(n.Errorf("enum", "%q is not one of: %s", n.shown(), strings.Join(names, ", ")).withNear(n.Value, names))
}

// ref follows a reference, which leads to a place in the same schema.
func (c *schemaChecker) ref(n *Node) {
	path, ok := strings.CutPrefix(n.Value, "#")
	if n.Kind != Scalar || !ok {
		c.add(n.Errorf("value", "a $ref leads to a place in the same schema").WithHint("write #/$defs/NAME"))
		return
	}
	at := c.root
	for _, step := range strings.Split(path, "/")[1:] {
		if at = at.step(strings.NewReplacer("~1", "/", "~0", "~").Replace(step)); at == nil {
			c.add(n.Errorf("value", "%s leads nowhere: there is no %q", n.Value, step))
			return
		}
	}
}

// step follows one step of a JSON pointer, or returns nil.
func (n *Node) step(name string) *Node {
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
			c.add(item.Warnf("schema-required", "%q is required but is not under properties", item.Value).
				withNear(item.Value, properties.Keys()))
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
		c.add(value.Errorf("schema-default", "the default is %s, but the type is %s", value.describe(), kind.Value))
	}
	if enum != nil && value.Kind == Scalar && enum.Kind == Sequence && !slices.ContainsFunc(enum.Items, value.same) {
		c.add(value.Errorf("schema-default", "the default %q is not one of: %s", value.shown(), listValues(enum)))
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
			c.add(least.Warnf("schema-range", "%s %s is more than %s %s: no value fits", pair[0], least.Value, pair[1], most.Value))
		}
	}
}
