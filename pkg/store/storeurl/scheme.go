package storeurl

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"agenthost/pkg/store"
)

// A Scheme opens the stores for URLs that begin with one of its names and a colon. A nil function
// means that it has no such store. The functions get the whole URL, and options with an owner; they
// close what they opened when they fail.
type Scheme struct {
	Names []string
	// Database opens sessions, memories and revisions in one database, without artifacts, and
	// returns the artifacts' default URL. Closing the sessions closes it.
	Database func(ctx context.Context, url string, o *Options) (b *store.Backends, artifacts string, err error)
	// Memories opens a separate database for memories. A scheme with Database has it.
	Memories func(ctx context.Context, url string, o *Options) (store.MemoryBackend, error)
	// Sessions opens sessions in a service that stores nothing else, for one host: it has no
	// leases. Artifacts, memories and revisions need their own URLs.
	Sessions func(ctx context.Context, url string, o *Options) (store.SessionBackend, error)
	// MemoryService opens memories in a service that stores nothing else.
	MemoryService func(ctx context.Context, url string, o *Options) (store.MemoryService, error)
	// Artifacts opens an artifact store.
	Artifacts func(ctx context.Context, url string, o *Options) (store.ArtifactBackend, error)
	// Form is an example URL, which the error for an unknown database or artifact store scheme
	// lists: sqlite:///file.db.
	Form string
}

// findScheme returns a URL's scheme; without one it is the zero value.
func findScheme(schemes []Scheme, url string) Scheme {
	name, _, ok := strings.Cut(url, ":")
	for _, s := range slices.Concat(ownSchemes(), schemes) {
		if ok && slices.Contains(s.Names, name) {
			return s
		}
	}
	return Scheme{}
}

// newUnknownError is the error for a URL without a scheme that has this store kind.
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

// HasNoLeases reports whether a URL's store cannot reserve a session for one host: it ignores its
// options' lease.
func HasNoLeases(schemes []Scheme, url string) bool {
	return findScheme(schemes, url).Sessions != nil
}
