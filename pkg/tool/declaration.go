package tool

import (
	"errors"
	"fmt"
	"regexp"

	"google.golang.org/genai"
)

// maxNameBytes is Gemini's limit for tool names.
const maxNameBytes = 128

var validName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.:-]*$`)

// pendingNote is appended to the description of a long-running tool, so that
// the model does not call it twice (adk-python tools/long_running_tool.py).
const pendingNote = "NOTE: This is a long-running operation. Do not call it again while an earlier call is pending " +
	"or has returned an intermediate status."

// A declaration is the part of a tool that declares it to the model. Tools
// embed it.
type declaration struct{ decl *genai.FunctionDeclaration }

// Declaration implements [Tool].
func (n declaration) Declaration() *genai.FunctionDeclaration { return n.decl }

// addPendingNote appends the note for long-running tools to the description.
func (n declaration) addPendingNote() { n.decl.Description = WithPendingNote(n.decl.Description) }

// WithPendingNote returns the description of a long-running tool: it instructs
// the model not to call the tool twice.
func WithPendingNote(description string) string {
	if description == "" {
		return pendingNote
	}
	return description + "\n\n" + pendingNote
}

// A declaredTool is a declaration with its compiled parameters.
type Declared struct {
	declaration
	params *Params
}

// CheckCall returns a copy of the call with checked and normalized arguments: see
// [Params.Check].
func (d *Declared) CheckCall(call *Call) (*Call, error) {
	args, err := d.params.Check(call.Args)
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
		schema = objectSchema(map[string]any{})
	}
	decl := &genai.FunctionDeclaration{Name: name, Description: description, ParametersJsonSchema: schema}
	params, err := NewParams(decl)
	if err != nil {
		return nil, err
	}
	if params.takesNoArgs() {
		decl.ParametersJsonSchema = nil
	}
	return &Declared{declaration: declaration{decl}, params: params}, nil
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
