package openapitool

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"agenthost/pkg/spec"
)

// reduceDocument returns the document part that the operations use, as JSON: reading it gives the
// same tools.
func reduceDocument(d *document, ops []*operation) []byte {
	w := &reducer{doc: d}
	w.openObject()
	w.writeKey(reducedMark)
	w.writeScalar(true)
	for _, key := range []string{"openapi", "servers", "security"} {
		if n := d.root.Get(key); n != nil {
			w.writeKey(key)
			w.writeNode(n, nil)
		}
	}
	w.writeKey("paths")
	w.openObject()
	for i := 0; i < len(ops); {
		i = w.writePath(ops, i)
	}
	w.closeObject()
	w.writeComponents()
	w.closeObject()
	return w.out.Bytes()
}

// A reducer writes JSON.
type reducer struct {
	doc *document
	out bytes.Buffer
	// hasMember is set if the current object has a member.
	hasMember bool
}

func (w *reducer) openObject() {
	w.out.WriteByte('{')
	w.hasMember = false
}

func (w *reducer) closeObject() {
	w.out.WriteByte('}')
	w.hasMember = true
}

func (w *reducer) writeKey(key string) {
	if w.hasMember {
		w.out.WriteString(",\n")
	}
	w.hasMember = true
	w.writeScalar(key)
	w.out.WriteByte(':')
}

// writeScalar writes a value with a JSON type.
func (w *reducer) writeScalar(v any) {
	raw, err := json.Marshal(v)
	if err != nil { // no document type fails
		raw = []byte("null")
	}
	w.out.Write(raw)
}

// writePath writes an operation's path with the next operations that have the same path and other
// methods, and returns the index of the operation after them.
func (w *reducer) writePath(ops []*operation, i int) int {
	first := ops[i]
	w.writeKey(first.path)
	w.openObject()
	for _, key := range []string{"parameters", "servers"} {
		if n := first.item.Get(key); n != nil {
			w.writeKey(key)
			w.writeNode(n, nil)
		}
	}
	written := map[string]bool{}
	for ; i < len(ops) && ops[i].path == first.path && !written[ops[i].method]; i++ {
		written[ops[i].method] = true
		w.writeKey(strings.ToLower(ops[i].method))
		w.writeNode(w.doc.expandNode(ops[i].at), isUnusedMember)
	}
	w.closeObject()
	return i
}

// writeComponents writes the components that were found.
func (w *reducer) writeComponents() {
	groups := map[string]map[string]*spec.Node{}
	for pointer, n := range w.doc.used {
		segments := strings.SplitN(pointer, "/", 4)
		if len(segments) != 4 || segments[1] != "components" {
			continue
		}
		if groups[segments[2]] == nil {
			groups[segments[2]] = map[string]*spec.Node{}
		}
		groups[segments[2]][strings.NewReplacer("~1", "/", "~0", "~").Replace(segments[3])] = n
	}
	if len(groups) == 0 {
		return
	}
	w.writeKey("components")
	w.openObject()
	for _, group := range slices.Sorted(maps.Keys(groups)) {
		w.writeKey(group)
		w.openObject()
		for _, name := range slices.Sorted(maps.Keys(groups[group])) {
			w.writeKey(name)
			w.writeNode(groups[group][name], nil)
		}
		w.closeObject()
	}
	w.closeObject()
}

// writeNode writes a tree without the members that omit selects on its first level.
func (w *reducer) writeNode(n *spec.Node, omit func(key string) bool) {
	switch n.Kind {
	case spec.Mapping:
		w.openObject()
		for _, e := range n.Entries {
			if omit == nil || !omit(e.Key.Value) {
				w.writeKey(e.Key.Value)
				w.writeNode(e.Value, nil)
			}
		}
		w.closeObject()
	case spec.Sequence:
		w.out.WriteByte('[')
		for i, item := range n.Items {
			if i > 0 {
				w.out.WriteByte(',')
			}
			w.writeNode(item, nil)
		}
		w.out.WriteByte(']')
		w.hasMember = true
	default:
		if n.Tag == "!!str" {
			w.writeScalar(n.Value)
			return
		}
		w.writeScalar(n.Any())
	}
}
