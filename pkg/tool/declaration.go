package tool

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"google.golang.org/genai"

	"agenthost/internal/jsonschema"
	"agenthost/pkg/template"
)

// maxNameBytes is Gemini's limit for tool names.
const maxNameBytes = 128

var validName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.:-]*$`)

// pendingNote is appended to the description of a long-running tool, so that
// the model does not call it twice (adk-python tools/long_running_tool.py).
const pendingNote = "NOTE: This is a long-running operation. Do not call this tool again if it has already returned " +

	"some intermediate or pending status."

// WithPendingNote returns the description of a long-running tool: it instructs
// the model not to call the tool twice.
func WithPendingNote(description string) string {
	if description == "" {
		return pendingNote
	}
	return description + "\n\n" + pendingNote
}

// Declared is a declaration with its compiled parameters. Tools embed it.
type Declared struct {
	decl   *genai.FunctionDeclaration
	params *Params
}

// Declaration implements [Tool].
func (d *Declared) Declaration() *genai.FunctionDeclaration { return d.decl }

// Params returns the compiled parameters.
func (d *Declared) Params() *Params { return d.params }

// DropUndeclared makes [Declared.CheckCall] drop the arguments that the schema does not name.
func (d *Declared) DropUndeclared() { d.params.dropsUndeclared = true }

// LeaveDefaults leaves the defaults of optional parameters to a service: sent values would
// differ from omitted ones, for example in an update. Those of required parameters are sent.
func (d *Declared) LeaveDefaults() { d.params.leavesDefaults = true }

// CheckCall returns a copy of the call with checked and normalized arguments: see
// [Params.Check].
func (d *Declared) CheckCall(ctx context.Context, call *Call) (*Call, error) {
	args, err := d.params.Check(ctx, call.Args)
	if err != nil {
		return nil, err
	}
	c := *call
	c.Args = args
	return &c, nil
}

// NewDeclared declares a tool with the JSON Schema of its parameters. A
// tool that takes no arguments declares no parameters.
func NewDeclared(name, description string, schema map[string]any) (*Declared, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	if len(schema) == 0 {
		schema = map[string]any{"type": "object", "properties": map[string]any{}}
	}
	decl := &genai.FunctionDeclaration{Name: name, Description: description, ParametersJsonSchema: schema}
	params, err := NewParams(decl)
	if err != nil {
		return nil, err
	}
	if params.takesNoArgs() {
		decl.ParametersJsonSchema = nil
	}
	return &Declared{decl, params}, nil
}

func checkName(name string) error {
	switch {
	case name == "":
		return errors.New("tool name is required")
	case len(name) > maxNameBytes:
		return fmt.Errorf("tool name %q exceeds the limit of %d bytes", name, maxNameBytes)
	case !validName.MatchString(name):
		return fmt.Errorf("tool name %q must start with a letter or _, followed by letters, digits and _ . : -", name)
	}
	return nil
}

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
func CheckArgs(ctx context.Context, decl *genai.FunctionDeclaration, args map[string]any) (map[string]any, error) {
	p, err := NewParams(decl)
	if err != nil {
		return nil, err
	}
	return p.Check(ctx, args)
}

// Params are the compiled parameters of a declaration. They are safe for
// concurrent use.
type Params struct {
	tool     string
	schema   map[string]any
	required []string
	compiled *jsonschema.Schema
	// dropsUndeclared is set for a signature, and leavesDefaults for the parameters of a
	// service.
	dropsUndeclared, leavesDefaults bool
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
	p.schema = jsonschema.Normalize(schema)
	for _, name := range asList(schema["required"]) {
		if s, ok := name.(string); ok {
			p.required = append(p.required, s)
		}
	}
	if p.compiled, err = jsonschema.Compile(p.schema); err != nil {
		return nil, fmt.Errorf("parameters of %s: %w", decl.Name, err)
	}
	return p, nil
}

// NewSignature is [NewParams] for parameters that are the signature of a function or the fields
// of a class in ADK: arguments that the schema does not name are dropped, unless it has
// additionalProperties or describes arguments in other ways.
func NewSignature(decl *genai.FunctionDeclaration) (*Params, error) {
	p, err := NewParams(decl)
	if err == nil {
		p.dropsUndeclared = !p.declaresElsewhere()
	}
	return p, err
}

// Check validates the arguments and returns them normalized: defaults are
// filled in, integers are int64, and null for an optional parameter counts as
// omitted. Arguments that the schema does not name are kept, unless it forbids
// them. args is not modified. The error is an [*ArgsError], or the cause of a context that ends.
func (p *Params) Check(ctx context.Context, args map[string]any) (map[string]any, error) {
	if missing := p.missingParams(args); len(missing) > 0 {
		return nil, &ArgsError{Tool: p.tool, Missing: missing}
	}
	n := newNormalizer(ctx)
	if p.compiled == nil {
		return n.normalizeObject(nil, args), n.err
	}
	if p.dropsUndeclared {
		args = p.selectDeclared(args)
	}
	given := n.normalizeObject(p.schema, args)
	err := n.err
	if err == nil {
		err = p.compiled.Validate(ctx, given)
	}
	if err == nil && !p.leavesDefaults {
		n.fillDefaults(p.schema, given)
		err = n.err
	}
	var invalid *jsonschema.InvalidError
	switch {
	case err == nil:
		return given, nil
	case errors.As(err, &invalid):
		return nil, &ArgsError{Tool: p.tool, Wrong: invalid.Lines("arguments")}
	case ctx.Err() != nil:
		return nil, err
	}
	return nil, &ArgsError{Tool: p.tool, Wrong: []string{err.Error()}}
}

// Required returns the names of the parameters that every call must have. The list is shared.
func (p *Params) Required() []string { return p.required }

// Sole returns the name of the only parameter, or else of the only required one; empty if there
// is neither.
func (p *Params) Sole() string {
	if props := asMap(p.schema["properties"]); len(props) == 1 {
		for name := range props {
			return name
		}
	}
	if len(p.required) == 1 {
		return p.required[0]
	}
	return ""
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

// selectDeclared returns the arguments that the schema names.
func (p *Params) selectDeclared(args map[string]any) map[string]any {
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

// SampleArgs returns a value of the right type for each parameter that every
// call has, and nil for the others. If undeclared parameters are accepted, any
// name is valid.
func (p *Params) SampleArgs() any {
	if p.acceptsUndeclared() {
		return map[string]any{}
	}
	props := asMap(p.schema["properties"])
	samples := make(template.Env, len(props))
	for name, prop := range props {
		samples[name] = nil
		if slices.Contains(p.required, name) || hasDefault(prop) {
			samples[name] = sampleValue(asMap(prop))
		}
	}
	return samples
}

// CheckPlaceholders rejects placeholders for undeclared parameters.
func (p *Params) CheckPlaceholders(refs []template.Ref) error {
	if p.acceptsUndeclared() {
		return nil
	}
	props := asMap(p.schema["properties"])
	for _, ref := range refs {
		root, rest, _ := strings.Cut(ref.Name, ".")
		name, _, _ := strings.Cut(rest, ".")
		if _, ok := props[name]; ok || root != "args" || rest == "" {
			continue
		}
		return &template.Error{
			Offset: ref.Offset,
			Msg:    fmt.Sprintf("{%s}: unknown parameter; declared: %s", ref.Name, joinNames(props)),
		}
	}
	return nil
}

func joinNames(m map[string]any) string {
	if len(m) == 0 {
		return "none"
	}
	return strings.Join(slices.Sorted(maps.Keys(m)), ", ")
}
