package tool

import (
	"context"
	"fmt"

	"google.golang.org/genai"
)

// An offlineSet connects to no server: it has the tools that the document
// names, which accept any arguments.
type offlineSet struct{ *mcpSet }

// Tools returns the tools of tool_filter.
func (s offlineSet) Tools(context.Context) ([]Tool, error) {
	var tools []Tool
	for _, name := range s.server.offer.ToolFilter {
		decl := anyArgsDeclaration(s.server.prefixedName(name))
		tools = append(tools, offlineTool{declaration{decl}, s.mcpSet})
	}
	if len(tools) == 0 {
		return nil, fmt.Errorf("%s is not called in tests: list its tools in tool_filter, and set their responses under tools", s.server.displayName())
	}
	return tools, nil
}

// anyArgsDeclaration declares a tool with unknown parameters.
func anyArgsDeclaration(name string) *genai.FunctionDeclaration {
	schema := objectSchema(map[string]any{})
	schema["additionalProperties"] = true
	return &genai.FunctionDeclaration{Name: name, Description: "A tool of an MCP server.", ParametersJsonSchema: schema}
}

type offlineTool struct {
	declaration
	set *mcpSet
}

// Capabilities returns the settings of the document.
func (t offlineTool) Capabilities() Capabilities { return t.set.capabilities }

// Run fails: tests must define the response of the tool.
func (t offlineTool) Run(context.Context, *Call) (*Result, error) {
	return nil, &EndError{Err: fmt.Errorf("tests call no mcp server: set the response of the tool with tools: {%s: {return: {…}}}", t.decl.Name)}
}
