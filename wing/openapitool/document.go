package openapitool

import (
	"bytes"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"

	"agenthost/internal/limit"
	"agenthost/pkg/spec"
)

// The limits for documents. A JSON document may be large: only the chosen operations and what they
// refer to are read.
const (
	// maxYAMLBytes and maxYAMLNodes limit a YAML document, because it is read wholly.
	maxYAMLBytes = 4 << 20
	maxYAMLNodes = 300_000
)

// A document is an OpenAPI document, or a discovery document that is converted to one, whose nodes
// are read when they are needed. It is not safe for concurrent use.
type document struct {
	file string
	root *spec.Node
	// src is the source in JSON; late are the nodes that are not yet read, and expanded
	// those that were.
	src      []byte
	lines    *lineIndex
	late     map[*spec.Node]lateValue
	expanded map[*spec.Node]*spec.Node
	// used are the components that were found, by their pointers such as
	// /components/schemas/Pet.
	used map[string]*spec.Node
	// members are large mappings' members by their keys.
	members map[*spec.Node]map[string]*spec.Node
	ds      spec.Diagnostics
	// reported are the nodes with a problem that was reported.
	reported map[spec.Pos]bool
	// external are the references to other documents.
	external []*spec.Node
	// uploads are the ids of a discovery document's methods that only upload media.
	uploads []string
}

// readDocument reads a document's outline. It returns nil if there are errors.
func readDocument(file string, content []byte) (*document, spec.Diagnostics) {
	content = bytes.TrimPrefix(content, []byte("\uFEFF"))
	if trimmed := bytes.TrimLeft(content, " \t\r\n"); len(trimmed) == 0 || trimmed[0] != '{' {
		root, ds := spec.ParseWithin(file, content, maxYAMLBytes, maxYAMLNodes)
		if ds.HasErrors() {
			return nil, ds
		}
		d := newDocument(file, root)
		d.lines = newLineIndex(file, content)
		return d, ds
	}
	lines := newLineIndex(file, content)
	if len(content) > limit.ToolDocument.Bytes {
		return nil, spec.Diagnostics{lines.newDiagnostic(&jsonError{message: "the document exceeds the limit of " + strconv.Itoa(limit.ToolDocument.Bytes>>20) + " MiB"})}
	}
	if !utf8.Valid(content) {
		return nil, spec.Diagnostics{lines.newDiagnostic(&jsonError{message: "the document is not valid UTF-8"})}
	}
	d, err := (*document)(nil), error(nil)
	mayBeDiscovery := bytes.Contains(content, []byte(discoveryKind))
	if mayBeDiscovery {
		d, err = readOutline(file, content, lines, discoveryMode)
	}
	if !mayBeDiscovery || err == nil && !isDiscovery(d.root) {
		d, err = readOutline(file, content, lines, outlineMode)
	}
	if err != nil {
		return nil, spec.Diagnostics{lines.newDiagnostic(err)}
	}
	return d, nil
}

// readOutline reads a document in JSON without the values that the mode reads late.
func readOutline(file string, content []byte, lines *lineIndex, mode func(path []string) readMode) (*document, error) {
	s := &jsonScanner{src: content, lines: lines, modeOf: mode, late: map[*spec.Node]lateValue{}}
	root, err := s.readValue(1)
	if err != nil {
		return nil, err
	}
	if s.skipSpace(); s.pos < len(s.src) {
		return nil, s.newError("unexpected data after the document")
	}
	d := newDocument(file, root)
	d.src, d.lines, d.late = content, lines, s.late
	return d, nil
}

func newDocument(file string, root *spec.Node) *document {
	return &document{
		file: file, root: root, late: map[*spec.Node]lateValue{}, expanded: map[*spec.Node]*spec.Node{},
		used: map[string]*spec.Node{}, members: map[*spec.Node]map[string]*spec.Node{}, reported: map[spec.Pos]bool{},
	}
}

func (x *lineIndex) newDiagnostic(err error) spec.Diagnostic {
	offset := 0
	if at := (*jsonError)(nil); errors.As(err, &at) {
		offset = at.offset
	}
	ds := spec.Diagnostics{{Pos: x.positionOf(min(offset, len(x.src))), Rule: "openapi", Message: err.Error()}}
	x.addSources(ds)
	return ds[0]
}

// expandNode returns a node with all its members.
func (d *document) expandNode(n *spec.Node) *spec.Node {
	late, ok := d.late[n]
	if !ok {
		return n
	}
	if read, ok := d.expanded[n]; ok {
		return read
	}
	if late.convert != nil {
		read := late.convert()
		d.expanded[n] = read
		return read
	}
	s := &jsonScanner{src: d.src, pos: late.start, lines: d.lines, modeOf: late.modeOf}
	read, err := s.readValue(1)
	if err != nil {
		d.ds = append(d.ds, d.lines.newDiagnostic(err))
		read = n
	}
	d.expanded[n] = read
	return read
}

// reportError reports a node's problem once.
func (d *document) reportError(n *spec.Node, rule, format string, args ...any) {
	if !d.reported[n.Pos] {
		d.reported[n.Pos] = true
		d.ds = append(d.ds, n.Errorf(rule, format, args...))
	}
}

// maxRefs limits the references that lead to other references.
const maxRefs = 16

// followRefs returns the node that a node refers to, or the node itself, or reports an invalid
// reference and returns nil. The pointer is empty for the node itself.
func (d *document) followRefs(n *spec.Node) (target *spec.Node, pointer string) {
	target = d.expandNode(n)
	for range maxRefs {
		ref := target.Get("$ref")
		if target == nil || target.Kind != spec.Mapping || ref == nil || ref.Kind != spec.Scalar {
			return target, pointer
		}
		if pointer, target = ref.Value, d.findRef(ref); target == nil {
			return nil, pointer
		}
	}
	d.reportError(n, "openapi", "the reference leads to itself")
	return nil, pointer
}

// findRef returns the node at a reference, or reports the reference and returns nil.
func (d *document) findRef(ref *spec.Node) *spec.Node {
	fragment, local := strings.CutPrefix(ref.Value, "#")
	if !local || fragment != "" && fragment[0] != '/' {
		if !d.reported[ref.Pos] {
			d.reported[ref.Pos] = true
			d.external = append(d.external, ref)
		}
		return nil
	}
	if text, err := url.PathUnescape(fragment); err == nil {
		fragment = text
	}
	found := d.findPointer(fragment)
	if found == nil {
		d.reportError(ref, "openapi", "reference %q not found", cutMessage(ref.Value))
	}
	return found
}

// checkExternal reports the references to other documents, in one problem.
func (d *document) checkExternal() spec.Diagnostics {
	if len(d.external) == 0 {
		return nil
	}
	first, more := d.external[0], ""
	if n := len(d.external) - 1; n > 0 {
		more = fmt.Sprintf(" and %d others", n)
	}
	return spec.Diagnostics{first.Errorf("openapi", "references must stay within the document, got %q%s", cutMessage(first.Value), more).
		WithHint("copy what it refers to into the document, for example with a bundler such as redocly bundle")}
}

// findPointer returns the node at a JSON pointer, or nil.
func (d *document) findPointer(pointer string) *spec.Node {
	n := d.root
	segments := strings.Split(pointer, "/")[1:]
	for i, segment := range segments {
		key := strings.NewReplacer("~1", "/", "~0", "~").Replace(segment)
		next := d.findMember(n, key)
		if n.Kind == spec.Sequence {
			if at, err := strconv.Atoi(key); err == nil && at >= 0 && at < len(n.Items) {
				next = n.Items[at]
			}
		}
		if next == nil {
			return nil
		}
		n = d.expandNode(next)
		if i == 2 {
			d.used["/"+strings.Join(segments[:3], "/")] = n
		}
	}
	return n
}

// indexedMembers is how many members a mapping with an index has at least: a document can have as
// many references as components.
const indexedMembers = 64

// findMember returns a key's value, or nil.
func (d *document) findMember(n *spec.Node, key string) *spec.Node {
	if len(n.Entries) < indexedMembers {
		return n.Get(key)
	}
	index := d.members[n]
	if index == nil {
		index = make(map[string]*spec.Node, len(n.Entries))
		for _, e := range n.Entries {
			if _, ok := index[e.Key.Value]; !ok { // the first counts, as for Get
				index[e.Key.Value] = e.Value
			}
		}
		d.members[n] = index
	}
	return index[key]
}
