// Package storeurl opens stores by URL. It has the schemes memory: and dir:, and gets all
// others as a list, so that a program links only the engines that it names.
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
)

// Options configure a store and its engines. Nil and the zero value are valid.
type Options struct {
	store.Options
	// Schemes are the schemes besides memory: and dir:.
	Schemes []Scheme
	// Artifacts is the artifact store's URL: memory:, dir:///path, gs://bucket or s3://bucket. The
	// default is memory: for sessions in memory; for a database file, a folder next to it named
	// after the file with the suffix .artifacts; and for a database server,
	// data/DATABASE.artifacts.
	Artifacts string
	// Memory is the memory store's URL: memory:, a database, or a service such as agentengine: or
	// rag:. The default is the session store.
	Memory string
	// Revisions is the URL of the database for revisions and evaluation results, for sessions in a
	// service. The default is Memory's database.
	Revisions string
	// Lookup replaces the process environment for buckets and services.
	Lookup func(name string) (string, bool)
	// Existing fails with [fs.ErrNotExist] if a database is missing or empty, and
	// creates no artifact folder. Read-only programs set it.
	Existing bool
	// Access is what opening may change in databases; the zero value migrates older
	// schemas.
	Access store.Access
	// HTTP is the client for buckets and services; nil uses the store's client.
	HTTP *http.Client
}

// Open opens a store by URL: memory:, or a scheme's database or service. For a service such as
// agentengine: Artifacts is required, and a database in Revisions or Memory. Unknown schemes and
// parameters are errors. No error contains a password.
func Open(ctx context.Context, url string, opts *Options) (*store.Store, error) {
	o := *cmp.Or(opts, &Options{})
	o.Owner = cmp.Or(o.Owner, store.NewOwner())
	if o.Lease < 0 {
		return nil, fmt.Errorf("opening store %q: lease must not be negative, got %s", store.Redacted(url), o.Lease)
	}
	if o.Revisions != "" && !HasNoLeases(o.Schemes, url) {
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

// openSessions opens a URL's backends, without artifacts, and returns the artifacts' default URL.
func (o *Options) openSessions(ctx context.Context, url string) (b *store.Backends, artifacts string, err error) {
	s := findScheme(o.Schemes, url)
	if s.Sessions != nil {
		b, err = o.openService(ctx, s, url)
		return b, "", err
	}
	return o.openDatabase(ctx, url)
}

// openDatabase opens a URL's database, and returns the artifacts' default URL.
func (o *Options) openDatabase(ctx context.Context, url string) (b *store.Backends, artifacts string, err error) {
	s := findScheme(o.Schemes, url)
	if s.Database == nil {
		return nil, "", o.newUnknownError(url, func(s Scheme) bool { return s.Database != nil })
	}
	return s.Database(ctx, url, o)
}

// openService opens sessions in a service, and the database for everything that it cannot store.
func (o *Options) openService(ctx context.Context, s Scheme, url string) (*store.Backends, error) {
	name, inService := s.Names[0], findScheme(o.Schemes, o.Memory).MemoryService != nil
	switch {
	case o.Artifacts == "":
		return nil, fmt.Errorf("%s: stores only sessions: set the artifact store (--artifacts), or memory: to lose artifacts on exit", name)
	case o.databaseURL() == "" && inService:
		return nil, fmt.Errorf("%s: stores only sessions: set a database for revisions (--revisions), or memory: to lose them on exit", name)
	case o.databaseURL() == "":
		return nil, fmt.Errorf("%s: stores only sessions: set a database for memories and revisions (--memory), or memory: to lose them on exit", name)
	}
	sessions, err := s.Sessions(ctx, url, o)
	if err != nil {
		return nil, err
	}
	b, _, err := o.openDatabase(ctx, o.databaseURL())
	if err != nil {
		return nil, errors.Join(fmt.Errorf("opening the database %q: %w", store.Redacted(o.databaseURL()), err), sessions.Close())
	}
	b.Sessions, b.Unshared = pairSessions(sessions, b.Sessions), true
	b.Rollouts = nil // a rollout compares outcomes, which the service cannot store
	return b, nil
}

// databaseURL returns the database for what a session service cannot store, or "".
func (o *Options) databaseURL() string {
	if o.Revisions == "" && findScheme(o.Schemes, o.Memory).MemoryService == nil {
		return o.Memory
	}
	return o.Revisions
}

// pairedSessions are sessions in a service with the memory database.
type pairedSessions struct {
	store.SessionBackend
	database store.SessionBackend
}

// pairSessions lets sessions in a service check and close the database as well.
func pairSessions(sessions, database store.SessionBackend) store.SessionBackend {
	p := &pairedSessions{sessions, database}
	if e, ok := sessions.(store.ExpiringBackend); ok {
		return struct {
			*pairedSessions
			store.ExpiringBackend
		}{p, e}
	}
	return p
}

// Ping checks the service and the database.
func (p *pairedSessions) Ping(ctx context.Context) error {
	if err := p.SessionBackend.Ping(ctx); err != nil {
		return err
	}
	return p.database.Ping(ctx)
}

// Close closes the sessions and the database.
func (p *pairedSessions) Close() error {
	return errors.Join(p.SessionBackend.Close(), p.database.Close())
}

// openMemories opens the memory store at its own URL, if the backends do not have it.
func (o *Options) openMemories(ctx context.Context, url string, b *store.Backends) (err error) {
	switch s := findScheme(o.Schemes, o.Memory); {
	case s.MemoryService != nil:
		b.MemoryService, err = s.MemoryService(ctx, o.Memory, o)
	case o.Memory == "" || o.Memory == url || HasNoLeases(o.Schemes, url) && o.Memory == o.databaseURL():
		return nil
	case s.Memories != nil:
		b.Memories, err = s.Memories(ctx, o.Memory, o)
	default:
		return o.newUnknownError(o.Memory, func(s Scheme) bool { return s.Database != nil })
	}
	return err
}

// openArtifacts opens a URL's artifact store.
func (o *Options) openArtifacts(ctx context.Context, url string) (store.ArtifactBackend, error) {
	if !strings.Contains(url, ":") {
		url += ":"
	}
	s := findScheme(o.Schemes, url)
	if s.Artifacts == nil {
		return nil, o.newUnknownError(url, func(s Scheme) bool { return s.Artifacts != nil })
	}
	return s.Artifacts(ctx, url, o)
}

// ownSchemes returns the schemes that need no engine.
func ownSchemes() []Scheme {
	return []Scheme{
		{
			Names: []string{"memory"}, Form: "memory:",
			Database: func(_ context.Context, url string, _ *Options) (*store.Backends, string, error) {
				return memstore.NewBackends(), "memory:", checkMemoryURL(url)
			},
			Memories: func(_ context.Context, url string, _ *Options) (store.MemoryBackend, error) {
				return memstore.NewMemories(), checkMemoryURL(url)
			},
			Artifacts: func(_ context.Context, url string, _ *Options) (store.ArtifactBackend, error) {
				return memstore.NewArtifacts(), checkMemoryURL(url)
			},
		},
		{Names: []string{"dir"}, Form: "dir:///folder", Artifacts: openFolder},
	}
}

func checkMemoryURL(url string) error {
	if rest := strings.TrimPrefix(url, "memory:"); rest != "" && rest != "//" {
		return fmt.Errorf("memory: has no path, got %q", rest)
	}
	return nil
}

// openFolder opens a URL's folder.
func openFolder(_ context.Context, url string, o *Options) (store.ArtifactBackend, error) {
	dir := strings.TrimPrefix(url, "dir:")
	if slashes, ok := strings.CutPrefix(dir, "//"); ok {
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
