package tool

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"google.golang.org/genai"
)

// An ArgsError says what is wrong with the arguments of a call. It is meant
// for the model, which may try again: it is no failure of the tool, which was
// not asked.
type ArgsError struct {
	// Tool is the name of the tool that was called.
	Tool string
	// Missing are the mandatory parameters that were not given, in the order
	// of the declaration.
	Missing []string
	// Wrong has a line for each argument that does not fit its parameter.
	// Where something is missing, nothing else is looked at.
	Wrong []string
}

// Error is the text that the model gets. For missing parameters it is that of
// adk-python tools/function_tool.py.
func (e *ArgsError) Error() string {
	if len(e.Missing) > 0 {
		return fmt.Sprintf("Invoking `%s()` failed as the following mandatory input parameters are not present:\n%s\n"+
			"You could retry calling this tool, but it is IMPORTANT for you to provide all the mandatory parameters.",
			e.Tool, strings.Join(e.Missing, "\n"))
	}
	return fmt.Sprintf("Invoking `%s()` failed as the following input parameters are wrong:\n%s\n"+
		"You could retry calling this tool with parameters that fit its declaration.",
		e.Tool, strings.Join(e.Wrong, "\n"))
}

// CheckArgs checks the arguments of one call against a declaration. See
// [Params.Check]; a Params made once is quicker.
func CheckArgs(decl *genai.FunctionDeclaration, args map[string]any) (map[string]any, error) {
	p, err := NewParams(decl)
	if err != nil {
		return nil, err
	}
	return p.Check(args)
}

// Params are the parameters of a declaration, ready to check arguments. Many
// goroutines may use them.
type Params struct {
	tool     string
	schema   map[string]any
	required []string
	compiled *jsonschema.Schema
}

// NewParams reads the parameters of a declaration from ParametersJsonSchema,
// or else from Parameters. A declaration with neither takes any arguments. The
// error says what is wrong with the schema; a reference that leaves the schema
// is refused.
func NewParams(decl *genai.FunctionDeclaration) (*Params, error) {
	p := &Params{tool: decl.Name}
	schema, err := decodeSchema(decl)
	if err != nil {
		return nil, fmt.Errorf("parameters of %s: %w", decl.Name, err)
	}
	if schema == nil {
		return p, nil
	}
	p.schema = schema
	for _, name := range asList(schema["required"]) {
		if s, ok := name.(string); ok {
			p.required = append(p.required, s)
		}
	}
	if p.compiled, err = compileSchema(schema); err != nil {
		return nil, fmt.Errorf("parameters of %s: %w", decl.Name, err)
	}
	return p, nil
}

// Check returns the arguments as the tool is to get them: defaults are filled
// in, whole numbers are int64 where an integer is wanted, a null for an
// optional parameter counts as left out, and what no parameter has asked for
// is dropped as ADK does, unless the schema says something about additional
// properties. args itself stays as it is. The error is an [*ArgsError].
func (p *Params) Check(args map[string]any) (map[string]any, error) {
	if missing := p.missingParams(args); len(missing) > 0 {
		return nil, &ArgsError{Tool: p.tool, Missing: missing}
	}
	if p.compiled == nil {
		return normalizeObject(nil, args), nil
	}
	given := normalizeObject(p.schema, p.dropUndeclared(args))
	err := p.compiled.Validate(given)
	if err == nil {
		return given, nil
	}
	var invalid *jsonschema.ValidationError
	if !errors.As(err, &invalid) {
		return nil, &ArgsError{Tool: p.tool, Wrong: []string{err.Error()}}
	}
	return nil, &ArgsError{Tool: p.tool, Wrong: argsErrors(invalid)}
}

func (p *Params) missingParams(args map[string]any) []string {
	var names []string
	for _, name := range p.required {
		if _, ok := args[name]; !ok && !hasDefault(asMap(p.schema["properties"])[name]) {
			names = append(names, name)
		}
	}
	return names
}

// dropUndeclared leaves out what no parameter asks for, if the schema names all
// its properties in one place and leaves others unsaid.
func (p *Params) dropUndeclared(args map[string]any) map[string]any {
	if p.declaresElsewhere() {
		return args
	}
	props := asMap(p.schema["properties"])
	kept := make(map[string]any, len(args))
	for name, v := range args {
		if _, ok := props[name]; ok {
			kept[name] = v
		}
	}
	return kept
}

// declaresElsewhere says whether the schema speaks about arguments elsewhere than
// under properties.
func (p *Params) declaresElsewhere() bool {
	return slices.ContainsFunc(
		[]string{"additionalProperties", "patternProperties", "$ref", "allOf", "anyOf", "oneOf"},
		func(key string) bool { _, ok := p.schema[key]; return ok },
	)
}

// takesNoArgs says whether no call needs arguments.
func (p *Params) takesNoArgs() bool {
	return !p.acceptsUndeclared() && len(asMap(p.schema["properties"])) == 0
}

// acceptsUndeclared says whether a call may have arguments that the schema does not name.
func (p *Params) acceptsUndeclared() bool {
	return p.declaresElsewhere() && p.schema["additionalProperties"] != false
}

// decodeSchema returns the schema as plain JSON values, nil if there is none.
func decodeSchema(decl *genai.FunctionDeclaration) (map[string]any, error) {
	var src any
	switch {
	case decl.ParametersJsonSchema != nil:
		src = decl.ParametersJsonSchema
	case decl.Parameters != nil:
		src = convertGenaiSchema(decl.Parameters)
	default:
		return nil, nil
	}
	raw, err := json.Marshal(src)
	if err != nil {
		return nil, err
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	schema, ok := v.(map[string]any)
	if !ok {
		return nil, errors.New("the schema is not a JSON object")
	}
	return schema, nil
}

// maxSchemaParts bounds the mappings and lists of one schema: compiling each takes
// some twenty microseconds and as many KiB.
const maxSchemaParts = 2000

// countSchemaParts counts the mappings and lists of a schema.
func countSchemaParts(v any) int {
	n := 0
	switch v := v.(type) {
	case map[string]any:
		n = 1
		for _, inner := range v {
			n += countSchemaParts(inner)
		}
	case []any:
		n = 1
		for _, inner := range v {
			n += countSchemaParts(inner)
		}
	}
	return n
}

func compileSchema(schema map[string]any) (*jsonschema.Schema, error) {
	const at = "params:///schema"
	if n := countSchemaParts(schema); n > maxSchemaParts {
		return nil, fmt.Errorf("the schema has %d parts; at most %d are read", n, maxSchemaParts)
	}
	c := jsonschema.NewCompiler()
	c.UseLoader(noLoader{})
	if err := c.AddResource(at, schema); err != nil {
		return nil, err
	}
	s, err := c.Compile(at)
	if err == nil {
		return s, nil
	}
	var bad *jsonschema.SchemaValidationError
	var invalid *jsonschema.ValidationError
	if errors.As(err, &bad) && errors.As(bad.Err, &invalid) {
		return nil, fmt.Errorf("not a JSON Schema: %s", strings.Join(argsErrors(invalid), "; "))
	}
	return nil, err
}

// A noLoader keeps schemas from reading files and the network.
type noLoader struct{}

func (noLoader) Load(url string) (any, error) {
	return nil, fmt.Errorf("reference to %s: a schema may only refer to itself", url)
}

// argsErrors lists the innermost problems of arguments, each with its place.
func argsErrors(e *jsonschema.ValidationError) []string { return validationErrors(e, "arguments") }

// validationErrors lists the innermost problems, each with its place; whole is what
// the value at the top is called, if it has a name.
func validationErrors(e *jsonschema.ValidationError, whole string) []string {
	if len(e.Causes) > 0 {
		var lines []string
		for _, c := range e.Causes {
			lines = append(lines, validationErrors(c, whole)...)
		}
		return lines
	}
	said := e.BasicOutput().Error.String()
	place := cmp.Or(strings.Join(e.InstanceLocation, "."), whole)
	if place == "" {
		return []string{said}
	}
	return []string{place + ": " + said}
}
