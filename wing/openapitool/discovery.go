package openapitool

import (
	"regexp"
	"slices"
	"strings"

	"agenthost/internal/limit"
	"agenthost/pkg/spec"
)

// discoveryKind is a discovery document's kind: it describes a Google API
// (developers.google.com/discovery/v1/reference/apis).
const discoveryKind = "discovery#restDescription"

// maxMethods limits a discovery document's methods. Google's largest documents have about 2000.
const maxMethods = 20_000

func isDiscovery(root *spec.Node) bool {
	kind := root.Get("kind")
	return root.Kind == spec.Mapping && isString(kind) && kind.Value == discoveryKind
}

// discoveryMode reads a discovery document's methods and schemas late, and skips what no tool uses.
func discoveryMode(path []string) readMode {
	switch last := len(path) - 1; {
	case last == 0:
		if slices.Contains([]string{"kind", "name", "version", "rootUrl", "servicePath", "baseUrl", "auth", "parameters", "schemas", "methods", "resources"}, path[0]) {
			return readNow
		}
		return skip
	case path[0] == "schemas", path[0] == "methods":
		return readLate
	case path[0] != "resources":
		return readNow
	case last%2 == 1 && path[last-1] == "methods":
		return readLate
	case last%2 == 1 || path[last] == "methods" || path[last] == "resources":
		return readNow
	}
	return skip
}

// A discoveryConverter converts a discovery document to an OpenAPI document, as ADK does
// (adk-python tools/google_api_tool/googleapi_to_openapi_converter.py). The OpenAPI nodes have the
// positions in the discovery document. Methods and schemas are converted when they are needed.
type discoveryConverter struct {
	doc  *document
	root *spec.Node
	// paths are the methods, each with its path; count is their number.
	paths []spec.Entry
	// uploads are the ids of the methods that only upload media.
	uploads []string
}

// convertDiscovery replaces a discovery document's root by an OpenAPI document's.
func convertDiscovery(d *document) spec.Diagnostics {
	c := &discoveryConverter{doc: d, root: d.root}
	c.addMethods(d.root.Get("methods"), "")
	c.addResources(d.root.Get("resources"), "", 0)
	if len(c.paths)+len(c.uploads) > maxMethods {
		return spec.Diagnostics{d.root.Errorf("openapi", "the document exceeds the limit of %d methods", maxMethods)}
	}
	d.uploads = c.uploads
	d.root = newMapping(d.root,
		newMember(d.root, "openapi", newString(d.root, "3.2.0")),
		newMember(d.root, "servers", newSequence(d.root, newMapping(d.root, newMember(d.root, "url", c.findServer())))),
		newMember(d.root, "paths", newMapping(d.root, c.paths...)),
		newMember(d.root, "components", newMapping(d.root,
			newMember(d.root, "schemas", c.listSchemas()),
			newMember(d.root, "securitySchemes", c.listSchemes()),
		)),
	)
	return nil
}

// findServer returns the service's address, at the position where the document has it.
func (c *discoveryConverter) findServer() *spec.Node {
	if at := c.root.Get("rootUrl"); isString(at) && at.Value != "" {
		path := ""
		if text := c.root.Get("servicePath"); isString(text) {
			path = strings.TrimLeft(text.Value, "/")
		}
		return newString(at, strings.TrimRight(at.Value, "/")+"/"+path)
	}
	if at := c.root.Get("baseUrl"); isString(at) {
		return newString(at, at.Value)
	}
	return newString(c.root, "")
}

// listSchemas lists the schemas, each converted when it is needed.
func (c *discoveryConverter) listSchemas() *spec.Node {
	all := newMapping(c.root)
	if at := c.root.Get("schemas"); at != nil {
		for _, e := range at.Entries {
			value := e.Value
			all.Entries = append(all.Entries, spec.Entry{Key: e.Key, Value: c.doc.convertLate(newMapping(value), func() *spec.Node {
				return convertDiscoverySchema(c.doc.expandNode(value))
			})})
		}
	}
	return all
}

// The security schemes' names are ADK's.
const (
	oauthScheme = "oauth2"
	keyScheme   = "apiKey"
)

// listSchemes returns the credentials that Google APIs accept.
func (c *discoveryConverter) listSchemes() *spec.Node {
	return newMapping(c.root,
		newMember(c.root, oauthScheme, newMapping(c.root, newMember(c.root, "type", newString(c.root, "oauth2")))),
		newMember(c.root, keyScheme, newMapping(c.root,
			newMember(c.root, "type", newString(c.root, "apiKey")),
			newMember(c.root, "in", newString(c.root, "query")),
			newMember(c.root, "name", newString(c.root, "key")),
		)),
	)
}

// addResources adds the methods in resources and in the resources below them. Documents have at
// most 100 levels in JSON.
func (c *discoveryConverter) addResources(resources *spec.Node, above string, depth int) {
	if resources == nil || depth > limit.ToolDocument.Depth || len(c.paths) > maxMethods {
		return
	}
	for _, e := range resources.Entries {
		name := e.Key.Value
		if above != "" {
			name = above + "." + name
		}
		c.addMethods(e.Value.Get("methods"), name)
		c.addResources(e.Value.Get("resources"), name, depth+1)
	}
}

// addMethods adds a resource's methods. Methods that only upload media are not operations.
func (c *discoveryConverter) addMethods(methods *spec.Node, resource string) {
	if methods == nil {
		return
	}
	for _, e := range methods.Entries {
		method := e.Value
		if method.Kind != spec.Mapping {
			continue
		}
		if len(c.paths)+len(c.uploads) > maxMethods {
			return
		}
		id := method.Get("id")
		if method.Get("mediaUpload") != nil && method.Get("request") == nil {
			if isString(id) {
				c.uploads = append(c.uploads, id.Value)
			}
			continue
		}
		members := []spec.Entry{}
		if isString(id) {
			members = append(members, newMember(id, "operationId", id))
		}
		if resource != "" {
			members = append(members, newMember(method, "tags", newSequence(method, newString(method, resource))))
		}
		verb := "get" // convertMethod reports an invalid one
		if given := method.Get("httpMethod"); isString(given) && slices.Contains(methodNames(), strings.ToLower(given.Value)) {
			verb = strings.ToLower(given.Value)
		}
		at, path := findMethodPath(method)
		stub := c.doc.convertLate(newMapping(method, members...), func() *spec.Node {
			return c.convertMethod(c.doc.expandNode(method), members)
		})
		c.paths = append(c.paths, spec.Entry{Key: newString(at, path), Value: newMapping(method, newMember(method, verb, stub))})
	}
}

// findMethodPath returns a method's path as OpenAPI writes it, and its place.
func findMethodPath(method *spec.Node) (at *spec.Node, path string) {
	for _, key := range []string{"flatPath", "path"} {
		if at := method.Get(key); isString(at) && at.Value != "" {
			return at, "/" + strings.TrimLeft(strings.ReplaceAll(at.Value, "{+", "{"), "/")
		}
	}
	return method, "/"
}

// convertMethod returns a method as an operation; members are those that select it.
func (c *discoveryConverter) convertMethod(method *spec.Node, members []spec.Entry) *spec.Node {
	op := newMapping(method, slices.Clone(members)...)
	add := func(key string, value *spec.Node) { op.Entries = append(op.Entries, newMember(value, key, value)) }
	if text := method.Get("description"); isString(text) {
		add("description", text)
	}
	if at := method.Get("httpMethod"); at != nil && (!isString(at) || !slices.Contains(methodNames(), strings.ToLower(at.Value))) {
		c.doc.reportError(at, "openapi", "unknown method %q", cutMessage(at.Value))
	}
	add("parameters", newSequence(method, c.listParameters(method)...))
	if ref := method.Get("request").Get("$ref"); isString(ref) {
		schema := newMapping(ref, newMember(ref, "$ref", newString(ref, schemaPointer(ref.Value))))
		add("requestBody", newMapping(ref,
			newMember(ref, "required", newScalar(ref, "!!bool", "true")),
			newMember(ref, "content", newMapping(ref, newMember(ref, "application/json", newMapping(ref, newMember(ref, "schema", schema))))),
		))
	}
	add("security", listSecurity(method))
	return op
}

// listSecurity returns the scopes, one of which a request requires, or an API key for public data.
func listSecurity(method *spec.Node) *spec.Node {
	key := newMapping(method, newMember(method, keyScheme, newSequence(method)))
	at := method.Get("scopes")
	scopes := newSequence(method)
	if at != nil {
		for _, item := range at.Items {
			if isString(item) {
				scopes.Items = append(scopes.Items, item)
			}
		}
	}
	if len(scopes.Items) == 0 {
		return newSequence(method, key, newMapping(method))
	}
	return newSequence(method, newMapping(at, newMember(at, oauthScheme, scopes)), key)
}

// listParameters lists a method's parameters: path parameters in path order, the others in document
// order, and those common parameters that choose the response content.
func (c *discoveryConverter) listParameters(method *spec.Node) []*spec.Node {
	at, path := findMethodPath(method)
	if at == method {
		c.doc.reportError(method, "openapi", "the method has no path")
	}
	declared := method.Get("parameters")
	placed := pathPlaceholders(path)
	var list []*spec.Node
	for i, name := range placed {
		if !placeholderName.MatchString(name) {
			c.doc.reportError(at, "openapi", "the path has the unsupported expression {%s}", cutMessage(name))
		}
		if !slices.Contains(placed[:i], name) {
			list = append(list, c.newPathParameter(method, at, name))
		}
	}
	if declared != nil {
		for _, e := range declared.Entries {
			if p := c.newQueryParameter(e.Key, e.Value); p != nil && !slices.Contains(placed, e.Key.Value) {
				list = append(list, p)
			}
		}
	}
	for _, name := range []string{"fields", "alt"} {
		shared := c.root.Get("parameters").Get(name)
		if shared == nil || declared.Get(name) != nil || slices.Contains(placed, name) || name == "alt" && !isTrue(method.Get("supportsMediaDownload")) {
			continue
		}
		if p := c.newQueryParameter(newString(shared, name), shared); p != nil {
			list = append(list, p)
		}
	}
	return list
}

// placeholderName matches simple expressions in URI templates (RFC 6570).
var placeholderName = regexp.MustCompile(`^[A-Za-z0-9_.$-]+$`)

// newPathParameter returns a placeholder's parameter. An undeclared parameter in a flat path is
// another name for a declared one, or a part of it.
func (c *discoveryConverter) newPathParameter(method, path *spec.Node, name string) *spec.Node {
	schema := newMapping(path, newMember(path, "type", newString(path, "string")))
	members := []spec.Entry{newMember(path, "name", newString(path, name)), newMember(path, "in", newString(path, "path")), newMember(path, "required", newScalar(path, "!!bool", "true"))}
	whole, isPart := findWholeParameter(method, path.Value, name)
	declared := method.Get("parameters").Get(whole)
	if text := declared.Get("description"); isPart && isString(text) {
		members = append(members, newMember(text, "description", newString(text, "Part of "+whole+": "+text.Value)))
	} else if !isPart && declared != nil && declared.Kind == spec.Mapping {
		schema = convertDiscoverySchema(declared)
	}
	if strings.Contains(path.Value, "{+"+name+"}") {
		members = append(members, newMember(path, "allowReserved", newScalar(path, "!!bool", "true")))
	}
	return newMapping(path, append(members, newMember(path, "schema", schema))...)
}

// findWholeParameter returns a placeholder's declared parameter; the placeholder may be a part of
// its value.
func findWholeParameter(method *spec.Node, path, name string) (whole string, isPart bool) {
	other := method.Get("path")
	if method.Get("parameters").Get(name) != nil || !isString(other) {
		return name, false
	}
	names := pathPlaceholders(other.Value)
	at := slices.Index(pathPlaceholders(strings.ReplaceAll(path, "{+", "{")), name)
	if at >= 0 && at < len(names) && placeholder.ReplaceAllString(path, "{}") == placeholder.ReplaceAllString(other.Value, "{}") {
		return strings.TrimPrefix(names[at], "+"), false
	}
	if len(names) == 1 && strings.HasPrefix(names[0], "+") {
		return names[0][1:], true
	}
	return name, false
}

var placeholder = regexp.MustCompile(`\{[^}]*\}`)

// newQueryParameter returns a query parameter, or nil for another one. A path parameter that is not
// in the path is whole in another form of the path.
func (c *discoveryConverter) newQueryParameter(key, at *spec.Node) *spec.Node {
	location := at.Get("location")
	switch {
	case at.Kind != spec.Mapping:
		c.doc.reportError(at, "openapi", "the parameter %s must be an object", cutMessage(key.Value))
		return nil
	case location != nil && location.Value == "path":
		return nil
	case location != nil && location.Value != "query":
		c.doc.reportError(location, "openapi", "the location of the parameter %s must be path or query, got %q", cutMessage(key.Value), cutMessage(location.Value))
		return nil
	}
	schema := convertDiscoverySchema(at)
	if isTrue(at.Get("repeated")) {
		schema.Entries = slices.DeleteFunc(schema.Entries, func(e spec.Entry) bool { return e.Key.Value == "description" || e.Key.Value == "default" })
		schema = newMapping(at, newMember(at, "type", newString(at, "array")), newMember(at, "items", schema))
	}
	members := []spec.Entry{newMember(key, "name", newString(key, key.Value)), newMember(key, "in", newString(key, "query"))}
	if isTrue(at.Get("required")) {
		members = append(members, newMember(at, "required", at.Get("required")))
	}
	if text := at.Get("description"); isString(text) {
		members = append(members, newMember(text, "description", text))
	}
	return newMapping(at, append(members, newMember(at, "schema", schema))...)
}

// convertDiscoverySchema returns a schema as OpenAPI writes it: references are pointers, numbers
// and booleans are not strings, and an object lists the properties that it requires.
func convertDiscoverySchema(n *spec.Node) *spec.Node {
	if n == nil || n.Kind != spec.Mapping {
		return newMapping(n)
	}
	schema := newMapping(n)
	for _, e := range n.Entries {
		if value := convertSchemaMember(n, e); value != nil {
			schema.Entries = append(schema.Entries, spec.Entry{Key: e.Key, Value: value})
		}
	}
	required := newSequence(n)
	if properties := n.Get("properties"); properties != nil {
		for _, e := range properties.Entries {
			if isTrue(e.Value.Get("required")) {
				required.Items = append(required.Items, newString(e.Key, e.Key.Value))
			}
		}
	}
	if len(required.Items) > 0 {
		schema.Entries = append(schema.Entries, newMember(n, "required", required))
	}
	return schema
}

// convertSchemaMember returns a member's value, or nil for one that OpenAPI does not have.
func convertSchemaMember(schema *spec.Node, e spec.Entry) *spec.Node {
	switch n := e.Value; e.Key.Value {
	case "$ref":
		if isString(n) {
			return newString(n, schemaPointer(n.Value))
		}
	case "type":
		if isString(n) && n.Value != "any" {
			return n
		}
	case "description", "format", "pattern", "enum", "readOnly", "deprecated":
		return n
	case "default", "minimum", "maximum":
		return convertLiteral(schema, n, e.Key.Value)
	case "items", "additionalProperties":
		return convertDiscoverySchema(n)
	case "properties":
		all := newMapping(n)
		for _, p := range n.Entries {
			all.Entries = append(all.Entries, spec.Entry{Key: p.Key, Value: convertDiscoverySchema(p.Value)})
		}
		return all
	}
	return nil
}

// convertLiteral returns a value that a discovery document has as a string, in its schema's type,
// or nil if it does not fit.
func convertLiteral(schema, n *spec.Node, key string) *spec.Node {
	if n.Kind != spec.Scalar {
		return nil
	}
	kind := ""
	if at := schema.Get("type"); isString(at) {
		kind = at.Value
	}
	switch {
	case kind == "string" && key == "default":
		return newString(n, n.Value)
	case kind == "boolean" && (n.Value == "true" || n.Value == "false"):
		return newScalar(n, "!!bool", n.Value)
	case (kind == "integer" || kind == "number") && wholeNumber.MatchString(n.Value):
		return newScalar(n, "!!int", n.Value)
	case kind == "number" && decimalNumber.MatchString(n.Value):
		return newScalar(n, "!!float", n.Value)
	}
	return nil
}

var (
	wholeNumber   = regexp.MustCompile(`^-?(?:0|[1-9][0-9]{0,30})$`)
	decimalNumber = regexp.MustCompile(`^-?(?:0|[1-9][0-9]{0,30})\.[0-9]{1,30}$`)
)

// schemaPointer returns the reference to a schema by its name, which may begin with #.
func schemaPointer(name string) string {
	return "#/components/schemas/" + strings.NewReplacer("%", "%25", "~", "~0", "/", "~1").Replace(strings.TrimPrefix(name, "#"))
}

// convertLate marks a node whose members a function returns when they are needed.
func (d *document) convertLate(n *spec.Node, convert func() *spec.Node) *spec.Node {
	d.late[n] = lateValue{convert: convert}
	return n
}

// newScalar and the functions after it return nodes at another node's position.
func newScalar(at *spec.Node, tag, value string) *spec.Node {
	n := newMapping(at)
	n.Kind, n.Tag, n.Value = spec.Scalar, tag, value
	return n
}

func newString(at *spec.Node, value string) *spec.Node { return newScalar(at, "!!str", value) }

func newSequence(at *spec.Node, items ...*spec.Node) *spec.Node {
	n := newMapping(at)
	n.Kind, n.Tag, n.Items = spec.Sequence, "!!seq", items
	return n
}

func newMapping(at *spec.Node, members ...spec.Entry) *spec.Node {
	n := &spec.Node{Kind: spec.Mapping, Tag: "!!map", Entries: members}
	if at != nil {
		n.Pos = at.Pos
	}
	return n
}

func newMember(at *spec.Node, key string, value *spec.Node) spec.Entry {
	return spec.Entry{Key: newString(at, key), Value: value}
}
