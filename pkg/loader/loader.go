// Package loader builds apps from folders of YAML, and keeps the apps of a host in
// sync with the folders. From file to app, in order:
//
//  1. [Discover] finds app folders: those with a root_agent.yaml or an app.yaml.
//  2. Files are read through the app's [os.Root]: files outside of the folder
//     are not accessible.
//  3. ${env:…} references are resolved; each node keeps its position.
//  4. Nodes are decoded into the config structs of agents ([agentconfig]), tools
//     and models.
//  5. References are followed: config_path, use, models.
//  6. Rules check the whole app: names, cycles, unused parts.
//  7. Models, tools and agents are built, leaves first, into a [runtime.App].
//
// Every problem is a [spec.Diagnostic]; all of them are reported at once, and an
// error among them means that no app is built. check, run, serve and reload share
// this path; [Watch] only decides when to load.
package loader

import (
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"agenthost/internal/agentconfig"
	"agenthost/pkg/model"
	"agenthost/pkg/provider"
	"agenthost/pkg/spec"
	"agenthost/pkg/tool"
)

// A Loader builds an app from its folder. It is safe for concurrent use.
type Loader struct {
	opts      Options
	kinds     Kinds
	resources *resources
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
	// development. A program that listens, or that has secrets of its own in its
	// environment, uses [ReadPolicy].
	Policy *Policy
	// Model, if set, replaces every model of every app.
	Model model.LLM
	// WrapModel, if set, wraps every model, such as [provider.Recorder.Wrap].
	WrapModel func(model.LLM) model.LLM
	// Prices has the prices of models without a price of their own; nil has none.
	Prices *provider.PriceList
	// WrapTool, if set, wraps every tool that documents declare and every tool of
	// Functions, such as [RecordTools] and [ReplayTools]; it does not wrap built-in
	// tools and agents.
	WrapTool func(tool.Tool) tool.Tool
	// Offline prevents tools from connecting to servers and running programs; see
	// [tool.Env].
	Offline bool
	// Interpreters is the folder of the interpreters that code executors run, such as the
	// WebAssembly modules of wasi; empty means that there are none.
	Interpreters string
	// Functions are Go functions that documents may name.
	Functions agentconfig.Functions
	// MaxLLMCalls is max_llm_calls of apps whose run_config has none; nil is
	// [runtime.DefaultMaxLLMCalls], 0 or less means no limit.
	MaxLLMCalls *int
	// MissingKey, if set, is called in a load without errors for each model whose calls
	// would fail without a key or an address, with a warning of the rule model-key. Such
	// a model is not a problem of the app: its environment may differ where it runs.
	// Loads of several apps call it concurrently.
	MissingKey func(app string, use ModelUse, d spec.Diagnostic)
	// Logger receives the logs of models and tools; nil discards them.
	Logger *slog.Logger

	// documents are shared with the loaders of tests, whose client reaches no server.
	documents *documentCache
}

// New returns a loader of these kinds; options may be nil.
func New(kinds Kinds, opts *Options) *Loader {
	if opts == nil {
		opts = &Options{}
	}
	l := &Loader{
		opts:      *opts,
		kinds:     kinds,
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
	if l.opts.documents == nil {
		l.opts.documents = &documentCache{}
	}
	if l.opts.Logger == nil {
		l.opts.Logger = slog.New(slog.DiscardHandler)
	}
	return l
}

// Logger returns the logger of the loader's options; it discards logs if they have none.
func (l *Loader) Logger() *slog.Logger { return l.opts.Logger }

// WrapModels returns a loader that shares connections and logins with l, and wraps all
// models, outside of [Options].WrapModel.
func (l *Loader) WrapModels(wrap func(model.LLM) model.LLM) *Loader {
	own := *l
	own.opts.WrapModel = func(llm model.LLM) model.LLM { return wrap(l.opts.WrapModel(llm)) }
	own.opts.MissingKey = nil
	if own.opts.Model != nil {
		own.opts.Model = wrap(own.opts.Model)
	}
	return &own
}

// Isolate returns a loader whose apps answer with one model, send requests by one client, and
// neither connect to servers nor run programs.
func (l *Loader) Isolate(llm model.LLM, client *http.Client) *Loader {
	opts := l.opts
	opts.Model, opts.HTTP, opts.Offline, opts.WrapTool = llm, client, true, nil
	return New(l.kinds, &opts)
}

// AppName returns the name of the app in a folder, which is the folder's base name.
func AppName(dir string) string {
	full, err := filepath.Abs(dir)
	if err != nil {
		full = dir
	}
	return filepath.Base(full)
}

// CheckAppName returns an error if the name of a folder is not a valid app name.
// The folder need not exist.
func CheckAppName(dir string) error {
	ds := checkAppName(AppName(dir), dir)
	if err := ds.Err(); err != nil {
		return fmt.Errorf("%w: %s", err, ds[0].Hint)
	}
	return nil
}

// checkAppName checks the name of the app in a folder.
func checkAppName(name, displayDir string) spec.Diagnostics {
	if appName.MatchString(name) && name != "user" {
		return nil
	}
	return spec.Diagnostics{{
		Pos: spec.Pos{File: strings.TrimSuffix(displayDir, "/")}, Rule: "app-name",
		Message: "invalid app name \"" + name + "\": an app is named after its folder",
		Hint:    "use a letter followed by letters, digits, _ or -; user is reserved",
	}}
}

const (
	appFile   = "app.yaml"
	agentFile = "root_agent.yaml"
	// dotenvFile contains variables in addition to the environment.
	dotenvFile = ".env"
)

// appName matches the names that ADK allows for apps (adk-python apps/app.py).
var appName = regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9_-]*$`)
