package loader

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"

	"agenthost/pkg/connection"
	"agenthost/pkg/model"
	"agenthost/pkg/provider"
	"agenthost/pkg/runtime"
	"agenthost/pkg/spec"
	"agenthost/pkg/tool"
)

// Kinds list what documents may name, and what schemas, reference and checks know. A nil
// list has no kinds. A program appends its own kinds to those of our packages; of two kinds
// with the same name, the first one is used. Loaders share the lists and do not change them.
type Kinds struct {
	// Models are the providers of models, such as [provider.Kinds].
	Models spec.Kinds[provider.Env, model.LLM]
	// Tools are the kinds of tools that documents declare by a key, such as those of package builtin.
	Tools spec.Kinds[tool.Env, tool.Set]
	// Builtins are the tools that documents name by name:, such as those of package builtin.
	Builtins spec.Kinds[tool.Env, tool.Set]
	// Agents are the classes of agents, such as [AgentKinds].
	Agents spec.Kinds[AgentEnv, runtime.Agent]
	// AgentTools are the tools that run an agent or a model, such as
	// [AgentToolKinds].
	AgentTools spec.Kinds[AgentToolEnv, tool.Set]
	// Connections decodes and opens the credentials of tools, such as that of
	// agenthost/wing/connection; nil if the program has none.
	Connections connection.Kind
	// Plugins are the plugins of app.yaml, such as [PluginKinds].
	Plugins spec.Kinds[PluginEnv, *runtime.Plugin]
	// Executors are the code executors that agents name, besides built_in, expr and those of
	// [Functions], such as those of package agenthost/wing/wasi.
	Executors ExecutorKinds
	// Programs opens what runs the programs of tools and executors, as package
	// agenthost/wing/programs does; nil if the program runs none. A loader opens one, which its
	// apps share.
	Programs func(env ProgramEnv) ProgramHost
	// Live holds live conversations of apps, as agenthost/wing/live does; nil if the program
	// has none.
	Live runtime.LiveDriver
	// Files are the files of apps besides their documents, in the order of their schemas.
	Files []FileKind
	// Gates run in this order, each only if those before it found no errors.
	Gates []Gate
	// Evaluator opens the evaluation service of a vendor with the variables of an app, such
	// as that of Vertex AI in wing/gemini. It returns nil without a project, a region or
	// credentials. A nil function means that there is no such service.
	Evaluator func(ctx context.Context, env provider.Env) (HostedEvaluator, error)
}

// ProgramEnv has what runs programs from its loader.
type ProgramEnv struct {
	// Policy grants the programs.
	Policy *Policy
	// Logger is never nil.
	Logger *slog.Logger
}

// A ProgramHost runs the programs of apps. It is safe for concurrent use.
type ProgramHost interface {
	// Runner returns the runner of the app in a folder.
	Runner(app, dir string) tool.ProgramRunner
	Close() error
}

// A FileKind is a kind of YAML files besides the documents of apps, such as tests.
type FileKind struct {
	// Name is the name of its schema, such as test.
	Name string
	// Matches reports whether an editor uses the schema for a file, by its path.
	Matches func(file string) bool
	// Schema returns its JSON Schema.
	Schema func() map[string]any
	// Owns, if set, reports whether a YAML file without the schema belongs to the kind, by its
	// path.
	Owns func(file string) bool
	// Names, if set, returns which names of the app an editor offers: for the keys of the
	// mapping at a path if key is empty, else for the value of a key in it. The path has the
	// step [] into a list.
	Names func(path []string, key string) NameKind
	// Title, About and Reference are its chapter of the reference: the heading, a paragraph
	// and the sections.
	Title, About string
	Reference    func() []string
	// Check, if set, finds and reads the files in an app and reports their problems.
	Check func(context.Context, *Inspection)
}

// Includes reports whether a file is of the kind, by its path.
func (k FileKind) Includes(file string) bool {
	return k.Matches(file) || k.Owns != nil && k.Owns(file)
}

// A NameKind is what a name of an app names.
type NameKind int

// The kinds of names; no name is the zero value.
const (
	NoNames NameKind = iota
	AgentNames
	ToolNames
	ModelNames
)

// A Gate decides by its own means whether a changed app is activated.
type Gate struct {
	// Name is its name under gate in app.yaml, such as [runtime.GateTests].
	Name string
	// Rule is the rule of its failures.
	Rule string
	// Run returns the problems; an error keeps the app from being activated. The context
	// ends with the time budget of the app.
	Run func(context.Context, *GateRun) spec.Diagnostics
	// Unsteady reports that the result costs money and may change without a change of the
	// app. A stored revision, which has passed once, does not run such a gate again, and a
	// requested reload repeats a failed one.
	Unsteady bool
}

// A HostedEvaluator calls the evaluation service of a vendor.
type HostedEvaluator interface {
	// Evaluate sends the body of a request, and returns that of the response.
	Evaluate(ctx context.Context, body []byte) ([]byte, error)
	// Endpoint returns the address of the service.
	Endpoint() provider.Endpoint
	// SetHTTP sets the client before the first call.
	SetHTTP(client *http.Client)
}

// A GateRun is one run of a [Gate].
type GateRun struct {
	// Loader loads the app again, such as with other models.
	Loader *Loader
	// Dir is the folder of the app.
	Dir string
	// App is the app that waits for the gate, which owns it.
	App *runtime.App

	rule string
}

// DescribeFailure returns a problem of the app's folder under the rule of the gate.
func (g *GateRun) DescribeFailure(message string) spec.Diagnostic {
	return spec.Diagnostic{Pos: spec.Pos{File: filepath.ToSlash(g.Dir)}, Rule: g.rule, Message: message}
}

// DescribeStop returns the problem of a gate that ended with ctx; done is what had run.
func (g *GateRun) DescribeStop(ctx context.Context, done string) spec.Diagnostic {
	cause := context.Cause(ctx)
	d := g.DescribeFailure(fmt.Sprintf("the gate stopped after %s: %s", done, cause))
	if e, ok := errors.AsType[*budgetError](cause); ok {
		d.Hint = "raise " + e.setting + " of reload in app.yaml"
	}
	return d
}

// A budgetError is the error of a gate that exceeds its budget.
type budgetError struct{ limit, setting string }

// Error names the limit.
func (e *budgetError) Error() string { return "the gate exceeded its " + e.limit }

// NewBudgetError returns the cause of a gate's end by a budget: the limit, such as "cost
// budget of 1 US dollars", and the setting under reload in app.yaml that raises it.
func NewBudgetError(limit, setting string) error { return &budgetError{limit, setting} }
