package openapitool

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"agenthost/internal/toolhttp"
	"agenthost/pkg/spec"
	"agenthost/pkg/tool"
)

// An api is a document's chosen operations.
type api struct {
	operations []*operation
	addresses  []spec.Text
	reduced    []byte
}

// Addresses returns the service's addresses.
func (a *api) Addresses() []spec.Text { return a.addresses }

// Reduced returns the document with the chosen operations only.
func (a *api) Reduced() []byte { return a.reduced }

// How many tools a document may have: a model can hardly choose from more than warnOperations, and
// OpenAI accepts 128.
const (
	warnOperations = 20
	maxOperations  = 128
)

// readAPI reads a document's chosen operations. It returns nil if there are errors.
func (t *toolset) readAPI(file string, content []byte) (tool.Document, spec.Diagnostics) {
	doc, ds := readDocument(file, content)
	if doc == nil {
		return nil, ds
	}
	found, more := t.readDocumentAPI(doc, ds)
	doc.lines.addSources(more)
	return found, more
}

// readDocumentAPI is readAPI for a document with warnings.
func (t *toolset) readDocumentAPI(doc *document, ds spec.Diagnostics) (tool.Document, spec.Diagnostics) {
	if isDiscovery(doc.root) {
		ds = append(ds, t.checkDiscovery(doc.root)...)
		if ds = append(ds, convertDiscovery(doc)...); ds.HasErrors() {
			return nil, ds
		}
	}
	if d, ok := checkVersion(doc); !ok {
		return nil, append(ds, d)
	}
	all := listOperations(doc)
	clear(doc.used)                                         // a reduced document has the operations themselves, and not what refers to them
	if external := doc.checkExternal(); len(external) > 0 { // other problems would follow from them
		return nil, append(ds, external...)
	}
	ops, more := t.selectOperations(doc, all)
	if ds = append(ds, more...); ds.HasErrors() {
		return nil, ds
	}
	r := &operationReader{doc: doc, preserve: t.preserve}
	for _, op := range ops {
		t.applyParams(op, r)
	}
	ds = append(ds, t.nameOperations(ops)...)
	ds = append(ds, t.checkSettings(ops)...)
	a := &api{operations: ops}
	ds = append(ds, t.findAddresses(doc, a)...)
	ds = append(ds, doc.ds...)
	ds = append(ds, doc.checkExternal()...)
	ds = append(ds, t.chooseCredentials(ops)...)
	if ds.HasErrors() {
		return nil, ds
	}
	a.reduced = reduceDocument(doc, ops)
	for _, op := range ops { // the nodes are not needed any more
		op.at, op.item, op.pathKey = nil, nil, nil
	}
	return a, ds
}

// checkVersion reports documents in other formats.
func checkVersion(d *document) (spec.Diagnostic, bool) {
	if d.root.Kind != spec.Mapping {
		return d.root.Errorf("openapi", "the document must be a mapping with openapi and paths"), false
	}
	if old := d.root.Get("swagger"); old != nil {
		return old.Errorf("openapi", "the document is OpenAPI %s, which is not supported", cutMessage(old.Value)).
			WithHint("convert it to OpenAPI 3, for example with npx swagger2openapi"), false
	}
	version := d.root.Get("openapi")
	if version == nil || version.Kind != spec.Scalar {
		return d.root.Errorf("openapi", "the document has no field openapi: it is not an OpenAPI document"), false
	}
	if !strings.HasPrefix(version.Value, "3.") {
		return version.Errorf("openapi", "OpenAPI %s is not supported, only 3.0, 3.1 and 3.2", cutMessage(version.Value)), false
	}
	return spec.Diagnostic{}, true
}

// selectOperations returns the chosen operations in the document's order.
func (t *toolset) selectOperations(doc *document, all []*operation) ([]*operation, spec.Diagnostics) {
	ds := unknownSelectors(t.operations, all, doc.uploads)
	if !isTrue(doc.root.Get(reducedMark)) {
		ds = append(ds, unknownSelectors(t.except, all, nil)...)
	}
	ds = append(ds, unknownNames(t.filter, all, doc.uploads)...)
	var ops []*operation
	for _, op := range all {
		if isSelected(t.operations, op, true) && !isSelected(t.except, op, false) && t.passesFilter(op) {
			ops = append(ops, op)
		}
	}
	switch {
	case ds.HasErrors():
	case len(all) == 0:
		ds = append(ds, doc.root.Errorf("openapi", "the document has no operations"))
	case len(ops) == 0:
		ds = append(ds, t.at.Errorf(0, "openapi-operation", "no operation is left: except leaves out all operations"))
	case len(ops) > maxOperations:
		ds = append(ds, t.at.Errorf(0, "openapi-size", "%d operations exceed the limit of %d tools", len(ops), maxOperations).
			WithHint("choose the operations that the agent needs with operations, such as operations: [%s]", ops[0].displayName()))
	case len(ops) > warnOperations:
		ds = append(ds, t.at.Warnf(0, "openapi-size", "%d operations become tools: models choose worse among more than %d", len(ops), warnOperations).
			WithHint("choose the operations that the agent needs with operations"))
	}
	return ops, ds
}

func isSelected(selectors []selector, op *operation, whenEmpty bool) bool {
	if len(selectors) == 0 {
		return whenEmpty
	}
	return slices.ContainsFunc(selectors, func(s selector) bool { return s.matchesOperation(op) })
}

// passesFilter compares the name before the prefix, as ADK does.
func (t *toolset) passesFilter(op *operation) bool {
	return len(t.filter) == 0 || slices.ContainsFunc(t.filter, func(name spec.Text) bool { return name.Value == op.baseName() })
}

// unknownSelectors reports selectors that select nothing; uploads are methods that are not
// operations, because they only upload media.
func unknownSelectors(selectors []selector, all []*operation, uploads []string) spec.Diagnostics {
	var ds spec.Diagnostics
	for _, s := range selectors {
		if slices.ContainsFunc(all, s.matchesOperation) {
			continue
		}
		switch {
		case isUpload(uploads, s.id):
			ds = append(ds, s.at.Errorf("openapi-operation", "operation %q only uploads media, which is not supported", s.id))
		case s.id != "":
			ds = append(ds, suggestName(s.at.Errorf("openapi-operation", "unknown operation %q", s.id), s.id, operationIDs(all)))
		case s.path != "":
			key := s.method + " " + s.path
			ds = append(ds, suggestName(s.at.Errorf("openapi-operation", "unknown operation %q", key), key, operationKeys(all)))
		case s.tag != "":
			ds = append(ds, suggestName(s.at.Errorf("openapi-operation", "no operation has the tag %q", s.tag), s.tag, operationTags(all)))
		default:
			ds = append(ds, s.at.Errorf("openapi-operation", "no operation has the method %s", s.method))
		}
	}
	return ds
}

func isUpload(uploads []string, name string) bool {
	return slices.ContainsFunc(uploads, func(id string) bool { return name != "" && (id == name || operationName(id) == name) })
}

func unknownNames(names []spec.Text, all []*operation, uploads []string) spec.Diagnostics {
	var ds spec.Diagnostics
	for _, name := range names {
		if isUpload(uploads, name.Value) {
			ds = append(ds, name.Errorf(0, "openapi-operation", "operation %q only uploads media, which is not supported", name.Value))
		} else if !slices.ContainsFunc(all, func(op *operation) bool { return op.baseName() == name.Value }) {
			ds = append(ds, suggestName(name.Errorf(0, "openapi-operation", "unknown operation %q", name.Value), name.Value, baseNames(all)))
		}
	}
	return ds
}

// suggestName adds the most similar name, or the names if there are few.
func suggestName(d spec.Diagnostic, name string, names []string) spec.Diagnostic {
	slices.Sort(names)
	names = slices.Compact(names)
	candidates := names
	for prefix := 1; len(candidates) > maxSuggestions && prefix <= min(4, len(name)); prefix++ {
		candidates = slices.DeleteFunc(slices.Clone(candidates), func(other string) bool {
			return len(other) < prefix || !strings.EqualFold(other[:prefix], name[:prefix])
		})
	}
	if near := spec.Suggest(name, candidates); near != "" {
		return d.WithNearName(name, near)
	}
	if len(names) <= warnOperations {
		return d.WithHint("the document has: %s", strings.Join(names, ", "))
	}
	return d
}

// maxSuggestions is how many names [spec.Suggest] compares.
const maxSuggestions = 500

func operationIDs(all []*operation) []string {
	var names []string
	for _, op := range all {
		if op.id != "" {
			names = append(names, op.id)
		}
	}
	return names
}

func operationKeys(all []*operation) []string {
	names := make([]string, len(all))
	for i, op := range all {
		names[i] = op.method + " " + op.path
	}
	return names
}

func operationTags(all []*operation) []string {
	var names []string
	for _, op := range all {
		names = append(names, op.tags...)
	}
	return names
}

func baseNames(all []*operation) []string {
	names := make([]string, len(all))
	for i, op := range all {
		names[i] = op.baseName()
	}
	return names
}

// applyParams reads an operation, and fixes the parameters that the settings set.
func (t *toolset) applyParams(op *operation, r *operationReader) {
	r.readOperation(op)
	fixed, _ := findSetting(t.params, op)
	for _, name := range slices.Sorted(maps.Keys(fixed)) {
		at := fixed[name]
		i := slices.IndexFunc(op.params, func(p *parameter) bool { return p.name == name || p.original == name })
		if i < 0 {
			var names []string
			for _, p := range op.params {
				names = append(names, p.name)
			}
			r.doc.ds = append(r.doc.ds, suggestName(at.Errorf("openapi-operation", "operation %s has no parameter %q", op.displayName(), name), name, names))
			continue
		}
		op.params[i].fixed, op.params[i].hasFixed = at.Any(), true
	}
	if len(fixed) > 0 {
		op.schema = r.declareParameters(op)
	}
}

// nameOperations names the tools. A name that is too long is cut, and of equal names all but the
// first get their operation's hash.
func (t *toolset) nameOperations(ops []*operation) spec.Diagnostics {
	var ds spec.Diagnostics
	taken := map[string]*operation{}
	for _, op := range ops {
		name, own := op.baseName(), false
		given, ok := findSetting(t.names, op)
		if ok {
			name, own = given.Value, true
		}
		if t.prefix != "" && !own {
			name = t.prefix + "_" + name
		}
		if name == "" || name[0] >= '0' && name[0] <= '9' {
			name = "_" + name
		}
		full := name
		if len(name) > maxToolName && !own {
			name = name[:maxToolName]
		}
		if other := taken[name]; other != nil && own {
			ds = append(ds, given.Errorf(0, "openapi-name", "tools of %s and %s have the same name %s", other.displayName(), op.displayName(), name))
		} else if other != nil {
			name = nameWithHash(full, op.method+" "+op.path)
			ds = append(ds, op.at.Warnf("openapi-name", "the tools of %s and %s have the same name: the second is named %s", other.displayName(), op.displayName(), name).
				WithHint("name it with names: {%s: NAME}", op.displayName()))
		} else if name != full {
			ds = append(ds, op.at.Warnf("openapi-name", "the tool name is cut to %s: it exceeds the limit of %d characters", name, maxToolName).
				WithHint("name it with names: {%s: NAME}", op.displayName()))
		}
		taken[name] = op
		op.name = name
	}
	return ds
}

// checkSettings reports settings for operations that are not chosen.
func (t *toolset) checkSettings(ops []*operation) spec.Diagnostics {
	known := map[string]bool{}
	for _, op := range ops {
		known[op.id], known[op.baseName()], known[op.method+" "+op.path] = true, true, true
	}
	var ds spec.Diagnostics
	report := func(key, setting string, at spec.Diagnostic) {
		if !known[key] {
			at.Message = fmt.Sprintf("unknown operation %q in %s: it is none of the chosen operations", key, setting)
			ds = append(ds, suggestName(at, key, append(operationIDs(ops), baseNames(ops)...)))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(t.names)) {
		report(key, "names", t.names[key].Errorf(0, "openapi-operation", ""))
	}
	for _, key := range slices.Sorted(maps.Keys(t.result)) {
		report(key, "result", t.result[key].Errorf(0, "openapi-operation", ""))
	}
	for _, key := range slices.Sorted(maps.Keys(t.artifacts)) {
		report(key, "artifacts", t.artifacts[key].Errorf(0, "openapi-operation", ""))
	}
	for _, key := range slices.Sorted(maps.Keys(t.params)) {
		at := t.at.Errorf(0, "openapi-operation", "")
		for _, name := range slices.Sorted(maps.Keys(t.params[key])) {
			at = t.params[key][name].Errorf("openapi-operation", "")
			break
		}
		report(key, "params", at)
	}
	return ds
}

// findAddresses finds each operation's address, and the addresses that the document names.
func (t *toolset) findAddresses(doc *document, a *api) spec.Diagnostics {
	var ds spec.Diagnostics
	seen := map[string]bool{}
	for _, op := range a.operations {
		if t.baseURL.Value != "" { // an address in the settings, not in the document
			op.server = spec.Text{Value: strings.TrimRight(t.baseURL.Value, "/")}
			continue
		}
		op.server = findServer(doc, op, t.source)
		if seen[op.server.Value] {
			continue
		}
		seen[op.server.Value] = true
		if doc.reported[op.server.Pos] {
			continue
		}
		if toolhttp.ConstantHost(op.server.Value) == "" || strings.ContainsAny(op.server.Value, "{}?#") {
			problem := fmt.Sprintf("the server %q is not a URL with a host", cutMessage(op.server.Value))
			if op.server.Value == "" {
				problem = "the document has no server URL"
			}
			ds = append(ds, op.server.Errorf(0, "openapi-server", "%s", problem).
				WithHint("set base_url to the service's address, such as https://api.example.com/v1"))
			continue
		}
		if t.google != nil && !isGoogleAddress(op.server.Value) {
			ds = append(ds, op.server.Errorf(0, "openapi-server", "the server of %s must be https://….googleapis.com, got %q", t.google.kind, cutMessage(op.server.Value)))
			continue
		}
		a.addresses = append(a.addresses, op.server)
	}
	return ds
}

// checkDiscovery reports another API's document.
func (t *toolset) checkDiscovery(root *spec.Node) spec.Diagnostics {
	if t.google == nil {
		return nil
	}
	var ds spec.Diagnostics
	for _, one := range []struct{ key, want string }{{"name", t.google.name}, {"version", t.google.version}} {
		if at := root.Get(one.key); isString(at) && at.Value != one.want {
			ds = append(ds, at.Errorf("openapi", "the document describes another API: its %s must be %s, got %q", one.key, one.want, cutMessage(at.Value)))
		}
	}
	return ds
}

// isGoogleAddress reports whether an address belongs to a Google API, so that it may get Google
// tokens.
func isGoogleAddress(address string) bool {
	u, err := url.Parse(address)
	return err == nil && u.Scheme == "https" && u.User == nil && u.Port() == "" && strings.HasSuffix(strings.ToLower(u.Hostname()), ".googleapis.com")
}
