// Package testenv sets up a complete host for a test: a memory store, deterministic IDs and times,
// and apps from YAML. It has no mocks: store, models and loader are the product's.
package testenv

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/trace"

	"agenthost/internal/auth"
	"agenthost/internal/modeltest"
	"agenthost/pkg/loader"
	"agenthost/pkg/provider"
	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
	"agenthost/pkg/spec"
	"agenthost/pkg/store"
	"agenthost/pkg/store/sqlstore"
	"agenthost/pkg/store/sqlstore/mysql"
	"agenthost/pkg/store/sqlstore/postgres"
	"agenthost/pkg/store/sqlstore/sqlite"
	"agenthost/pkg/store/storeurl"
	"agenthost/pkg/tool/builtin"
	"agenthost/pkg/tool/httptool"
	"agenthost/wing/a2aagent"
	"agenthost/wing/a2aserver"
	"agenthost/wing/acpserver"
	"agenthost/wing/aguiserver"
	"agenthost/wing/apptest"
	"agenthost/wing/bucketstore"
	"agenthost/wing/chatpage"
	connections "agenthost/wing/connection"
	"agenthost/wing/evaluation/evalgate"
	"agenthost/wing/gemini"
	"agenthost/wing/live"
	"agenthost/wing/mcpserver"
	"agenthost/wing/mcptool"
	"agenthost/wing/openaiserver"
	"agenthost/wing/openapitool"
	"agenthost/wing/programs"
	"agenthost/wing/replay"
	"agenthost/wing/rollout"
	"agenthost/wing/skills"
	"agenthost/wing/vertex/vertexstore"
	"agenthost/wing/vertex/vertextool"
	"agenthost/wing/wasi"
)

// Env is a host for one test.
type Env struct {
	Host   *runtime.Host
	Store  *store.Store
	Loader *loader.Loader
}

// Options configure an Env. The zero value is valid.
type Options struct {
	// URL is the session store's; empty is memory:.
	URL string
	// Artifacts is the artifact URL; empty means the store URL's default. Buckets read their
	// settings from Env.
	Artifacts string
	// Memory and Revisions are their stores' URLs, as in [storeurl.Options].
	Memory, Revisions string
	Env               func(name string) (string, bool)
	Loader            *loader.Options
	// FirstID is the first ID, for a host that continues another one's data.
	FirstID int
	// The following are host options.
	TracerProvider trace.TracerProvider
	TraceContents  bool
	Logger         *slog.Logger
	ToolWorkers    int
}

// New creates a host and its store. The test closes both.
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
	st, err := storeurl.Open(context.Background(), url, &storeurl.Options{
		Schemes: Schemes(), Options: store.Options{Clock: clock.Now, NewID: ids.next}, Artifacts: opts.Artifacts, Memory: opts.Memory, Revisions: opts.Revisions, Lookup: opts.Env,
	})
	if err != nil {
		t.Fatal(err)
	}
	h := runtime.NewHost(st, &runtime.Options{
		Clock: clock.Now, NewID: ids.next, Logger: opts.Logger, ToolWorkers: opts.ToolWorkers,
		TracerProvider: opts.TracerProvider, TraceContents: opts.TraceContents,
	})
	t.Cleanup(func() {
		h.Close()
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	return &Env{Host: h, Store: st, Loader: loader.New(Kinds(), opts.Loader)}
}

// Engines returns the session database engines.
func Engines() sqlstore.Engines {
	return sqlstore.Engines{sqlite.Engine(), postgres.Engine(), mysql.Engine()}
}

// Schemes returns all stores' schemes.
func Schemes() []storeurl.Scheme {
	return slices.Concat(Engines().Schemes(), vertexstore.Schemes(), bucketstore.Schemes())
}

// Kinds returns the kinds that the program agenthost has.
func Kinds() loader.Kinds {
	evals := &evalgate.Kind{}
	return loader.Kinds{
		Models: modeltest.AllKinds(),
		Tools: slices.Concat(
			programs.Kinds(), builtin.Kinds(), httptool.Kinds(), skills.Kinds(), mcptool.Kinds(), openapitool.Kinds(),
		),
		Builtins: slices.Concat(
			slices.Concat(builtin.Builtins(), httptool.Builtins(), programs.Builtins(), skills.Builtins(), vertextool.Builtins()).SortByName(),
			mcptool.Toolsets[connections.ADKAuth](), openapitool.Toolsets[connections.ADKAuth](connections.Google{}),
		),
		Agents:      slices.Concat(loader.AgentKinds(), a2aagent.Kinds()),
		AgentTools:  loader.AgentToolKinds(),
		Connections: connections.NewKind(nil),
		Plugins:     loader.PluginKinds(),
		Sections:    spec.Kinds[loader.SectionEnv, any]{a2aserver.Section(), acpserver.Section(), aguiserver.Section(), chatpage.Section(), mcpserver.Section(), openaiserver.Section(), replay.Section(), rollout.Section()},
		Executors:   slices.Concat(wasi.Executors(), programs.Executors()),
		Programs:    programs.Opener(nil),
		Live:        live.Driver{},
		Files:       []loader.FileKind{apptest.Files(), evals.Files(), loader.PolicyFiles(), authFiles()},
		Gates:       []loader.Gate{apptest.Gate(), evals.Gate(), replay.Gate()},
		Evaluator:   openEvaluator,
	}
}

// authFiles returns the file kind that lists a server's callers.
func authFiles() loader.FileKind {
	return loader.FileKind{
		Name: "auth", Matches: func(file string) bool { return filepath.Base(file) == "auth.yaml" }, Schema: auth.Schema,
		Title: "Callers", About: "The file of `--auth`, or `auth:` in the file of `--config`; see [security.md](security.md).",
		Reference: func() []string { return []string{auth.Reference()} },
	}
}

// Load publishes a folder's app.
func (e *Env) Load(t testing.TB, dir string) *runtime.App {
	t.Helper()
	app, ds := e.Loader.Load(t.Context(), dir)
	if app == nil {
		t.Fatalf("loading %s:\n%s", dir, ds.Error())
	}
	e.Host.Swap(app)
	return app
}

// Session creates a session for user u.
func (e *Env) Session(t testing.TB, app, id string, state map[string]any) session.Key {
	t.Helper()
	key := session.Key{App: app, User: "u", ID: id}
	if _, err := e.Store.Sessions.Create(t.Context(), key, state); err != nil {
		t.Fatal(err)
	}
	return key
}

// Files writes files to a new folder with the given name.
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

// A Clock advances by a second each time it is read.
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

// openEvaluator opens Vertex AI's evaluation service.
func openEvaluator(ctx context.Context, env provider.Env) (loader.HostedEvaluator, error) {
	service, err := gemini.OpenVertexEvaluator(ctx, env)
	if service == nil {
		return nil, err
	}
	return service, err
}
