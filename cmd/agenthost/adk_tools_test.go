package main

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agenthost/internal/adktools"
	"agenthost/pkg/spec"
	"agenthost/pkg/tool"
	connections "agenthost/wing/connection"
	"agenthost/wing/mcptool"
	"agenthost/wing/openapitool"
)

// docs/adk-tools.md lists each ADK tool once: those that documents can use, and those for which
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
		if _, refused := adktools.FindUnsupported(name); !yes && !refused {
			t.Errorf("%s has no reason in package tool", name)
		}
	}
	for name := range supported {
		if !listed[name] {
			t.Errorf("the page does not list %s", name)
		}
	}
	for _, one := range adktools.UnsupportedTools() {
		if !listed[one.Name] && one.Hint != "" {
			t.Errorf("the page does not list %s", one.Name)
		}
	}
}

// TestUnsupportedTools checks that every name that ADK exports is supported, here, in the
// runtime or in package mcptool, or has a reason.
func TestUnsupportedTools(t *testing.T) {
	supported := []string{"AgentTool", "FunctionTool", "LongRunningFunctionTool", "McpToolset", "MCPToolset"}
	for _, k := range listKinds().Builtins {
		supported = append(supported, k.Name)
	}
	for _, name := range []string{
		"AgentTool", "APIHubToolset", "ApiRegistry", "AuthToolArguments", "BaseTool", "DiscoveryEngineSearchTool",
		"enterprise_web_search", "ExampleTool", "exit_loop", "FunctionTool", "get_user_choice", "google_maps_grounding",
		"google_search", "load_artifacts", "load_memory", "LongRunningFunctionTool", "McpToolset", "MCPToolset",
		"preload_memory", "RemoteMcpServer", "request_input", "SearchResultMode", "ToolContext", "transfer_to_agent",
		"TransferToAgentTool", "url_context", "VertexAiLoadProfilesTool", "VertexAiSearchTool",
	} {
		if _, refused := adktools.FindUnsupported(name); refused == slices.Contains(supported, name) {
			t.Errorf("%s: unsupported = %t", name, refused)
		}
	}
	byName := func(a, b adktools.UnsupportedTool) int {
		return strings.Compare(strings.ToLower(a.Name), strings.ToLower(b.Name))
	}
	if !slices.IsSortedFunc(adktools.UnsupportedTools(), byName) {
		t.Error("UnsupportedTools() are not sorted by name")
	}
}

// TestKindDescriptions checks that the reference has a sentence for each kind.
func TestKindDescriptions(t *testing.T) {
	for _, k := range slices.Concat(listKinds().Tools, listKinds().Builtins) {
		if !strings.HasSuffix(k.Doc, ".") {
			t.Errorf("kind %s: %q is not a sentence", k.Name, k.Doc)
		}
	}
}

// TestBuiltinNames: package adktools names the built-in tools, without the toolsets for servers and
// documents.
func TestBuiltinNames(t *testing.T) {
	var names []string
	for _, k := range listKinds().Builtins {
		if !slices.ContainsFunc(slices.Concat(mcptool.Toolsets[connections.ADKAuth](), openapitool.Toolsets[connections.ADKAuth](connections.Google{})), func(other spec.Kind[tool.Env, tool.Set]) bool { return other.Name == k.Name }) {
			names = append(names, k.Name)
		}
	}
	if diff := cmp.Diff(adktools.BuiltinNames(), names); diff != "" {
		t.Errorf("names (-adktools +kinds):\n%s", diff)
	}
}
