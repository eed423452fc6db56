package loader

// A loadCache keeps what a load of an app derived from its documents for the next
// load. A document with the same content is the same node, and values that depend
// only on a node are cached by it. Entries that a load does not use are evicted. A
// nil loadCache caches nothing. It is not safe for concurrent use.
type loadCache struct{ previous, current map[any]any }

// startLoad begins another load.
func (r *loadCache) startLoad() {
	if len(r.current) > 0 { // otherwise the last load failed early
		r.previous = r.current
	}
	r.current = map[any]any{}
}

// getOrMake returns the cached value of a key, or makes it. Values that are not
// cacheable are made each time.
func getOrMake[K comparable, T any](r *loadCache, key K, make func() (made T, cacheable bool)) T {
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
	made, cacheable := make()
	if cacheable {
		r.current[key] = made
	}
	return made
}
