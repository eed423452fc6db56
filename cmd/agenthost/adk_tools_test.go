package main

import (
	"os"
	"regexp"
	"testing"

	"agenthost/pkg/tool"
)

// docs/adk-tools.md lists each tool of ADK once: those that documents can use, and those for which
// check prints a reason.
func TestDocsADKTools(t *testing.T) {
	page, err := os.ReadFile("../../docs/adk-tools.md")
	if err != nil {
		t.Fatal(err)
	}
	supported := map[string]bool{"FunctionTool": true, "LongRunningFunctionTool": true}
	for _, k := range listKinds().Builtins {
		supported[k.Name] = true
	}
	for _, k := range listKinds().AgentTools {
		supported[k.Name] = true
	}
	delete(supported, "agent")      // the short form of AgentTool
	delete(supported, "MCPToolset") // the old name of McpToolset
	listed := map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^\\| `(\\w+)` \\| (yes|no) \\|").FindAllStringSubmatch(string(page), -1) {
		name, yes := row[1], row[2] == "yes"
		if listed[name] {
			t.Errorf("%s is listed twice", name)
		}
		listed[name] = true
		if yes != supported[name] {
			t.Errorf("the page lists %s as %s, supported: %t", name, row[2], supported[name])
		}
		if _, refused := tool.FindUnsupported(name); !yes && !refused {
			t.Errorf("%s has no reason in package tool", name)
		}
	}
	for name := range supported {
		if !listed[name] {
			t.Errorf("the page does not list %s", name)
		}
	}
	for _, one := range tool.UnsupportedTools() {
		if !listed[one.Name] && one.Hint != "" {
			t.Errorf("the page does not list %s", one.Name)
		}
	}
}
