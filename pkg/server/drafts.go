package server

import (
	"maps"
	"slices"
	"sync"
)

// Bounds of what the visual builder may have unsaved.
const (
	maxDrafts     = 32
	maxDraftFiles = 200
	maxDraftBytes = 8 << 20
)

// draftStore are files of apps that somebody edits and has not saved, by app. They
// are kept in memory: a draft is no file of the app, and is lost with the host.
// When there are too many, the one that was not touched for longest is
// forgotten.
type draftStore struct {
	mu    sync.Mutex
	apps  map[string]map[string][]byte
	order []string // of the apps, the last one touched at the end
}

// put lays files over an app's draft; false when it would be too large.
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

// get are the files of an app's draft; the caller does not change them.
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

// appNames are the apps that have drafts.
func (d *draftStore) appNames() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.order)
}
