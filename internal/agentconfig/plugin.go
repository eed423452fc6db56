package agentconfig

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"google.golang.org/genai"

	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
	"agenthost/pkg/spec"
	"agenthost/pkg/template"
	"agenthost/pkg/tool"
)

type contextFilterConfig struct {
	Keep   int          `yaml:"num_invocations_to_keep" doc:"Number of latest turns that models see, including the current one. Default: all."`
	Custom filterConfig `yaml:"custom_filter" doc:"Filter for those contents: an expression that is true for the contents to keep and can use content (role, text, calls, responses), index, count, state, user, session, run_config, invocation and agent; or {name: NAME}, a function in the program."`
}

// DecodeSpec requires at least one setting, and keeps at least the current turn.
func (c *contextFilterConfig) DecodeSpec(n *spec.Node) spec.Diagnostics {
	ds := spec.Decode(n, c)
	switch at := n.Get("num_invocations_to_keep"); {
	case ds.HasErrors():
	case at.IsNull() && n.Get("custom_filter").IsNull():
		ds = append(ds, n.Errorf("required", "context_filter requires num_invocations_to_keep or custom_filter"))
	case !at.IsNull() && c.Keep < 1:
		ds = append(ds, at.Errorf("value", "num_invocations_to_keep must be 1 or more; 1 is the current turn"))
	}
	return ds
}

// Bind resolves the function that custom_filter names.
func (c *contextFilterConfig) Bind(f *Functions) spec.Diagnostics {
	name := c.Custom.name
	if name.Value == "" {
		return nil
	}
	if c.Custom.filter = f.ContentFilters[name.Value]; c.Custom.filter != nil {
		return nil
	}
	return spec.Diagnostics{name.Errorf(0, "code", "unknown filter %s: functions registered for custom_filter: %s",
		name.Value, cmp.Or(strings.Join(slices.Sorted(maps.Keys(f.ContentFilters)), ", "), "none")).
		WithHint("write an expression that is true for the contents to keep, or register the function in Functions.ContentFilters")}
}

// StateUse describes the filter's expression.
func (c *contextFilterConfig) StateUse(*spec.Node) tool.StateUse {
	return tool.StateUse{Exprs: []tool.StateExpr{{Expr: c.Custom.expr, Env: filterEnv(), Bool: true}}}
}

func newContextFilter(_ context.Context, _ PluginEnv, c *contextFilterConfig) (*runtime.Plugin, error) {
	return runtime.NewContextFilter(c.Keep, c.Custom.filter), nil
}

// filterConfig is a filter in YAML: an expression that is true for the contents to keep, or {name:
// NAME} for a function.
type filterConfig struct {
	name   spec.Text
	expr   spec.Expr
	filter runtime.ContentFilter
}

// DecodeSpec accepts both forms and compiles the expression.
func (c *filterConfig) DecodeSpec(n *spec.Node) spec.Diagnostics {
	if n.Kind == spec.Mapping {
		var named struct {
			Name spec.Text `yaml:"name" required:"true"`
		}
		ds := spec.Decode(n, &named)
		c.name = named.Name
		return ds
	}
	if ds := c.expr.DecodeSpec(n); ds.HasErrors() {
		return ds
	}
	x, ds := compileExpr(c.expr, filterEnv(), template.CompileBool)
	if x != nil {
		c.filter = newExprFilter(x)
	}
	return ds
}

// filterEnv declares the names in a filter's expression.
func filterEnv() template.Env {
	env := runtime.ExprEnv()
	env["content"] = template.Env{"role": "", "text": "", "calls": []any{}, "responses": []any{}}
	env["index"], env["count"] = 0, 0
	return env
}

// SchemaSpec describes both forms.
func (*filterConfig) SchemaSpec() map[string]any {
	schema := nameOrMappingSchema()
	schema["title"] = "expression, or name of a function"
	return schema
}

// newExprFilter returns a filter that keeps the contents for which an expression
// is true. It always keeps the last content, which the model answers, and keeps
// calls together with the responses that directly follow them.
func newExprFilter(x *template.Expr) runtime.ContentFilter {
	return func(ctx context.Context, m *runtime.CallbackContext, contents []*genai.Content) ([]*genai.Content, error) {
		vars := m.Invocation.ExprVars()
		vars["count"] = len(contents)
		keep := make([]bool, len(contents))
		for i, c := range contents {
			vars["index"], vars["content"] = i, contentVars(c)
			ok, err := x.Bool(ctx, vars)
			if err != nil {
				return nil, err
			}
			keep[i] = ok || i == len(contents)-1
			if i > 0 && len(model.ResponsesOf(c)) > 0 {
				keep[i] = keep[i] || keep[i-1]
				keep[i-1] = keep[i]
			}
		}
		var rest []*genai.Content
		for i, c := range contents {
			if keep[i] {
				rest = append(rest, c)
			}
		}
		return rest, nil
	}
}

func contentVars(c *genai.Content) map[string]any {
	calls, responses := []any{}, []any{}
	for _, f := range model.CallsOf(c) {
		calls = append(calls, map[string]any{"name": f.Name, "args": f.Args})
	}
	for _, f := range model.ResponsesOf(c) {
		responses = append(responses, map[string]any{"name": f.Name, "response": f.Response})
	}
	return map[string]any{"role": c.Role, "text": model.TextOf(c), "calls": calls, "responses": responses}
}

type loggingConfig struct {
	Level    string `yaml:"level" enum:"debug|info" default:"info" doc:"Log level; failures are logged as warnings."`
	Contents bool   `yaml:"contents" default:"false" doc:"Whether to log message texts, arguments and results as well, truncated to 200 characters."`
}

func newLogging(_ context.Context, env PluginEnv, c *loggingConfig) (*runtime.Plugin, error) {
	opts := &runtime.LoggingOptions{Contents: c.Contents}
	if c.Level == "debug" {
		opts.Level = slog.LevelDebug
	}
	return runtime.NewLogging(env.Logger, opts), nil
}

type retryAndReflectConfig struct {
	MaxRetries int    `yaml:"max_retries" default:"3" doc:"Number of consecutive tool failures that are retried."`
	Throw      bool   `yaml:"throw_exception_if_retry_exceeded" default:"true" doc:"Whether one more failure ends the run; otherwise the model is instructed not to call the tool again."`
	Scope      string `yaml:"tracking_scope" enum:"invocation|global" default:"invocation" doc:"Whether tool failures are counted per run or across all runs in the app."`

	Model *retryModelConfig `yaml:"model" doc:"Also returns guidance to the model when its own response is malformed, and calls it again; {} for the defaults."`
}

// retryModelConfig is the YAML for ADK's ReflectAndRetryModelPlugin.
type retryModelConfig struct {
	MaxRetries int      `yaml:"max_retries" default:"3" doc:"How many consecutive failed responses from an agent's model are repeated."`
	Throw      bool     `yaml:"throw_exception_if_retry_exceeded" default:"true" doc:"Whether one more failure ends the run; otherwise it is an event with its error."`
	Scope      string   `yaml:"tracking_scope" enum:"invocation|global" default:"invocation" doc:"Whether failures are counted per run or across all runs of the app."`
	Errors     []string `yaml:"on_model_errors" doc:"Finish reasons and error codes of these responses. Default: [MALFORMED_FUNCTION_CALL]."`
}

// DecodeSpec rejects a negative count, and a list without codes.
func (c *retryModelConfig) DecodeSpec(n *spec.Node) spec.Diagnostics {
	ds := spec.Decode(n, c)
	if at := n.Get("max_retries"); c.MaxRetries < 0 {
		ds = append(ds, at.Errorf("value", "max_retries must be 0 or more, got %d", c.MaxRetries))
	}
	if at := n.Get("on_model_errors"); !at.IsNull() && len(c.Errors) == 0 {
		ds = append(ds, at.Errorf("value", "on_model_errors requires at least one code").WithHint("remove it for MALFORMED_FUNCTION_CALL, or remove model"))
	}
	return ds
}

// DecodeSpec rejects a negative count.
func (c *retryAndReflectConfig) DecodeSpec(n *spec.Node) spec.Diagnostics {
	ds := spec.Decode(n, c)
	if at := n.Get("max_retries"); !ds.HasErrors() && c.MaxRetries < 0 {
		ds = append(ds, at.Errorf("value", "max_retries must be 0 or more, got %d", c.MaxRetries))
	}
	return ds
}

func newRetryAndReflect(_ context.Context, _ PluginEnv, c *retryAndReflectConfig) (*runtime.Plugin, error) {
	p := runtime.NewRetryAndReflect(c.MaxRetries, &runtime.RetryAndReflectOptions{
		ContinueAfterRetries: !c.Throw, CountAcrossRuns: c.Scope == "global",
	})
	if m := c.Model; m != nil {
		models := runtime.NewRetryModel(m.MaxRetries, &runtime.RetryModelOptions{
			Codes: m.Errors, ContinueAfterRetries: !m.Throw, CountAcrossRuns: m.Scope == "global",
		})
		p.Callbacks.AfterModel = models.Callbacks.AfterModel
		p.Callbacks.OnToolError = append(models.Callbacks.OnToolError, p.Callbacks.OnToolError...)
	}
	return p, nil
}

type globalInstructionConfig struct {
	Instruction spec.Text `yaml:"instruction" required:"true" doc:"Instruction that every model gets first; {key} is replaced by the value in the session state."`
}

// StateUse describes the instruction.
func (c *globalInstructionConfig) StateUse(*spec.Node) tool.StateUse {
	return tool.StateUse{Texts: []tool.StateText{{Text: c.Instruction, Refs: stateKeyRefs(template.Parse(c.Instruction.Value))}}}
}

func newGlobalInstruction(_ context.Context, _ PluginEnv, c *globalInstructionConfig) (*runtime.Plugin, error) {
	return runtime.NewGlobalInstruction(newInstructionAt(c.Instruction)), nil
}

// noConfig is the YAML for a plugin without settings.
type noConfig struct{}

func newAddToMemory(_ context.Context, env PluginEnv, _ *noConfig) (*runtime.Plugin, error) {
	return runtime.NewAddToMemory(env.Logger), nil
}

func newSaveFiles(context.Context, PluginEnv, *noConfig) (*runtime.Plugin, error) {
	return runtime.NewSaveFilesAsArtifacts(), nil
}
