package tool

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/genai"

	"agenthost/pkg/template"
)

// pendingNote is appended to a long-running tool's description, so that the model does not call it
// twice (adk-python tools/long_running_tool.py).
const pendingNote = "NOTE: This is a long-running operation. Do not call this tool again if it has already returned " +
	"some intermediate or pending status."

// WithPendingNote returns a long-running tool's description, which instructs the model not to call
// the tool twice.
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

// LeaveDefaults leaves optional parameters' defaults to a service: sent values would differ from
// omitted ones, for example in an update. Required parameters' defaults are sent.
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

// NewDeclared returns a declaration with its compiled parameters. A tool that takes no arguments
// declares no parameters.
func NewDeclared(decl *genai.FunctionDeclaration, params *Params) *Declared {
	if params.takesNoArgs() {
		decl.ParametersJsonSchema = nil
	}
	return &Declared{decl, params}
}

// An ArgsError describes a call's invalid arguments. It is meant for the model, which may retry;
// the tool did not run.
type ArgsError struct {
	// Tool is the called tool's name.
	Tool string
	// Missing lists the mandatory parameters without an argument, in declaration order.
	Missing []string
	// Wrong has a line for each invalid argument. It is empty if a parameter is
	// missing.
	Wrong []string
}

// Error returns the text for the model. For missing parameters it is the text from adk-python
// tools/function_tool.py.
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

// Params are a declaration's compiled parameters. They are safe for concurrent use.
type Params struct {
	tool      string
	schema    map[string]any
	required  []string
	validator Validator
	// dropsUndeclared is set for a signature, and leavesDefaults for a service's parameters.
	dropsUndeclared, leavesDefaults bool
}

// Params returns the schema as a tool's parameters. With a nil schema the tool accepts any
// arguments.
func (s *Schema) Params(name string) *Params {
	if s == nil {
		return &Params{tool: name}
	}
	p := &Params{tool: name, schema: s.schema, validator: s.validator}
	for _, required := range asList(s.schema["required"]) {
		if required, ok := required.(string); ok {
			p.required = append(p.required, required)
		}
	}
	return p
}

// ReadParams returns a declaration's parameters without compiling them: their Check converts
// arguments and does not validate them.
func ReadParams(decl *genai.FunctionDeclaration) (*Params, error) {
	schema, err := DecodeParams(decl)
	if schema == nil || err != nil {
		return &Params{tool: decl.Name}, err
	}
	return NewSchema(schema, schema, nil, nil).Params(decl.Name), nil
}

// TextParams returns the parameters for a declaration with string parameters, some with an enum.
// They need no compiler, and report the problems that a compiled schema would.
func TextParams(decl *genai.FunctionDeclaration) (*Params, error) {
	p, err := ReadParams(decl)
	p.validator = stringValidator(asMap(p.schema["properties"]))
	return p, err
}

// AsSignature returns the parameters as a function's signature or a class's fields in ADK:
// arguments that the schema does not name are dropped, unless it has additionalProperties or
// describes arguments in other ways.
func (p *Params) AsSignature() *Params {
	signature := *p
	signature.dropsUndeclared = !p.declaresElsewhere()
	return &signature
}

// Check validates the arguments and returns them normalized: defaults are filled in, integers are
// int64, and null for an optional parameter counts as omitted. Arguments that the schema does not
// name are kept, unless it forbids them. args is not modified. The error is an [*ArgsError], or an
// ended context's cause.
func (p *Params) Check(ctx context.Context, args map[string]any) (map[string]any, error) {
	if missing := p.missingParams(args); len(missing) > 0 {
		return nil, &ArgsError{Tool: p.tool, Missing: missing}
	}
	n := newNormalizer(ctx)
	if p.validator == nil {
		return n.normalizeObject(p.schema, args), n.err
	}
	if p.dropsUndeclared {
		args = p.selectDeclared(args)
	}
	given := n.normalizeObject(p.schema, args)
	err := n.err
	if err == nil {
		err = p.validator.Validate(ctx, given)
	}
	if err == nil && !p.leavesDefaults {
		n.fillDefaults(p.schema, given)
		err = n.err
	}
	var invalid InvalidError
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

// RequiredNames names the parameters that every call must have. The list is shared.
func (p *Params) RequiredNames() []string { return p.required }

// Sole returns the only parameter's name, or else the only required one's; empty if there is
// neither.
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

// declaresElsewhere reports whether the schema describes arguments outside properties.
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

// SampleArgs returns a value with the right type for each parameter that every call has, and nil
// for the others. If undeclared parameters are accepted, any name is valid.
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
