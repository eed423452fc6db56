package server

import (
	"maps"
	"slices"
	"sync"
)

// Limits of unsaved files of the visual builder.
const (
	maxDrafts     = 32
	maxDraftFiles = 200
	maxDraftBytes = 8 << 20
)

// draftStore holds the unsaved files of the visual builder by app. Drafts are kept in
// memory only and are lost on restart. Above maxDrafts the least recently changed draft
// is dropped.
type draftStore struct {
	mu    sync.Mutex
	apps  map[string]map[string][]byte
	order []string // app names, most recently changed last
}

// put adds files to an app's draft. It returns false if the draft would exceed its
// limits.
func (d *draftStore) put(app string, files map[string][]byte) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	next := maps.Clone(d.apps[app])
	if next == nil {
		next = map[string][]byte{}
	}
	maps.Copy(next, files)
	size := 0
	for _, text := range next {
		size += len(text)
	}
	if len(next) > maxDraftFiles || size > maxDraftBytes {
		return false
	}
	if d.apps == nil {
		d.apps = map[string]map[string][]byte{}
	}
	d.apps[app] = next
	d.order = append(slices.DeleteFunc(d.order, func(name string) bool { return name == app }), app)
	if len(d.order) > maxDrafts {
		delete(d.apps, d.order[0])
		d.order = d.order[1:]
	}
	return true
}

// get returns the files of an app's draft, which must not be modified.
func (d *draftStore) get(app string) map[string][]byte {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.apps[app]
}

func (d *draftStore) delete(app string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.apps, app)
	d.order = slices.DeleteFunc(d.order, func(name string) bool { return name == app })
}

func (d *draftStore) appNames() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.order)
}
