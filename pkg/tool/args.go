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

// An ArgsError describes invalid arguments of a call. It is meant for the
// model, which may retry; the tool did not run.
type ArgsError struct {
	// Tool is the name of the tool that was called.
	Tool string
	// Missing lists the mandatory parameters without an argument, in the order
	// of the declaration.
	Missing []string
	// Wrong has a line for each invalid argument. It is empty if a parameter is
	// missing.
	Wrong []string
}

// Error returns the text for the model. For missing parameters it is that of
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
// [Params.Check]; reusing a Params is faster.
func CheckArgs(decl *genai.FunctionDeclaration, args map[string]any) (map[string]any, error) {
	p, err := NewParams(decl)
	if err != nil {
		return nil, err
	}
	return p.Check(args)
}

// Params are the compiled parameters of a declaration. They are safe for
// concurrent use.
type Params struct {
	tool     string
	schema   map[string]any
	required []string
	compiled *jsonschema.Schema
}

// NewParams compiles the parameters of a declaration from ParametersJsonSchema,
// or else from Parameters. A declaration with neither accepts any arguments.
// The error reports an invalid schema; references outside the schema are
// rejected.
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

// Check validates the arguments and returns them normalized: defaults are
// filled in, integers are int64, null for an optional parameter counts as
// omitted, and undeclared arguments are dropped as in ADK, unless the schema
// specifies additional properties. args is not modified. The error is an
// [*ArgsError].
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

// dropUndeclared removes undeclared arguments if the schema lists all
// properties in one place and does not mention others.
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

// declaresElsewhere reports whether the schema describes arguments outside of
// properties.
func (p *Params) declaresElsewhere() bool {
	return slices.ContainsFunc(
		[]string{"additionalProperties", "patternProperties", "$ref", "allOf", "anyOf", "oneOf"},
		func(key string) bool { _, ok := p.schema[key]; return ok },
	)
}

// takesNoArgs reports whether the schema declares no arguments.
func (p *Params) takesNoArgs() bool {
	return !p.acceptsUndeclared() && len(asMap(p.schema["properties"])) == 0
}

// acceptsUndeclared reports whether a call may have arguments that the schema
// does not name.
func (p *Params) acceptsUndeclared() bool {
	return p.declaresElsewhere() && p.schema["additionalProperties"] != false
}

// decodeSchema returns the schema as plain JSON values, or nil if there is
// none.
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
		return nil, errors.New("the schema must be a JSON object")
	}
	return schema, nil
}

// maxSchemaParts limits the objects and lists of a schema: compiling each takes
// about 20 µs and 20 KiB.
const maxSchemaParts = 2000

// countSchemaParts counts the objects and lists of a schema.
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
		return nil, fmt.Errorf("the schema has %d objects and lists, which exceeds the limit of %d", n, maxSchemaParts)
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
		return nil, fmt.Errorf("invalid JSON Schema: %s", strings.Join(argsErrors(invalid), "; "))
	}
	return nil, err
}

// A noLoader prevents schemas from reading files and the network.
type noLoader struct{}

func (noLoader) Load(url string) (any, error) {
	return nil, fmt.Errorf("reference to %s: references must stay within the schema", url)
}

// argsErrors lists the innermost validation errors of arguments, each with its
// path.
func argsErrors(e *jsonschema.ValidationError) []string { return validationErrors(e, "arguments") }

// validationErrors lists the innermost validation errors, each with its path;
// whole is the name of the top-level value, or "".
func validationErrors(e *jsonschema.ValidationError, whole string) []string {
	if len(e.Causes) > 0 {
		var lines []string
		for _, c := range e.Causes {
			lines = append(lines, validationErrors(c, whole)...)
		}
		return lines
	}
	message := e.BasicOutput().Error.String()
	place := cmp.Or(strings.Join(e.InstanceLocation, "."), whole)
	if place == "" {
		return []string{message}
	}
	return []string{place + ": " + message}
}
