package tool

import (
	"errors"
	"fmt"
	"regexp"

	"google.golang.org/genai"
)

// maxNameBytes bounds a tool's name, as Gemini does.
const maxNameBytes = 128

var validName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.:-]*$`)

// pendingNote is added to the description of a long-running tool, so that the
// model does not ask twice (adk-python tools/long_running_tool.py).
const pendingNote = "NOTE: this operation takes long. While an earlier call of it is pending or has returned " +
	"an intermediate status, do not call it again."

// A named is the part of a tool that says what it is. Tools embed it.
type declaration struct{ decl *genai.FunctionDeclaration }

// Declaration implements [Tool].
func (n declaration) Declaration() *genai.FunctionDeclaration { return n.decl }

// addPendingNote tells the model that the tool is answered later.
func (n declaration) addPendingNote() { n.decl.Description = WithPendingNote(n.decl.Description) }

// WithPendingNote is the description of a tool that is answered later: it tells
// the model not to call it twice.
func WithPendingNote(description string) string {
	if description == "" {
		return pendingNote
	}
	return description + "\n\n" + pendingNote
}

// A declared is a named tool that has its parameters at hand.
type declaredTool struct {
	declaration
	params *Params
}

// withCheckedArgs returns the call with checked arguments. The call itself stays as it
// is.
func (d *declaredTool) withCheckedArgs(call *Call) (*Call, error) {
	args, err := d.params.Check(call.Args)
	if err != nil {
		return nil, err
	}
	c := *call
	c.Args = args
	return &c, nil
}

// newDeclaredTool makes the declaration of a tool from the JSON Schema of its
// parameters. A tool that takes no arguments declares no parameters.
func newDeclaredTool(name, description string, schema map[string]any) (*declaredTool, error) {
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
	return &declaredTool{declaration: declaration{decl}, params: params}, nil
}

func checkName(name string) error {
	switch {
	case name == "":
		return errors.New("a tool needs a name")
	case len(name) > maxNameBytes:
		return fmt.Errorf("tool name %q is longer than %d bytes", name, maxNameBytes)
	case !validName.MatchString(name):
		return fmt.Errorf("tool name %q: a name starts with a letter or _ and goes on with letters, digits and _ . : -", name)
	}
	return nil
}
