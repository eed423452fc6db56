package loader

import (
	"context"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"agenthost/internal/policy"
	"agenthost/internal/safe"
	"agenthost/pkg/model"
	"agenthost/pkg/provider"
	"agenthost/pkg/runtime"
	"agenthost/pkg/spec"
	"agenthost/pkg/tool"
)

// DefaultModel is the model of agents that neither set a model nor inherit one.
const DefaultModel = "gemini-flash-latest"

// A Loader builds an app from its folder. It is safe for concurrent use.
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

// Options configure a loader. The zero value is valid.
type Options struct {
	// Env looks up environment variables; nil is os.LookupEnv.
	Env func(name string) (string, bool)
	// Secrets is the folder of secrets, as Kubernetes mounts them: APP/NAME is a
	// secret of one app, NAME a shared one. A secret without a file is looked up in
	// the environment and in the app's .env. Policy controls which apps may use
	// shared secrets and the environment.
	Secrets string
	// Overlay is the NAME of the file app.NAME.yaml that is merged into app.yaml, if
	// the app has one; empty is none.
	Overlay string
	// Open returns the unsaved content of files in an editor, by their full paths;
	// other files are read from disk.
	Open func(path string) ([]byte, bool)
	// HTTP sends the requests of models and tools, and controls which addresses are
	// allowed; nil creates a client for each app, guarded by Policy.
	HTTP *http.Client
	// Policy contains the permissions of apps; nil is the policy for local
	// development. See [policy.Policy.For] for a program that listens, or that has
	// secrets of its own in its environment.
	Policy *policy.Policy
	// Model, if set, replaces every model of every app.
	Model model.LLM
	// WrapModel, if set, wraps every model, such as [provider.Recorder.Wrap].
	WrapModel func(model.LLM) model.LLM
	// WrapTool, if set, wraps every tool that documents declare and every tool of
	// Functions, such as [RecordTools] and [ReplayTools]; it does not wrap built-in
	// tools and agents.
	WrapTool func(tool.Tool) tool.Tool
	// ReplaceTool, if set, replaces every tool of every agent, built-in tools and agents
	// included.
	ReplaceTool func(tool.Tool) tool.Tool
	// Functions are Go functions that documents may name.
	Functions runtime.Functions
	// Logger receives the logs of models and tools; nil discards them.
	Logger *slog.Logger
}

// New returns a loader; options may be nil.
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
	if l.opts.WrapModel == nil {
		l.opts.WrapModel = func(m model.LLM) model.LLM { return m }
	}
	if l.opts.Model != nil {
		l.opts.Model = l.opts.WrapModel(l.opts.Model)
	}
	if l.opts.Logger == nil {
		l.opts.Logger = slog.New(slog.DiscardHandler)
	}
	return l
}

// Load builds the app of a folder. It returns all problems, sorted by position; if
// one of them is an error, the app is nil. Building opens no connections. The caller
// owns the app and must pass it to a host or Close it.
func (l *Loader) Load(ctx context.Context, dir string) (*runtime.App, spec.Diagnostics) {
	got := l.loadApp(ctx, dir, nil, nil)
	return got.app, got.ds
}

// loadResult is the result of loading a folder.
type loadResult struct {
	app   *runtime.App
	suite *Suite
	ds    spec.Diagnostics
	// outside are the files outside of the folder that the app depends on.
	outside []string
	// files are those that the app was built from; read are those that were read
	// from the folder, also when there is no app.
	files, read map[string][]byte
}

// loadApp builds the app of a folder with the cache of the previous load, and then
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

// loadAppSafely is loadApp for a running host: a panic becomes a problem of this app
// and does not affect others. In other programs a panic ends the process.
func (l *Loader) loadAppSafely(ctx context.Context, dir string, r *loadCache, readTests func(*job, context.Context, *resolvedAgent) *Suite) (got loadResult) {
	p := safe.Call(func() { got = l.loadApp(ctx, dir, r, readTests) })
	if p == nil {
		return got
	}
	p.Log(l.opts.Logger, "loading an app panicked", "app", AppName(dir))
	return loadResult{ds: spec.Diagnostics{{
		Pos: spec.Pos{File: filepath.ToSlash(dir)}, Rule: "build",
		Message: "loading the app panicked, which is a bug in agenthost: " + p.Error(),
	}}}
}

// loadSource builds the app of an open source.
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

// openAppFolder opens an app's folder, or returns the problem.
func (l *Loader) openAppFolder(dir string) (*source, spec.Diagnostics) {
	src, err := openSource(dir, &l.opts)
	if err != nil {
		return nil, spec.Diagnostics{{Pos: spec.Pos{File: filepath.ToSlash(dir)}, Rule: "file", Message: "cannot read the app's folder: " + formatOSError(err)}}
	}
	return src, nil
}

// Check reports all problems of a folder's app and of its tests.
func (l *Loader) Check(ctx context.Context, dir string) spec.Diagnostics {
	_, ds := l.Suite(ctx, dir)
	return ds
}

// AppName returns the name of the app in a folder, which is the folder's base name.
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
		Message: "invalid app name \"" + src.name + "\": an app is named after its folder",
		Hint:    "use a letter followed by letters, digits, _ or -; user is reserved",
	}}
}
