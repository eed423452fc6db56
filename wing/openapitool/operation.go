package openapitool

import (
	"mime"
	"slices"
	"strings"

	"agenthost/pkg/spec"
)

// An operation is one method on one path.
type operation struct {
	id     string
	method string
	path   string
	tags   []string
	// at is the operation in the document; item is its path.
	at, item *spec.Node
	pathKey  *spec.Node
	// name is its tool's name.
	name        string
	description string
	params      []*parameter
	body        *bodyFormat
	// schema is the arguments' schema.
	schema map[string]any
	// server is the service's address
	server    spec.Text
	schemes   []*securityScheme
	needsNone bool
	// scopes are OAuth 2 scopes, one of which a call requires.
	scopes []string
	// declaresSecurity is set if the operation or the document has security.
	declaresSecurity bool
	// connected is set if its requests have the connection's credential.
	connected bool
}

// A parameter is an operation's argument and its place in the request.
type parameter struct {
	// name is declared to the model, original is the request's.
	name, original string
	// in is path, query, header, cookie or body. A whole body's original name is "".
	in       string
	required bool
	schema   map[string]any
	// style is how the value becomes text. A form field has one only if the document sets it.
	style    style
	hasStyle bool
	// contentType is a form field's media type, or "".
	contentType string
	// asJSON is set for a parameter with a media type, and keepsSlashes for one in the path that
	// may have several segments.
	asJSON, keepsSlashes bool
	// fixed is the value in the config. The model is not offered it.
	fixed    any
	hasFixed bool
}

// A bodyFormat is how the arguments become a request body.
type bodyFormat struct {
	mediaType string
	// whole is set if one argument is the body.
	whole    bool
	required bool
	// takesMore is set if the body may have members that the document does not name; hidden
	// are those that a request does not have.
	takesMore bool
	hidden    map[string]bool
	// fields are the form fields with an encoding, by name.
	fields map[string]*parameter
}

// displayName names the operation in messages.
func (o *operation) displayName() string {
	if o.id != "" {
		return cutMessage(o.id)
	}
	return o.method + " " + cutMessage(o.path)
}

// listOperations lists a document's operations in its order.
func listOperations(d *document) []*operation {
	var ops []*operation
	paths := d.root.Get("paths")
	if paths == nil {
		return nil
	}
	for _, e := range paths.Entries {
		if !strings.HasPrefix(e.Key.Value, "/") {
			continue // an extension
		}
		item := e.Value
		if item.Get("$ref") != nil {
			if item, _ = d.followRefs(item); item == nil {
				continue
			}
		}
		for _, method := range methodNames() {
			at := item.Get(method)
			if at != nil && at.Get("$ref") != nil {
				at, _ = d.followRefs(at)
			}
			if at != nil && at.Kind == spec.Mapping {
				ops = append(ops, newOperation(e.Key, item, at, method))
			}
		}
	}
	return ops
}

func newOperation(path, item, at *spec.Node, method string) *operation {
	op := &operation{method: strings.ToUpper(method), path: path.Value, at: at, item: item, pathKey: path}
	if id := at.Get("operationId"); isString(id) {
		op.id = id.Value
	}
	if tags := at.Get("tags"); tags != nil {
		for _, tag := range tags.Items {
			op.tags = append(op.tags, tag.Value)
		}
	}
	return op
}

// baseName returns the tool's name before the prefix.
func (o *operation) baseName() string {
	if o.id != "" {
		return operationName(o.id)
	}
	return operationName(o.path + "_" + strings.ToLower(o.method))
}

// maxAddress limits a server URL and a path, in characters, and maxParameters one operation's
// parameters.
const (
	maxAddress    = 2000
	maxParameters = 1000
)

// maxDescription limits a tool's description in bytes.
const maxDescription = 4000

// An operationReader reads a document's operations.
type operationReader struct {
	doc      *document
	preserve bool
	schemas  *schemaConverter
	taken    map[string]bool
}

// readOperation reads an operation's parameters, body and security.
func (r *operationReader) readOperation(op *operation) {
	full := r.doc.expandNode(op.at)
	op.at = full
	for _, key := range []string{"description", "summary"} {
		if text := full.Get(key); isString(text) && op.description == "" {
			op.description = cutText(strings.TrimSpace(text.Value), maxDescription)
		}
	}
	if len(op.path) > maxAddress {
		r.doc.reportError(op.pathKey, "openapi", "the path of operation %s exceeds the limit of %d characters", op.displayName(), maxAddress)
		return
	}
	r.schemas, r.taken = newSchemaConverter(r.doc), map[string]bool{}
	r.readParameters(op, full)
	r.readBody(op, full.Get("requestBody"))
	r.checkPath(op)
	op.schema = r.declareParameters(op)
	r.readSecurity(op, full)
}

// readParameters reads the parameters of an operation and then those of its path. The operation's
// own parameters take precedence.
func (r *operationReader) readParameters(op *operation, full *spec.Node) {
	type key struct{ name, in string }
	seen := map[key]bool{}
	for _, list := range []*spec.Node{full.Get("parameters"), op.item.Get("parameters")} {
		if list == nil {
			continue
		}
		for _, item := range list.Items {
			if len(op.params) >= maxParameters {
				r.doc.reportError(list, "openapi-size", "operation %s has more than %d parameters", op.displayName(), maxParameters)
				return
			}
			n, _ := r.doc.followRefs(item)
			if n == nil {
				continue
			}
			name, in := n.Get("name"), n.Get("in")
			if !isString(name) || !isString(in) || !slices.Contains([]string{"path", "query", "header", "cookie"}, in.Value) {
				r.doc.reportError(item, "openapi", "a parameter requires name, and in: path, query, header or cookie")
				continue
			}
			if k := (key{name.Value, in.Value}); seen[k] || in.Value == "header" && isOwnHeader(name.Value) {
				continue
			} else {
				seen[k] = true
			}
			op.params = append(op.params, r.readParameter(n, name.Value, in.Value))
		}
	}
}

// isOwnHeader reports whether a header is set by the host: OpenAPI ignores parameters with the
// first three names, and the others would change the message.
func isOwnHeader(name string) bool {
	return slices.Contains([]string{
		"accept", "content-type", "authorization", "host", "content-length", "transfer-encoding", "connection", "cookie", "upgrade",
		"te", "trailer", "proxy-authorization", "expect", "idempotency-key", "traceparent",
	}, strings.ToLower(name))
}

func (r *operationReader) readParameter(n *spec.Node, name, in string) *parameter {
	p := &parameter{original: name, in: in, required: in == "path" || isTrue(n.Get("required"))}
	p.name = uniqueName(parameterName(name, in, r.preserve), r.taken)
	schema := n.Get("schema")
	if content := n.Get("content"); content != nil && len(content.Entries) > 0 {
		schema, p.asJSON = content.Entries[0].Value.Get("schema"), true
	}
	p.schema = r.schemas.convertSchema(schema)
	if text := n.Get("description"); isString(text) && p.schema["description"] == nil {
		p.schema["description"] = cutText(text.Value, maxSchemaText)
	}
	p.style = readStyle(n, in)
	// Versions before 3.2 define it only for the query.
	version := r.doc.root.Get("openapi")
	p.keepsSlashes = in == "path" && isTrue(n.Get("allowReserved")) && version != nil && strings.HasPrefix(version.Value, "3.2")
	return p
}

// readBody reads the body's first supported media type.
func (r *operationReader) readBody(op *operation, n *spec.Node) {
	if n == nil {
		return
	}
	if n, _ = r.doc.followRefs(n); n == nil {
		return
	}
	content := n.Get("content")
	if content == nil || len(content.Entries) == 0 {
		return
	}
	for _, e := range content.Entries {
		if encodingOf(e.Key.Value) == noEncoding {
			continue
		}
		op.body = &bodyFormat{mediaType: e.Key.Value, required: isTrue(n.Get("required"))}
		r.readBodySchema(op, e.Value.Get("schema"))
		if op.body != nil {
			r.readEncoding(op, e.Value.Get("encoding"))
		}
		return
	}
	d := content.Entries[0].Key.Errorf("openapi", "operation %s takes a body in %s, which is not supported", op.displayName(), cutMessage(content.Entries[0].Key.Value))
	if !isTrue(n.Get("required")) {
		d.Severity, d.Message = spec.Warning, d.Message+": it is called without a body"
	}
	r.doc.ds = append(r.doc.ds, d.WithHint("supported: application/json and +json, application/x-www-form-urlencoded, multipart/form-data, application/octet-stream, text/plain"))
}

// readBodySchema declares an object's properties as arguments, and any other body as one argument.
func (r *operationReader) readBodySchema(op *operation, n *spec.Node) {
	var schema map[string]any
	target := n
	if n != nil {
		target, _ = r.doc.followRefs(n)
		schema = r.schemas.convertSchema(n)
		if isMergePatch(op.body.mediaType) {
			acceptRemoval(schema)
		}
	}
	types := []string{}
	if target != nil {
		types = typesOf(target)
	}
	properties, _ := schema["properties"].(map[string]any)
	_, composed := firstOf(schema, "oneOf", "anyOf", "allOf")
	kind := encodingOf(op.body.mediaType)
	if slices.Contains(types, "object") && len(properties) > 0 && !composed && kind != rawEncoding {
		op.body.takesMore, op.body.hidden = schema["additionalProperties"] != false, readOnlyProperties(r.doc, target)
		r.readBodyProperties(op, target.Get("properties"), properties, schema["required"])
		return
	}
	if kind == formEncoding && !op.body.required && !composed && properties != nil && len(properties) == 0 {
		op.body = nil // a form without fields, as Stripe declares for GET
		return
	}
	op.body.whole = true
	original, name := "", "body"
	if slices.Contains(types, "array") {
		name = "array"
	}
	if schema == nil {
		schema = map[string]any{}
	}
	if kind == rawEncoding && len(schema) == 0 {
		schema = map[string]any{"type": "string"}
	}
	op.params = append(op.params, &parameter{name: uniqueName(name, r.taken), original: original, in: "body", required: op.body.required, schema: schema})
}

// readBodyProperties declares properties in the document's order. Those that the body requires are
// required if the operation requires the body.
func (r *operationReader) readBodyProperties(op *operation, order *spec.Node, properties map[string]any, required any) {
	names, _ := required.([]any)
	for _, e := range order.Entries {
		schema, ok := properties[e.Key.Value].(map[string]any)
		if _, isBool := properties[e.Key.Value].(bool); isBool {
			schema, ok = map[string]any{}, true
		}
		if !ok {
			continue // read-only
		}
		op.params = append(op.params, &parameter{
			name: uniqueName(parameterName(e.Key.Value, "body", r.preserve), r.taken), original: e.Key.Value, in: "body",
			required: op.body.required && slices.Contains(names, any(e.Key.Value)), schema: schema,
		})
	}
}

// readEncoding reads how a form's fields are written (OpenAPI 3, Encoding Object).
func (r *operationReader) readEncoding(op *operation, n *spec.Node) {
	kind := encodingOf(op.body.mediaType)
	if n == nil || kind != formEncoding && kind != multipartEncoding {
		return
	}
	op.body.fields = map[string]*parameter{}
	for _, e := range n.Entries {
		p := op.fieldOf(e.Key.Value)
		op.body.fields[e.Key.Value] = p
		p.style, p.hasStyle = readStyle(e.Value, "body"), e.Value.Get("style") != nil || e.Value.Get("explode") != nil
		if mediaType := e.Value.Get("contentType"); isString(mediaType) && !strings.ContainsAny(mediaType.Value, "*,\r\n") {
			p.contentType = mediaType.Value
		}
	}
}

// fieldOf returns the parameter that is a body field, or a new one for other fields.
func (o *operation) fieldOf(name string) *parameter {
	if p := o.body.fields[name]; p != nil {
		return p
	}
	for _, p := range o.params {
		if p.in == "body" && p.original == name {
			return p
		}
	}
	return &parameter{name: name, original: name, in: "body"}
}

// isMergePatch reports whether a body is a JSON merge patch (RFC 7396).
func isMergePatch(mediaType string) bool {
	kind, _, _ := mime.ParseMediaType(mediaType)
	return kind == "application/merge-patch+json"
}

// acceptRemoval makes a merge patch's members optional, and lets null remove them.
func acceptRemoval(schema map[string]any) {
	delete(schema, "required")
	for _, key := range []string{"allOf", "anyOf", "oneOf"} {
		branches, _ := schema[key].([]any)
		for _, branch := range branches {
			if branch, ok := branch.(map[string]any); ok {
				acceptRemoval(branch)
			}
		}
	}
	properties, _ := schema["properties"].(map[string]any)
	for name, v := range properties {
		if property, ok := v.(map[string]any); ok {
			acceptRemoval(property)
			properties[name] = acceptNull(property)
		}
	}
	if others, ok := schema["additionalProperties"].(map[string]any); ok {
		acceptRemoval(others)
		schema["additionalProperties"] = acceptNull(others)
	}
}

// checkPath reports path placeholders without a parameter.
func (r *operationReader) checkPath(op *operation) {
	if len(r.doc.external) > 0 { // a parameter may be in another document
		return
	}
	for _, name := range pathPlaceholders(op.path) {
		if !slices.ContainsFunc(op.params, func(p *parameter) bool { return p.in == "path" && p.original == name }) {
			r.doc.ds = append(r.doc.ds, op.pathKey.Errorf("openapi", "operation %s has no parameter for {%s} in its path", op.displayName(), cutMessage(name)))
		}
	}
}

// pathPlaceholders lists the names in braces.
func pathPlaceholders(path string) []string {
	var names []string
	for {
		_, rest, ok := strings.Cut(path, "{")
		if !ok {
			return names
		}
		name, after, ok := strings.Cut(rest, "}")
		if !ok {
			return names
		}
		names, path = append(names, name), after
	}
}

// declareParameters returns the arguments' schema, without fixed arguments.
func (r *operationReader) declareParameters(op *operation) map[string]any {
	properties, required := map[string]any{}, []any{}
	for _, p := range op.params {
		if p.hasFixed {
			continue
		}
		properties[p.name] = p.schema
		if p.required {
			required = append(required, p.name)
		}
	}
	schema := map[string]any{"type": "object", "properties": properties}
	if op.id != "" {
		schema["title"] = op.id + "_Arguments"
	}
	if len(required) > 0 {
		schema["required"] = required
	}
	if defs := r.schemas.buildDefinitions(); len(defs) > 0 {
		schema["$defs"] = defs
	}
	if r.schemas.isCut() {
		r.doc.ds = append(r.doc.ds, op.at.Warnf("openapi-size", "operation %s has more than %d schemas: the others accept any value", op.displayName(), maxSchemas).
			WithHint("set some of its parameters with params, or leave the operation out"))
	}
	return schema
}

// An encoding is how a body is written.
type encoding int

const (
	noEncoding encoding = iota
	jsonEncoding
	formEncoding
	multipartEncoding
	rawEncoding
)

// encodingOf returns a media type's encoding.
func encodingOf(mediaType string) encoding {
	kind, _, err := mime.ParseMediaType(mediaType)
	switch {
	case err != nil:
		return noEncoding
	case kind == "application/json", kind == "*/*", kind == "application/*", strings.HasSuffix(kind, "+json"):
		return jsonEncoding
	case kind == "application/x-www-form-urlencoded":
		return formEncoding
	case kind == "multipart/form-data":
		return multipartEncoding
	case kind == "application/octet-stream", kind == "text/plain":
		return rawEncoding
	}
	return noEncoding
}

// readSecurity reads the security schemes of an operation, in document order. An empty list asks
// for no credential, and so does an empty requirement among others.
func (r *operationReader) readSecurity(op *operation, full *spec.Node) {
	at := full.Get("security")
	if at == nil {
		at = r.doc.root.Get("security")
	}
	if at == nil || at.Kind != spec.Sequence {
		return
	}
	op.declaresSecurity, op.needsNone = true, len(at.Items) == 0
	for _, requirement := range at.Items {
		if requirement.Kind == spec.Mapping && len(requirement.Entries) == 0 {
			op.needsNone = true
		}
		for _, e := range requirement.Entries {
			if s := r.readScheme(e.Key); s != nil && !slices.ContainsFunc(op.schemes, func(o *securityScheme) bool { return o.key == s.key }) {
				op.schemes = append(op.schemes, s)
				op.addScopes(s, e.Value)
			}
		}
	}
}

// readScheme returns a scheme from the components, or reports it and returns nil.
func (r *operationReader) readScheme(key *spec.Node) *securityScheme {
	escaped := strings.NewReplacer("~", "~0", "/", "~1").Replace(key.Value)
	found := r.doc.findPointer("/components/securitySchemes/" + escaped)
	if found == nil {
		r.doc.reportError(key, "openapi-auth", "security scheme %q not found under components.securitySchemes", cutMessage(key.Value))
		return nil
	}
	if found, _ = r.doc.followRefs(found); found == nil {
		return nil
	}
	text := func(key string) string {
		if v := found.Get(key); isString(v) {
			return v.Value
		}
		return ""
	}
	return &securityScheme{key: key.Value, kind: text("type"), in: text("in"), name: text("name"), scheme: strings.ToLower(text("scheme"))}
}

// addScopes adds the scopes that an OAuth 2 requirement has.
func (o *operation) addScopes(s *securityScheme, list *spec.Node) {
	if s.kind != "oauth2" && s.kind != "openIdConnect" {
		return
	}
	for _, item := range list.Items {
		if isString(item) && !slices.Contains(o.scopes, item.Value) {
			o.scopes = append(o.scopes, item.Value)
		}
	}
}
