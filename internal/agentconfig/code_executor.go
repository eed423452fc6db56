package agentconfig

import (
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"agenthost/pkg/runtime"
	"agenthost/pkg/spec"
	"agenthost/pkg/tool"
)

// Executor names that need no kind: the model's own sandbox, and [runtime.ExprExecutor].
const (
	codeBuiltIn = "built_in"
	codeExpr    = "expr"
)

// ExecutorKinds are the code executors that a program lists. An executor's config has only its own
// settings, and may implement the interfaces of [ExecutorPlan].
type ExecutorKinds = spec.Kinds[ExecutorEnv, runtime.CodeExecutor]

// ExecutorUse is how an agent uses an executor.
type ExecutorUse struct {
	// Name is the executor's name in the document.
	Name spec.Text
	// Args are its settings as they are written, or nil.
	Args *spec.Node
	// Timeout and MaxOutput, in bytes, limit one execution.
	Timeout   time.Duration
	MaxOutput int
}

// ExecutorEnv has what an executor is built from. An executor that is an [io.Closer] is closed
// with its app.
type ExecutorEnv struct {
	ExecutorUse
	// Programs runs the executor's programs; nil means that none runs, as in tests.
	Programs tool.ProgramRunner
	// Interpreters is the interpreter folder, or empty.
	Interpreters string
	// Logger is never nil.
	Logger *slog.Logger
}

// An ExecutorPlan is an agent's executor, ready to be built.
type ExecutorPlan struct {
	spec.Plan[ExecutorEnv, runtime.CodeExecutor]
	Use ExecutorUse
}

// An executor's config implements the interfaces below that apply to it.
type (
	// An ExecutorChecker reports problems that its fields alone do not show.
	ExecutorChecker interface {
		CheckExecutor(use ExecutorUse) spec.Diagnostics
	}
	// A ProgramExecutor runs programs, which the host's policy must allow.
	ProgramExecutor interface {
		Programs(use ExecutorUse) []*tool.Program
	}
	// A HostChecker reports what the executor needs and the host does not have.
	HostChecker interface {
		CheckHost(env ExecutorEnv) spec.Diagnostics
	}
	// An ADKExecutor replaces an ADK class, whose name documents may also use.
	ADKExecutor interface{ ADKClass() string }
)

// Programs returns the executor's programs, if it runs some.
func (p *ExecutorPlan) Programs() []*tool.Program {
	if c, ok := p.Config.(ProgramExecutor); ok {
		return c.Programs(p.Use)
	}
	return nil
}

// CheckHost reports what the host does not have.
func (p *ExecutorPlan) CheckHost(env ExecutorEnv) spec.Diagnostics {
	if c, ok := p.Config.(HostChecker); ok {
		return c.CheckHost(env)
	}
	return nil
}

// codeConfig is a code executor's YAML: a name, or {name, args}.
type codeConfig struct {
	name spec.Text
	args *spec.Node
	// The following are set once the program's executors are known.
	execution *runtime.CodeExecution
	// builtIn reports that the model runs the code itself.
	builtIn bool
	// plan is for an executor of a kind, or nil.
	plan *ExecutorPlan
}

// codeArgs are the args of all executors but the model's own, named as in adk-python
// code_executors/base_code_executor.py.
type codeArgs struct {
	Stateful   bool            `yaml:"stateful" doc:"Keep the interpreter state between executions of a session, if the executor supports it."`
	Attempts   int             `yaml:"error_retry_attempts" default:"2" doc:"Maximum number of consecutive failures in one invocation, at least 1."`
	Delimiters []delimiterPair `yaml:"code_block_delimiters" doc:"Pairs of strings that delimit code; the first pair is used to show code to the model."`
	Result     delimiterPair   `yaml:"execution_result_delimiters" doc:"The two strings that delimit the code's result."`
	Timeout    spec.Duration   `yaml:"timeout" default:"30s" doc:"Timeout for one execution."`
	MaxOutput  spec.Size       `yaml:"max_output" default:"64KiB" doc:"Maximum size of each output that the model sees."`
}

type namedCode struct {
	Name spec.Text  `yaml:"name" required:"true" doc:"An executor's name, or an ADK class such as BuiltInCodeExecutor."`
	Args *spec.Node `yaml:"args" doc:"Settings of the executor."`
}

// DecodeSpec accepts both forms. bindExecutor decodes the args.
func (c *codeConfig) DecodeSpec(n *spec.Node) spec.Diagnostics {
	if n.Kind == spec.Scalar {
		return c.name.DecodeSpec(n)
	}
	var named namedCode
	ds := spec.Decode(n, &named)
	c.name = named.Name
	if !ds.HasErrors() && !named.Args.IsNull() {
		c.args = named.Args
	}
	return ds
}

// bindExecutor resolves the executor that a document names: the program's function, one of a kind,
// or one that needs no kind.
func (c *codeConfig) bindExecutor(kinds ExecutorKinds, f *Functions) spec.Diagnostics {
	if c.name.Pos == (spec.Pos{}) {
		return nil // the agent has none
	}
	c.translateName(kinds)
	c.execution, c.builtIn, c.plan = &runtime.CodeExecution{}, false, nil
	found := f.CodeExecutors[c.name.Value]
	kind, ofKind := kinds.Lookup(c.name.Value)
	if found == nil && !ofKind {
		if d, ok := c.reportUnlinked(kinds, f); ok {
			return spec.Diagnostics{d}
		}
	}
	if c.name.Value == codeBuiltIn && c.args != nil {
		return spec.Diagnostics{c.args.Errorf("code-executor", "built_in takes no args")}
	}
	ds, valid := c.decodeArgs(kinds)
	if valid {
		ds = append(ds, c.checkForeignArgs(kinds)...)
	}
	switch {
	case found != nil:
		c.execution.Executor = found
	case ofKind:
		own := c.planExecutor(kind)
		if valid {
			ds = append(ds, own...)
		}
	case c.name.Value == codeBuiltIn || c.name.Value == "":
		c.builtIn = true
	case c.name.Value == codeExpr:
		c.execution.Executor = runtime.ExprExecutor{}
	default:
		ds = append(ds, c.reportUnknown(kinds, f))
	}
	return ds
}

// decodeArgs decodes the args that all executors have. They are valid if all args are some
// executor's fields with values that can be decoded.
func (c *codeConfig) decodeArgs(kinds ExecutorKinds) (ds spec.Diagnostics, valid bool) {
	if c.args == nil {
		return nil, true
	}
	ds = spec.Decode(c.args, reflect.New(joinArgs(kinds)).Interface())
	var args codeArgs
	spec.Decode(spec.SelectFields(c.args, reflect.TypeFor[codeArgs]()), &args) // its problems are in ds
	if !ds.HasErrors() {
		ds = append(ds, args.validateArgs(c.args)...)
	}
	c.execution = &runtime.CodeExecution{
		Stateful: args.Stateful, Attempts: args.Attempts, Result: runtime.CodeDelimiters(args.Result),
		Timeout: time.Duration(args.Timeout), MaxOutput: int(args.MaxOutput),
	}
	for _, p := range args.Delimiters {
		c.execution.Blocks = append(c.execution.Blocks, runtime.CodeDelimiters(p))
	}
	return ds, !ds.HasErrors()
}

// joinArgs returns the type for all args: those that all executors have, and the kinds' args.
func joinArgs(kinds ExecutorKinds) reflect.Type {
	types := []reflect.Type{reflect.TypeFor[codeArgs]()}
	for _, k := range kinds {
		types = append(types, k.ConfigType())
	}
	return spec.JoinTypes(types...)
}

// checkForeignArgs reports args that only other executors have.
func (c *codeConfig) checkForeignArgs(kinds ExecutorKinds) (ds spec.Diagnostics) {
	if c.args == nil {
		return nil
	}
	owners := map[string][]string{}
	for _, k := range kinds {
		for _, key := range spec.SelectFields(c.args, k.ConfigType()).Keys() {
			owners[key] = append(owners[key], k.Name)
		}
	}
	for _, e := range c.args.Entries {
		if names := owners[e.Key.Value]; len(names) > 0 && !slices.Contains(names, c.name.Value) {
			slices.Sort(names)
			ds = append(ds, e.Value.Errorf("code-executor", "%s requires the executor %s", e.Key.Value, strings.Join(names, " or ")))
		}
	}
	return ds
}

// planExecutor decodes and checks a kind's executor args.
func (c *codeConfig) planExecutor(kind spec.Kind[ExecutorEnv, runtime.CodeExecutor]) spec.Diagnostics {
	own := c.args
	if own != nil {
		own = spec.SelectFields(own, kind.ConfigType())
	}
	plan, ds := kind.Decode(own)
	c.plan = &ExecutorPlan{plan, ExecutorUse{
		Name: c.name, Args: c.args, Timeout: c.execution.Timeout, MaxOutput: c.execution.MaxOutput,
	}}
	if checker, ok := plan.Config.(ExecutorChecker); ok {
		ds = append(ds, checker.CheckExecutor(c.plan.Use)...)
	}
	return ds
}

// reportUnlinked reports an executor from a package that the program does not use.
func (c *codeConfig) reportUnlinked(kinds ExecutorKinds, f *Functions) (spec.Diagnostic, bool) {
	hint, ok := HintSource(ExecutorList, adkExecutorClass(c.name.Value))
	return c.name.Errorf(0, "code-executor", "this program does not have the code executor %s: available are %s", c.name.Value, listExecutors(kinds, f)).
		WithHint("%s", hint), ok
}

// reportUnknown reports an executor that is in no package.
func (c *codeConfig) reportUnknown(kinds ExecutorKinds, f *Functions) spec.Diagnostic {
	class := adkExecutorClass(c.name.Value)
	if hint, ok := adkExecutorHints()[class]; ok {
		return c.name.Errorf(0, "code-executor", "ADK's %s is not supported", class).WithHint("%s", hint)
	}
	return c.name.Errorf(0, "code-executor", "unknown code executor %s: available are %s", c.name.Value, listExecutors(kinds, f)).
		WithHint("a program that embeds agenthost can register others in Functions.CodeExecutors")
}

// listExecutors lists the executors that documents can name, those in functions first.
func listExecutors(kinds ExecutorKinds, f *Functions) string {
	fixed := append(kinds.Names(), codeBuiltIn, codeExpr)
	slices.Sort(fixed)
	return strings.Join(append(slices.Sorted(maps.Keys(f.CodeExecutors)), fixed...), ", ")
}

// withExecutor returns the execution with a kind's built executor.
func (c *codeConfig) withExecutor(built runtime.CodeExecutor) *runtime.CodeExecution {
	if c.plan == nil {
		return c.execution
	}
	x := *c.execution
	x.Executor = built
	return &x
}

func (a *codeArgs) validateArgs(n *spec.Node) spec.Diagnostics {
	var ds spec.Diagnostics
	if a.Attempts < 1 {
		ds = append(ds, n.Get("error_retry_attempts").Errorf("value", "error_retry_attempts must be 1 or more, got %d", a.Attempts))
	}
	if a.Timeout <= 0 {
		ds = append(ds, n.Get("timeout").Errorf("value", "timeout must be more than 0"))
	}
	if a.MaxOutput <= 0 {
		ds = append(ds, n.Get("max_output").Errorf("value", "max_output must be more than 0"))
	}
	return ds
}

// delimiterPair is a list with two strings.
type delimiterPair runtime.CodeDelimiters

// DecodeSpec reads the list.
func (p *delimiterPair) DecodeSpec(n *spec.Node) spec.Diagnostics {
	var both []string
	ds := spec.Decode(n, &both)
	if !ds.HasErrors() && (len(both) != 2 || both[0] == "" || both[1] == "") {
		ds = append(ds, n.Errorf("value", "delimiters must be a list of two strings: the opening and the closing one"))
	}
	if !ds.HasErrors() {
		p.Before, p.After = both[0], both[1]
	}
	return ds
}

// SchemaSpec describes the list.
func (*delimiterPair) SchemaSpec() map[string]any {
	return map[string]any{"type": "array", "items": map[string]any{"type": "string", "minLength": 1}, "minItems": 2, "maxItems": 2, "title": "two strings"}
}

// SchemaSpec describes both forms without the kinds' args; [AddExecutors] adds those.
func (*codeConfig) SchemaSpec() map[string]any { return executorSchema(nil) }

func executorSchema(kinds ExecutorKinds) map[string]any {
	set := new(spec.SchemaSet)
	return map[string]any{"title": "a name, or [a name with args](language.md#code-execution)", "anyOf": []any{
		map[string]any{"type": "string"},
		map[string]any{
			"type": "object", "additionalProperties": false, "required": []string{"name"},
			"properties": map[string]any{
				"name": map[string]any{"type": "string"},
				"args": set.Object(joinArgs(kinds)),
			},
		},
	}}
}

// executorsMark is where the kinds' executors belong in code_executor's description.
const executorsMark = "{executors}"

// AddExecutors adds the kinds' executors to an agent class's schema, if it has a setting for them.
func AddExecutors(properties map[string]any, kinds ExecutorKinds) {
	old, ok := properties["code_executor"].(map[string]any)
	if !ok {
		return
	}
	schema := executorSchema(kinds)
	if doc, ok := old["description"].(string); ok {
		schema["description"] = DescribeExecutors(doc, kinds)
	}
	properties["code_executor"] = schema
}

// DescribeExecutors adds the kinds' executors to code_executor's description. Adjacent kinds with
// one description share it.
func DescribeExecutors(text string, kinds ExecutorKinds) string {
	var all strings.Builder
	for i, k := range kinds {
		all.WriteString(k.Name)
		if i+1 < len(kinds) && kinds[i+1].Doc == k.Doc {
			all.WriteString(" and ")
			continue
		}
		all.WriteString(" " + k.Doc + ", ")
	}
	return strings.ReplaceAll(text, executorsMark, all.String())
}
