package loader

// A recall is what a load of an app leaves to the next one: what was made of
// documents, and of pieces of them, that have not changed. A document with the
// same content is the same node, and what only depends on a node is found by it.
// What the next load does not ask for is forgotten. A nil recall knows nothing.
// One goroutine uses it.
type recall struct{ last, now map[any]any }

// begin starts another load.
func (r *recall) begin() {
	if len(r.now) > 0 { // else the load before did not get far
		r.last = r.now
	}
	r.now = map[any]any{}
}

// recalled is what was made for a key before, or is made now. What is not lasting
// is made each time.
func recalled[K comparable, T any](r *recall, key K, make func() (made T, lasting bool)) T {
	if r == nil {
		made, _ := make()
		return made
	}
	if known, ok := r.now[key]; ok {
		return known.(T)
	}
	if known, ok := r.last[key]; ok {
		r.now[key] = known
		return known.(T)
	}
	made, lasting := make()
	if lasting {
		r.now[key] = made
	}
	return made
}
