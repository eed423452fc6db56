package tool

import (
	"context"
	"fmt"

	"google.golang.org/genai"
)

// An offlineSet asks no server: it has the tools that the document names, which
// take any arguments.
type offlineSet struct{ *mcpSet }

// Tools are those of tool_filter.
func (s offlineSet) Tools(context.Context) ([]Tool, error) {
	var tools []Tool
	for _, name := range s.server.offer.ToolFilter {
		decl := anyArgsDeclaration(s.server.prefixedName(name))
		tools = append(tools, offlineTool{declaration{decl}, s.mcpSet})
	}
	if len(tools) == 0 {
		return nil, fmt.Errorf("%s is not asked in a test: name its tools with tool_filter, and say what they answer under tools", s.server.displayName())
	}
	return tools, nil
}

// anyArgsDeclaration declares a tool of which it is not known what it takes.
func anyArgsDeclaration(name string) *genai.FunctionDeclaration {
	schema := objectSchema(map[string]any{})
	schema["additionalProperties"] = true
	return &genai.FunctionDeclaration{Name: name, Description: "A tool of an MCP server.", ParametersJsonSchema: schema}
}

type offlineTool struct {
	declaration
	set *mcpSet
}

// Capabilities say what the document asked for.
func (t offlineTool) Capabilities() Capabilities { return t.set.capabilities }

// Run says that there is nobody to ask.
func (t offlineTool) Run(context.Context, *Call) (*Result, error) {
	return nil, &EndError{Err: fmt.Errorf("a test asks no mcp server: say what the tool answers, with tools: {%s: {return: {…}}}", t.decl.Name)}
}
