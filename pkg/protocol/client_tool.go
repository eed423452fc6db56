package protocol

import (
	"context"
	"fmt"
	"regexp"

	"google.golang.org/genai"

	"agenthost/pkg/runtime"
	"agenthost/pkg/tool"
)

// MaxClientTools limits a request's tools.
const MaxClientTools = 128

var clientToolName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

// A clientTool is a tool that the client runs: a call waits for its result, which comes with a later
// message.
type clientTool struct{ decl *genai.FunctionDeclaration }

// NewClientTool returns a tool for [runtime.RunRequest.Tools]. schema is the JSON Schema for its
// parameters, nil for none. An error names the rule that the name breaks.
func NewClientTool(name, description string, schema map[string]any) (tool.Tool, error) {
	switch {
	case !clientToolName.MatchString(name):
		return nil, fmt.Errorf("the name must have 1 to 64 characters: letters, digits, _ and -, got %.70q", name)
	case runtime.IsReservedFunction(name):
		return nil, fmt.Errorf("the name %q is reserved", name)
	}
	decl := &genai.FunctionDeclaration{Name: name, Description: description}
	if schema != nil {
		decl.ParametersJsonSchema = schema
	}
	return &clientTool{decl}, nil
}

// Declaration implements [tool.Tool].
func (t *clientTool) Declaration() *genai.FunctionDeclaration { return t.decl }

// Run implements [tool.Tool]: the call has no result yet.
func (t *clientTool) Run(context.Context, *tool.Call) (*tool.Result, error) { return nil, nil }

// Capabilities are those of a tool whose result arrives later.
func (t *clientTool) Capabilities() tool.Capabilities { return tool.Capabilities{LongRunning: true} }
