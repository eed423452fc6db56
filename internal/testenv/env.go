// Package testenv sets the whole house up for a test: a host on a memory
// store, with ids and times that are the same each time, and apps from YAML.
// Nothing in it is a mock: store, models and loader are those of the product.
package testenv

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"agenthost/pkg/loader"
	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
	"agenthost/pkg/store"
)

// Env is a host for one test.
type Env struct {
	Host   *runtime.Host
	Store  *store.Store
	Loader *loader.Loader
}

// Options are what an Env may be given. The zero value works.
type Options struct {
	// URL of the session store; empty is memory:.
	URL string
	// Artifacts is where artifacts are kept; empty is what belongs to the URL.
	// Buckets take what they need from Env.
	Artifacts string
	Env       func(name string) (string, bool)
	Loader    *loader.Options
	// FirstID is where the ids begin, for a host that takes up what another
	// one wrote.
	FirstID int
	// Observe and Logger are those of the host.
	Observe func(*runtime.Span)
	Logger  *slog.Logger
	// ToolWorkers is that of the host.
	ToolWorkers int
}

// New makes a host over a store. Both end with the test.
func New(t testing.TB, opts *Options) *Env {
	t.Helper()
	if opts == nil {
		opts = &Options{}
	}
	url := opts.URL
	if url == "" {
		url = "memory:"
	}
	ids, clock := &counter{n: opts.FirstID}, &Clock{now: time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)}
	st, err := store.Open(context.Background(), url, &store.Options{
		Artifacts: opts.Artifacts, Lookup: opts.Env, Clock: clock.Now, NewID: ids.next,
	})
	if err != nil {
		t.Fatal(err)
	}
	h := runtime.NewHost(st, &runtime.Options{Clock: clock.Now, NewID: ids.next, Observe: opts.Observe, Logger: opts.Logger, ToolWorkers: opts.ToolWorkers})
	t.Cleanup(func() {
		h.Close()
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	return &Env{Host: h, Store: st, Loader: loader.New(opts.Loader)}
}

// Load puts the app of a folder into the host.
func (e *Env) Load(t testing.TB, dir string) *runtime.App {
	t.Helper()
	app, ds := e.Loader.Load(t.Context(), dir)
	if app == nil {
		t.Fatalf("loading %s:\n%s", dir, ds.Error())
	}
	e.Host.Swap(app)
	return app
}

// Session creates a session of user u.
func (e *Env) Session(t testing.TB, app, id string, state map[string]any) session.Key {
	t.Helper()
	key := session.Key{App: app, User: "u", ID: id}
	if _, err := e.Store.Sessions.Create(t.Context(), key, state); err != nil {
		t.Fatal(err)
	}
	return key
}

// Files writes files by name below a new folder of the given name.
func Files(t testing.TB, name string, files map[string][]byte) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), name)
	for file, content := range files {
		path := filepath.Join(dir, filepath.FromSlash(file))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

type counter struct {
	mu sync.Mutex
	n  int
}

func (c *counter) next() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n++
	return fmt.Sprintf("%08d-0000-4000-8000-000000000000", c.n)
}

// A Clock goes on by a second each time it is read.
type Clock struct {
	mu  sync.Mutex
	now time.Time
}

// Now reads the clock.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(time.Second)
	return c.now
}
