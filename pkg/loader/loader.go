// Package loader builds apps from folders of YAML, and keeps the apps of a host in sync with the
// folders. From file to app, in order:
//
//  1. [Discover] finds app folders: those with a root_agent.yaml or an app.yaml.
//  2. Files are read through the app's [os.Root]: files outside the folder
//     are not accessible.
//  3. ${env:…} references are resolved; each node keeps its position.
//  4. Nodes are decoded into the config structs of agents ([agentconfig]), tools
//     and models.
//  5. References are followed: config_path, use, models.
//  6. Rules check the whole app: names, cycles, unused parts.
//  7. Models, tools and agents are built, leaves first, into a [runtime.App].
//
// Every problem is a [spec.Diagnostic]; all of them are reported at once, and an error among them
// means that no app is built. check, run, serve and reload share this path; [Watch] only decides
// when to load.
package loader

import (
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
	// Secrets is the folder with secrets, as Kubernetes mounts them: APP/NAME is one app's secret,
	// NAME a shared one. A secret without a file is looked up in the environment and in the app's
	// .env. Policy controls which apps may use shared secrets and the environment.
	Secrets string
	// Overlay is the NAME in the file app.NAME.yaml that is merged into app.yaml, if the app has
	// one; empty is none.
	Overlay string
	// Open returns a file's unsaved content in an editor, by its full path; other files are read
	// from disk.
	Open func(path string) ([]byte, bool)
	// HTTP sends requests for models and tools, and controls which addresses are allowed; nil
	// creates a client for each app, guarded by Policy.
	HTTP *http.Client
	// ToolHTTP sends requests for tools instead of HTTP; nil uses HTTP.
	ToolHTTP *http.Client
	// Policy contains the apps' permissions; nil is the policy for local development. A program
	// that listens, or that has its own secrets in its environment, uses [ReadPolicy].
	Policy *Policy
	// Model, if set, replaces all apps' models.
	Model model.LLM
	// WrapModel, if set, wraps every model, such as [provider.Recorder.Wrap].
	WrapModel func(model.LLM) model.LLM
	// Prices has prices for models without their own price; nil has none.
	Prices *provider.PriceList
	// WrapTool, if set, wraps every tool that documents declare and every tool in Functions, such
	// as [RecordTools] and [ReplayTools]; it does not wrap built-in tools and agents.
	WrapTool func(tool.Tool) tool.Tool
	// Offline prevents tools from connecting to servers and running programs; see
	// [tool.Env].
	Offline bool
	// Interpreters is the folder with the interpreters that code executors run, such as wasi's
	// WebAssembly modules; empty means that there are none.
	Interpreters string
	// Functions are Go functions that documents may name.
	Functions agentconfig.Functions
	// MaxLLMCalls is max_llm_calls for apps whose run_config has none; nil is
	// [runtime.DefaultMaxLLMCalls], 0 or less means no limit.
	MaxLLMCalls *int
	// MissingKey, if set, is called in a load without errors for each model whose calls would fail
	// without a key or an address, with a warning under the rule model-key. Such a model is not the
	// app's problem: its environment may differ where it runs. Concurrent loads call it
	// concurrently.
	MissingKey func(app string, use ModelUse, d spec.Diagnostic)
	// Logger receives the logs from models and tools; nil discards them.
	Logger *slog.Logger

	// documents are shared with the test loaders, whose client reaches no server.
	documents *documentCache
}

// New returns a loader with these kinds; options may be nil.
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

// Logger returns the logger in the loader's options; it discards logs if they have none.
func (l *Loader) Logger() *slog.Logger { return l.opts.Logger }

// WrapModels returns a loader that shares connections and logins with l, and wraps all models,
// around [Options].WrapModel.
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

// IsolateTools returns a loader whose apps call their models, while their tools send requests by one
// client, and neither connect to servers nor run programs.
func (l *Loader) IsolateTools(client *http.Client) *Loader {
	opts := l.opts
	opts.ToolHTTP, opts.Offline, opts.WrapTool = client, true, nil
	return New(l.kinds, &opts)
}

// AppName returns a folder's app name, its base name.
func AppName(dir string) string {
	full, err := filepath.Abs(dir)
	if err != nil {
		full = dir
	}
	return filepath.Base(full)
}

// CheckAppName returns an error if a folder's name is not a valid app name. The folder need not
// exist.
func CheckAppName(dir string) error {
	return checkAppName(AppName(dir), dir).Err()
}

// checkAppName checks the name of a folder's app.
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
