package loader

// A recall is what a load of an app leaves to the next one: what was made of
// documents, and of pieces of them, that have not changed. A document with the
// same content is the same node, and what only depends on a node is found by it.
// What the next load does not ask for is forgotten. A nil recall knows nothing.
// One goroutine uses it.
type loadCache struct{ previous, current map[any]any }

// startLoad starts another load.
func (r *loadCache) startLoad() {
	if len(r.current) > 0 { // else the load before did not get far
		r.previous = r.current
	}
	r.current = map[any]any{}
}

// getOrMake is what was made for a key before, or is made now. What is not lasting
// is made each time.
func getOrMake[K comparable, T any](r *loadCache, key K, make func() (made T, lasting bool)) T {
	if r == nil {
		made, _ := make()
		return made
	}
	if known, ok := r.current[key]; ok {
		return known.(T)
	}
	if known, ok := r.previous[key]; ok {
		r.current[key] = known
		return known.(T)
	}
	made, lasting := make()
	if lasting {
		r.current[key] = made
	}
	return made
}
