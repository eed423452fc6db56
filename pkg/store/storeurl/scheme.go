package storeurl

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"agenthost/pkg/store"
)

// A Scheme opens the stores of the URLs that begin with one of its names and a colon. A nil
// function means that it has no such store. The functions get the whole URL, and options
// with an owner; they close what they opened when they fail.
type Scheme struct {
	Names []string
	// Database opens sessions, memories and revisions in one database, without artifacts,
	// and returns the default URL of the artifacts. Closing the sessions closes it.
	Database func(ctx context.Context, url string, o *Options) (b *store.Backends, artifacts string, err error)
	// Memories opens a database of its own for memories. A scheme with Database has it.
	Memories func(ctx context.Context, url string, o *Options) (store.MemoryBackend, error)
	// Sessions opens sessions in a service that stores nothing else, for one host: it has
	// no leases. Artifacts, memories and revisions need URLs of their own.
	Sessions func(ctx context.Context, url string, o *Options) (store.SessionBackend, error)
	// MemoryService opens memories in a service that stores nothing else.
	MemoryService func(ctx context.Context, url string, o *Options) (store.MemoryService, error)
	// Artifacts opens an artifact store.
	Artifacts func(ctx context.Context, url string, o *Options) (store.ArtifactBackend, error)
	// Form is an example of a URL, which the error for an unknown scheme of a database or of
	// an artifact store lists: sqlite:///file.db.
	Form string
}

// findScheme returns the scheme of a URL; without one it is the zero value.
func findScheme(schemes []Scheme, url string) Scheme {
	name, _, ok := strings.Cut(url, ":")
	for _, s := range slices.Concat(ownSchemes(), schemes) {
		if ok && slices.Contains(s.Names, name) {
			return s
		}
	}
	return Scheme{}
}

// newUnknownError is the error for a URL without a scheme that has a kind of store.
func (o *Options) newUnknownError(url string, has func(Scheme) bool) error {
	var forms []string
	for _, s := range slices.Concat(ownSchemes(), o.Schemes) {
		if has(s) {
			forms = append(forms, s.Form)
		}
	}
	name, _, _ := strings.Cut(url, ":")
	known := forms[0]
	if last := len(forms) - 1; last > 0 {
		known = strings.Join(forms[:last], ", ") + " and " + forms[last]
	}
	return fmt.Errorf("unknown scheme %q: supported are %s", store.Redacted(name), known)
}

// HasNoLeases reports whether the store of a URL cannot reserve a session for one host: it
// ignores the lease of its options.
func HasNoLeases(schemes []Scheme, url string) bool {
	return findScheme(schemes, url).Sessions != nil
}
