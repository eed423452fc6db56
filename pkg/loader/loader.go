package loader

import (
	"context"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"agenthost/internal/safe"
	"agenthost/pkg/model"
	"agenthost/pkg/policy"
	"agenthost/pkg/provider"
	"agenthost/pkg/runtime"
	"agenthost/pkg/spec"
	"agenthost/pkg/tool"
)

// DefaultModel serves agents that name no model and have nobody above that
// does.
const DefaultModel = "gemini-flash-latest"

// A Loader turns an app's folder into an app. Many goroutines may use it.
type Loader struct {
	opts       Options
	agentKinds spec.Kinds[runtime.AgentEnv, runtime.Agent]
	agentTools spec.Kinds[runtime.AgentToolEnv, tool.Set]
	toolKinds  spec.Kinds[tool.Env, tool.Set]
	builtins   spec.Kinds[tool.Env, tool.Set]
	providers  spec.Kinds[provider.Env, model.LLM]
	plugins    spec.Kinds[runtime.PluginEnv, *runtime.Plugin]
	resources  *resources
}

// Options are what a loader may be given. The zero value works.
type Options struct {
	// Env reads the environment; nil is os.LookupEnv.
	Env func(name string) (string, bool)
	// Secrets is the folder of secrets, as Kubernetes mounts them: APP/NAME is a
	// secret of one app, NAME a shared one. A secret that has no file there is a
	// variable of the environment or of the app's .env. Policy says which apps may
	// use shared secrets and the environment.
	Secrets string
	// Overlay picks the file app.NAME.yaml that is laid over app.yaml, where an
	// app has one; empty is none.
	Overlay string
	// Open reads files as an editor has them that is not done yet, by their full
	// paths; what it does not have is read from the disk.
	Open func(path string) ([]byte, bool)
	// HTTP carries calls of models and tools, and decides which addresses may be
	// reached; nil makes a client for each app, which Policy guards.
	HTTP *http.Client
	// Policy is what the host grants to apps; nil is that of a developer's own
	// machine. See [policy.Policy.For] for a program that listens, or that has
	// secrets of its own in its environment.
	Policy *policy.Policy
	// Model, if set, takes the place of every model of every app.
	Model model.LLM
	// Wrap, if set, is put around every model, such as [provider.Recorder.Wrap].
	Wrap func(model.LLM) model.LLM
	// WrapTool, if set, is put around every tool of a kind that documents
	// declare and every tool of Functions, such as [RecordTools] and
	// [ReplayTools]; not around the built-in ones and agents.
	WrapTool func(tool.Tool) tool.Tool
	// Replace, if set, gives every tool of every agent the one that takes its
	// place: built-in ones and agents too.
	Replace func(tool.Tool) tool.Tool
	// Functions are the program's own that documents may name.
	Functions runtime.Functions
	// Logger gets what models and tools have to say; nil is silent.
	Logger *slog.Logger
}

// New makes a loader; nil options are fine.
func New(opts *Options) *Loader {
	if opts == nil {
		opts = &Options{}
	}
	l := &Loader{
		opts:       *opts,
		agentKinds: runtime.AgentKinds(), agentTools: runtime.AgentToolKinds(),
		toolKinds: tool.Kinds(), builtins: slices.Concat(tool.Builtins(), tool.Toolsets()), providers: provider.Kinds(), plugins: runtime.PluginKinds(),
		resources: &resources{byKey: map[resourceKey]*resource{}},
	}
	if l.opts.Env == nil {
		l.opts.Env = os.LookupEnv
	}
	if l.opts.Wrap == nil {
		l.opts.Wrap = func(m model.LLM) model.LLM { return m }
	}
	if l.opts.Model != nil {
		l.opts.Model = l.opts.Wrap(l.opts.Model)
	}
	if l.opts.Logger == nil {
		l.opts.Logger = slog.New(slog.DiscardHandler)
	}
	return l
}

// Load builds the app of a folder. It returns all problems, sorted by place;
// with an error among them there is no app. Building connects to nothing. The
// app is the caller's: give it to a host, or Close it.
func (l *Loader) Load(ctx context.Context, dir string) (*runtime.App, spec.Diagnostics) {
	got := l.loadApp(ctx, dir, nil, nil)
	return got.app, got.ds
}

// loadResult is what became of a folder.
type loadResult struct {
	app   *runtime.App
	suite *Suite
	ds    spec.Diagnostics
	// outside are the files elsewhere that the app depends on.
	outside []string
	// files are those that the app was built from, and read those of the folder
	// as they were read, also when there is no app.
	files, read map[string][]byte
}

// loadApp builds the app of a folder with what the load before it has left, and then
// reads its tests with readTests; both may be nil.
func (l *Loader) loadApp(ctx context.Context, dir string, r *loadCache, readTests func(*job, context.Context, *resolvedAgent) *Suite) loadResult {
	src, ds := l.openAppFolder(dir)
	if src == nil {
		return loadResult{ds: ds}
	}
	defer src.close()
	if src.cache = r; r != nil {
		r.startLoad()
	}
	return l.loadSource(ctx, src, readTests)
}

// loadAppSafely is load for a host that serves: a panic is a problem of this one app,
// and the others are loaded. Elsewhere it ends the program, with its stack.
func (l *Loader) loadAppSafely(ctx context.Context, dir string, r *loadCache, readTests func(*job, context.Context, *resolvedAgent) *Suite) (got loadResult) {
	p := safe.Call(func() { got = l.loadApp(ctx, dir, r, readTests) })
	if p == nil {
		return got
	}
	p.Log(l.opts.Logger, "loading an app panicked", "app", AppName(dir))
	return loadResult{ds: spec.Diagnostics{{
		Pos: spec.Pos{File: filepath.ToSlash(dir)}, Rule: "build",
		Message: "loading the app panicked, which is a fault of agenthost: " + p.Error(),
	}}}
}

// loadSource is the whole load of a source.
func (l *Loader) loadSource(ctx context.Context, src *source, readTests func(*job, context.Context, *resolvedAgent) *Suite) loadResult {
	src.budget = newLoadBudget(ctx)
	j := newJob(l, src)
	app, root := j.loadAndCompile(ctx)
	var suite *Suite
	if readTests != nil {
		suite = readTests(j, ctx, root)
		j.checkSecrets()
	}
	if src.budget.exceeded != nil {
		j.report(src.budget.exceeded.toDiagnostic(src.displayDir))
	}
	j.ds = j.collectProblems()
	if j.ds.HasErrors() {
		if app != nil {
			app.Close()
		}
		return loadResult{ds: j.ds, outside: src.outsideFiles, read: src.readFiles}
	}
	return loadResult{app, suite, j.ds, src.outsideFiles, src.revisionFiles(), src.readFiles}
}

// openAppFolder opens an app's folder, or says why it cannot be read.
func (l *Loader) openAppFolder(dir string) (*source, spec.Diagnostics) {
	src, err := openSource(dir, &l.opts)
	if err != nil {
		return nil, spec.Diagnostics{{Pos: spec.Pos{File: filepath.ToSlash(dir)}, Rule: "file", Message: "cannot read the app's folder: " + formatOSError(err)}}
	}
	return src, nil
}

// Check reports all problems of a folder's app and of the tests beside it.
func (l *Loader) Check(ctx context.Context, dir string) spec.Diagnostics {
	_, ds := l.Suite(ctx, dir)
	return ds
}

// AppName is the name of the app in a folder: the folder's own.
func AppName(dir string) string {
	full, err := filepath.Abs(dir)
	if err != nil {
		full = dir
	}
	return filepath.Base(full)
}

func (l *Loader) checkAppName(src *source) spec.Diagnostics {
	if appName.MatchString(src.name) && src.name != "user" {
		return nil
	}
	return spec.Diagnostics{{
		Pos: spec.Pos{File: strings.TrimSuffix(src.displayDir, "/")}, Rule: "app-name",
		Message: "an app's name is that of its folder, and \"" + src.name + "\" cannot be one",
		Hint:    "use a letter first, then letters, digits, _ and -; user is taken",
	}}
}
