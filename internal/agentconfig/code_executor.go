package agentconfig

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"agenthost/pkg/runtime"
	"agenthost/pkg/spec"
)

// CodeExpr is the name of [ExprExecutor] in documents.
const CodeExpr = "expr"

// CodeBuiltIn is the name, in documents, of the model's own sandbox.
const CodeBuiltIn = "built_in"

// codeConfig is the YAML of a code executor: a name, or {name, args}.
type codeConfig struct {
	name      spec.Text
	execution *runtime.CodeExecution
	program   codeProgram
}

// codeArgs are the args of an executor that is not the model's own, named as
// those of adk-python code_executors/base_code_executor.py.
type codeArgs struct {
	Stateful   bool            `yaml:"stateful" doc:"Keep the interpreter state between executions of a session, if the executor supports it."`
	Attempts   int             `yaml:"error_retry_attempts" default:"2" doc:"Maximum number of consecutive failures in one invocation, at least 1."`
	Delimiters []delimiterPair `yaml:"code_block_delimiters" doc:"Pairs of strings that delimit code; the first pair is used to show code to the model."`
	Result     delimiterPair   `yaml:"execution_result_delimiters" doc:"The pair of strings that delimits the result of the code."`
	Timeout    spec.Duration   `yaml:"timeout" default:"30s" doc:"Timeout of one execution."`
	MaxOutput  spec.Size       `yaml:"max_output" default:"64KiB" doc:"Maximum size of each output that the model sees."`
	Program    codeProgram     `yaml:",inline"`
}

type namedCode struct {
	Name spec.Text  `yaml:"name" required:"true" doc:"built_in, expr, wasi, command, container, a class of ADK such as BuiltInCodeExecutor, or the name of an executor registered by the program."`
	Args *spec.Node `yaml:"args" doc:"Settings of the executor."`
}

// DecodeSpec accepts both forms. Bind resolves the executor once the functions
// of the program are known.
func (c *codeConfig) DecodeSpec(n *spec.Node) spec.Diagnostics {
	c.execution = &runtime.CodeExecution{}
	if n.Kind == spec.Scalar {
		ds := c.name.DecodeSpec(n)
		c.translateName()
		return append(ds, c.checkProgram(nil)...)
	}
	var named namedCode
	ds := spec.Decode(n, &named)
	c.name = named.Name
	c.translateName()
	if ds.HasErrors() || named.Args.IsNull() {
		return append(ds, c.checkProgram(nil)...)
	}
	if c.name.Value == CodeBuiltIn {
		return append(ds, named.Args.Errorf("code-executor", "built_in takes no args"))
	}
	var args codeArgs
	ds = append(ds, spec.Decode(named.Args, &args)...)
	if !ds.HasErrors() {
		ds = append(ds, args.validateArgs(named.Args)...)
	}
	c.execution, c.program = args.buildExecution(), args.Program
	if !ds.HasErrors() {
		ds = append(ds, c.checkProgram(named.Args)...)
	}
	return ds
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

func (a *codeArgs) buildExecution() *runtime.CodeExecution {
	c := &runtime.CodeExecution{
		Stateful: a.Stateful, Attempts: a.Attempts, Result: runtime.CodeDelimiters(a.Result),
		Timeout: time.Duration(a.Timeout), MaxOutput: int(a.MaxOutput),
	}
	for _, p := range a.Delimiters {
		c.Blocks = append(c.Blocks, runtime.CodeDelimiters(p))
	}
	return c
}

// delimiterPair is a list of two strings.
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

// SchemaSpec describes both forms.
func (*codeConfig) SchemaSpec() map[string]any {
	set := new(spec.SchemaSet)
	return map[string]any{"title": "a name, or [a name with args](language.md#code-execution)", "anyOf": []any{
		map[string]any{"type": "string"},
		map[string]any{
			"type": "object", "additionalProperties": false, "required": []string{"name"},
			"properties": map[string]any{
				"name": map[string]any{"type": "string"},
				"args": set.Object(reflect.TypeFor[codeArgs]()),
			},
		},
	}}
}

// bindExecutor resolves the executor that a document names: a function of the
// program or a built-in one.
func (c *codeConfig) bindExecutor(f *Functions) spec.Diagnostics {
	if c.name.Value == "" {
		return nil
	}
	if found := f.CodeExecutors[c.name.Value]; found != nil {
		c.execution.Executor = found
		return nil
	}
	switch c.name.Value {
	case CodeBuiltIn:
	case CodeCommand, CodeContainer, CodeWasi:
		c.execution.Executor = &programExecutor{} // replaced when the agent is built
	case CodeExpr:
		c.execution.Executor = runtime.ExprExecutor{}
	default:
		if ds := c.refuseADKExecutor(); ds != nil {
			return ds
		}
		known := append(slices.Sorted(maps.Keys(f.CodeExecutors)), CodeBuiltIn, CodeCommand, CodeContainer, CodeExpr, CodeWasi)
		return spec.Diagnostics{c.name.Errorf(0, "code-executor", "unknown code executor %s: available are %s", c.name.Value, strings.Join(known, ", ")).
			WithHint("a program that embeds agenthost can register others in Functions.CodeExecutors")}
	}
	return nil
}
