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
	"agenthost/pkg/store"
	"agenthost/pkg/tool"
)

// Kinds list what documents may name, and what schemas, reference and checks know. A nil list has
// no kinds. A program appends its own kinds to those from our packages; if two kinds share a name,
// the first one is used. Loaders share the lists and do not change them.
type Kinds struct {
	// Models are the model providers, such as [provider.Kinds].
	Models spec.Kinds[provider.Env, model.LLM]
	// Tools are the tool kinds that documents declare by a key, such as those in package builtin.
	Tools spec.Kinds[tool.Env, tool.Set]
	// Builtins are the tools that documents name by name:, such as those in package builtin.
	Builtins spec.Kinds[tool.Env, tool.Set]
	// Agents are the agent classes, such as [AgentKinds].
	Agents spec.Kinds[AgentEnv, runtime.Agent]
	// AgentTools are the tools that run an agent or a model, such as
	// [AgentToolKinds].
	AgentTools spec.Kinds[AgentToolEnv, tool.Set]
	// Connections decodes and opens tool credentials, such as agenthost/wing/connection; nil if the
	// program has none.
	Connections connection.Kind
	// Plugins are app.yaml's plugins, such as [PluginKinds].
	Plugins spec.Kinds[PluginEnv, *runtime.Plugin]
	// Sections are app.yaml's keys for wings, such as chat. [runtime.App.Section] returns the result.
	Sections spec.Kinds[SectionEnv, any]
	// Executors are the code executors that agents name, besides built_in, expr and those in
	// [Functions], such as those in package agenthost/wing/wasi.
	Executors ExecutorKinds
	// Programs opens what runs programs for tools and executors, as package agenthost/wing/programs
	// does; nil if the program runs none. A loader opens one, which its apps share.
	Programs func(env ProgramEnv) ProgramHost
	// Live holds apps' live conversations, as agenthost/wing/live does; nil if the program has
	// none.
	Live runtime.LiveDriver
	// Files are the app files besides its documents, in the order of their schemas.
	Files []FileKind
	// Gates run in this order, each only if those before it found no errors.
	Gates []Gate
	// Evaluator opens a vendor's evaluation service with an app's variables, such as Vertex AI in
	// wing/gemini. It returns nil without a project, a region or credentials. A nil function means
	// that there is no such service.
	Evaluator func(ctx context.Context, env provider.Env) (HostedEvaluator, error)
}

// ProgramEnv has what runs programs from its loader.
type ProgramEnv struct {
	// Policy grants the programs.
	Policy *Policy
	// Logger is never nil.
	Logger *slog.Logger
}

// A ProgramHost runs apps' programs. It is safe for concurrent use.
type ProgramHost interface {
	// Runner returns the runner for the app in a folder.
	Runner(app, dir string) tool.ProgramRunner
	Close() error
}

// A FileKind is a kind of YAML files besides app documents, such as tests.
type FileKind struct {
	// Name is its schema's name, such as test.
	Name string
	// Matches reports whether an editor uses the schema for a file, by its path.
	Matches func(file string) bool
	// Schema returns its JSON Schema.
	Schema func() map[string]any
	// Owns, if set, reports whether a YAML file without the schema belongs to the kind, by its
	// path.
	Owns func(file string) bool
	// Names, if set, returns which names from the app an editor offers and finds: for the mapping's
	// keys, or the list's items, at a path if key is empty, else for a key's value in it. The path has
	// the step [] into a list.
	Names func(path []string, key string) NameKind
	// Suffixes end the names of all files that Names applies to, those without the schema included.
	Suffixes []string
	// Title, About and Reference are its reference chapter: the heading, a paragraph and the
	// sections.
	Title, About string
	Reference    func() []string
	// Check, if set, finds and reads the files in an app and reports their problems.
	Check func(context.Context, *Inspection)
}

// Includes reports by its path whether a file is of the kind.
func (k FileKind) Includes(file string) bool {
	return k.Matches(file) || k.Owns != nil && k.Owns(file)
}

// A NameKind is what an app's name refers to.
type NameKind int

// The name kinds; no name is the zero value.
const (
	NoNames NameKind = iota
	AgentNames
	ToolNames
	ModelNames
	// StateNames are state keys, StateValues those that the file gives values.
	StateNames
	StateValues
	SchemaNames
	FunctionNames
	ConnectionNames
	// Expressions are not names but read state keys, and may compare the names of agents and tools.
	Expressions
	// Scripts are a scripted model's answers, which call tools: a list, or a file.
	Scripts
	// CaseNames are the names of tests and cases, which no other file uses.
	CaseNames
)

// A Gate decides by its own means whether a changed app is activated.
type Gate struct {
	// Name is its name under gate in app.yaml, such as [runtime.GateTests].
	Name string
	// Rule is the rule for its failures.
	Rule string
	// Run returns the problems; an error keeps the app from being activated. The context ends with
	// the app's time budget.
	Run func(context.Context, *GateRun) spec.Diagnostics
	// Unsteady reports that the result costs money and may change while the app does not. A stored
	// revision, which has passed once, does not run such a gate again, and a requested reload
	// repeats a failed one.
	Unsteady bool
}

// A HostedEvaluator calls a vendor's evaluation service.
type HostedEvaluator interface {
	// Evaluate sends a request body, and returns the response body.
	Evaluate(ctx context.Context, body []byte) ([]byte, error)
	// Endpoint returns the service's address.
	Endpoint() provider.Endpoint
	// SetHTTP sets the client before the first call.
	SetHTTP(client *http.Client)
}

// A GateRun is one run of a [Gate].
type GateRun struct {
	// Loader loads the app again, such as with other models.
	Loader *Loader
	// Dir is the app's folder.
	Dir string
	// App is the app that waits for the gate, which owns it.
	App *runtime.App
	// Store has the host's sessions; nil without a host.
	Store *store.Store

	rule string
	// report, if not nil, is called when a gate begins and ends.
	report func(kind, reason string)
}

// DescribeFailure returns a problem with the app's folder under the gate's rule.
func (g *GateRun) DescribeFailure(message string) spec.Diagnostic {
	return spec.Diagnostic{Pos: spec.Pos{File: filepath.ToSlash(g.Dir)}, Rule: g.rule, Message: message}
}

// DescribeStop describes why a gate ended with ctx; done is what had run.
func (g *GateRun) DescribeStop(ctx context.Context, done string) spec.Diagnostic {
	cause := context.Cause(ctx)
	d := g.DescribeFailure(fmt.Sprintf("the gate stopped after %s: %s", done, cause))
	if e, ok := errors.AsType[*budgetError](cause); ok {
		d.Hint = "raise " + e.setting + " of reload in app.yaml"
	}
	return d
}

// A budgetError is the error when a gate exceeds its budget.
type budgetError struct{ limit, setting string }

// Error names the limit.
func (e *budgetError) Error() string { return "the gate exceeded its " + e.limit }

// NewBudgetError returns why a budget ended a gate: the limit, such as "cost budget of 1 US
// dollars", and the setting under reload in app.yaml that raises it.
func NewBudgetError(limit, setting string) error { return &budgetError{limit, setting} }
