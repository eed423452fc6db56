// Package storeurl opens stores by URL with the engines that agenthost has. A program
// that needs only one engine imports its package instead.
package storeurl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"strings"

	"agenthost/pkg/store"
	"agenthost/pkg/store/dirstore"
	"agenthost/pkg/store/memstore"
	"agenthost/pkg/store/sqlstore"
	"agenthost/wing/bucketstore"
	"agenthost/wing/vertex/vertexstore"
)

// Options configure a store and its engines. Nil and the zero value are valid.
type Options struct {
	store.Options
	// Artifacts is the URL of the artifact store: memory:, dir:///path,
	// gs://bucket or s3://bucket. The default is memory: for sessions in
	// memory; for a database file, a folder next to it named after the file
	// with the suffix .artifacts; and for a database server,
	// data/DATABASE.artifacts.
	Artifacts string
	// Memory is the URL of the memory store, in the forms of [Open], or
	// agentengine: in the forms of [vertexstore.OpenMemoryBank], or rag: in those of
	// [vertexstore.OpenRAG]. The default is the session store.
	Memory string
	// Revisions is the URL of the database of revisions and of results of
	// evaluations, for sessions in Vertex AI. The default is the database of Memory.
	Revisions string
	// Lookup replaces the environment of the process for buckets, see
	// [bucketstore.Options].
	Lookup func(name string) (string, bool)
	// Existing fails with [fs.ErrNotExist] if a database is missing or empty, and
	// creates no artifact folder. Read-only programs set it.
	Existing bool
	// Access is what opening may change in databases; the zero value migrates older
	// schemas.
	Access sqlstore.Access
	// HTTP is the client for buckets; nil uses a client of the store.
	HTTP *http.Client
}

// Open opens a store by URL: memory:, a database in the forms of [sqlstore.Open], or
// agentengine: in the forms of [vertexstore.Open]. For agentengine: Artifacts is required, and a
// database in Revisions or Memory.
// Unknown schemes and parameters are errors. No error contains a password.
func Open(ctx context.Context, url string, opts *Options) (*store.Store, error) {
	o := *cmp.Or(opts, &Options{})
	o.Owner = cmp.Or(o.Owner, store.NewOwner())
	if o.Lease < 0 {
		return nil, fmt.Errorf("opening store %q: lease must not be negative, got %s", store.Redacted(url), o.Lease)
	}
	if o.Revisions != "" && !isVertex(url) {
		return nil, fmt.Errorf("opening store %q: a database of sessions also stores revisions: omit the other database (--revisions)", store.Redacted(url))
	}
	b, artifacts, err := o.openSessions(ctx, url)
	if err != nil {
		return nil, fmt.Errorf("opening store %q: %w", store.Redacted(url), err)
	}
	if o.Artifacts != "" {
		artifacts = o.Artifacts
	}
	if b.Artifacts, err = o.openArtifacts(ctx, artifacts); err != nil {
		return nil, errors.Join(fmt.Errorf("opening artifacts %q: %w", store.Redacted(artifacts), err), b.Sessions.Close())
	}
	if err := o.openMemories(ctx, url, b); err != nil {
		return nil, errors.Join(fmt.Errorf("opening memories %q: %w", store.Redacted(o.Memory), err), b.Artifacts.Close(), b.Sessions.Close())
	}
	return store.New(b, &o.Options), nil
}

// openSessions opens the backends of a URL, without artifacts, and returns the default
// URL of the artifacts.
func (o *Options) openSessions(ctx context.Context, url string) (b *store.Backends, artifacts string, err error) {
	if rest, ok := strings.CutPrefix(url, "memory:"); ok {
		return memstore.NewBackends(), "memory:", checkMemoryURL(rest)
	}
	if isVertex(url) {
		b, err = o.openVertex(ctx, url)
		return b, "", err
	}
	d, err := sqlstore.Open(ctx, url, o.sqlOptions())
	if err != nil {
		return nil, "", err
	}
	return d.Backends(), "dir:" + d.ArtifactFolder(), nil
}

// HasNoLeases reports whether the store of a URL cannot reserve a session for one host: it
// ignores the lease of its options.
func HasNoLeases(url string) bool { return isVertex(url) }

func isVertex(url string) bool { return strings.HasPrefix(url, "agentengine:") }

// isService reports whether memories of a URL are in a service, which stores nothing else.
func isService(url string) bool { return isVertex(url) || strings.HasPrefix(url, "rag:") }

// openVertex opens sessions in Vertex AI, and the database of everything that it cannot
// store.
func (o *Options) openVertex(ctx context.Context, url string) (*store.Backends, error) {
	switch {
	case o.Artifacts == "":
		return nil, errors.New("agentengine: stores only sessions: set the artifact store (--artifacts), or memory: to lose artifacts on exit")
	case o.databaseURL() == "" && isService(o.Memory):
		return nil, errors.New("agentengine: stores only sessions: set a database for revisions (--revisions), or memory: to lose them on exit")
	case o.databaseURL() == "":
		return nil, errors.New("agentengine: stores only sessions: set a database for memories and revisions (--memory), or memory: to lose them on exit")
	}
	sessions, err := vertexstore.Open(ctx, url, &vertexstore.Options{HTTP: o.HTTP, Lookup: o.Lookup})
	if err != nil {
		return nil, err
	}
	var b *store.Backends
	if rest, ok := strings.CutPrefix(o.databaseURL(), "memory:"); ok {
		b, err = memstore.NewBackends(), checkMemoryURL(rest)
	} else {
		var d *sqlstore.Database
		if d, err = sqlstore.Open(ctx, o.databaseURL(), o.sqlOptions()); err == nil {
			b = d.Backends()
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("opening the database %q: %w", store.Redacted(o.databaseURL()), err), sessions.Close())
	}
	b.Sessions, b.Unshared = &vertexSessions{sessions, b.Sessions}, true
	return b, nil
}

// databaseURL returns the database of what Vertex AI cannot store, or "".
func (o *Options) databaseURL() string {
	if o.Revisions == "" && !isService(o.Memory) {
		return o.Memory
	}
	return o.Revisions
}

// vertexSessions are sessions in Vertex AI with the database of the memories.
type vertexSessions struct {
	*vertexstore.Sessions
	database store.SessionBackend
}

// Ping checks the service and the database.
func (v *vertexSessions) Ping(ctx context.Context) error {
	if err := v.Sessions.Ping(ctx); err != nil {
		return err
	}
	return v.database.Ping(ctx)
}

// Close closes the sessions and the database.
func (v *vertexSessions) Close() error { return errors.Join(v.Sessions.Close(), v.database.Close()) }

func (o *Options) sqlOptions() *sqlstore.Options {
	return &sqlstore.Options{Owner: o.Owner, Clock: o.Clock, Logger: o.Logger, Existing: o.Existing, Access: o.Access}
}

// openMemories opens the memory store of its own URL, if the backends do not have it.
func (o *Options) openMemories(ctx context.Context, url string, b *store.Backends) (err error) {
	vertex := &vertexstore.Options{HTTP: o.HTTP, Lookup: o.Lookup}
	rest, inMemory := strings.CutPrefix(o.Memory, "memory:")
	switch {
	case strings.HasPrefix(o.Memory, "rag:"):
		b.MemoryService, err = asService(vertexstore.OpenRAG(ctx, o.Memory, vertex))
	case isVertex(o.Memory):
		b.MemoryService, err = asService(vertexstore.OpenMemoryBank(ctx, o.Memory, vertex))
	case o.Memory == "" || o.Memory == url || isVertex(url) && o.Memory == o.databaseURL():
		return nil
	case inMemory:
		b.Memories, err = memstore.NewMemories(), checkMemoryURL(rest)
	default:
		b.Memories, err = sqlstore.OpenMemories(ctx, o.Memory, o.sqlOptions())
	}
	return err
}

// asService returns a service, or nil with an error.
func asService[S store.MemoryService](s S, err error) (store.MemoryService, error) {
	if err != nil {
		return nil, err
	}
	return s, nil
}

// openArtifacts opens the artifact store of a URL.
func (o *Options) openArtifacts(ctx context.Context, url string) (store.ArtifactBackend, error) {
	switch name, rest, _ := strings.Cut(url, ":"); name {
	case "memory":
		return memstore.NewArtifacts(), checkMemoryURL(rest)
	case "dir":
		return o.openFolder(rest)
	case "gs", "s3":
		return bucketstore.Open(ctx, url, &bucketstore.Options{Clock: o.Clock, HTTP: o.HTTP, Lookup: o.Lookup, MaxArtifactBytes: o.MaxArtifactBytes})
	default:
		return nil, fmt.Errorf("unknown scheme %q: supported are memory:, dir:///folder, gs://bucket/prefix and s3://bucket/prefix", name)
	}
}

// openFolder opens the folder of a URL after dir:.
func (o *Options) openFolder(rest string) (store.ArtifactBackend, error) {
	dir := rest
	if slashes, ok := strings.CutPrefix(rest, "//"); ok {
		dir = slashes
		if !strings.HasPrefix(dir, "/") {
			return nil, fmt.Errorf("write dir:///%s for an absolute path, dir:%s for a relative path", dir, dir)
		}
	}
	switch {
	case dir == "":
		return nil, errors.New("a folder is required: dir:///folder")
	case strings.Contains(dir, "?"):
		return nil, errors.New("dir: has no parameters")
	}
	if _, err := os.Stat(dir); o.Existing && errors.Is(err, fs.ErrNotExist) {
		return memstore.NewArtifacts(), nil // equally empty
	}
	return dirstore.Open(dir)
}

func checkMemoryURL(rest string) error {
	if rest != "" && rest != "//" {
		return fmt.Errorf("memory: has no path, got %q", rest)
	}
	return nil
}
