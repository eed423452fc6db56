package loader

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"google.golang.org/genai"

	"agenthost/pkg/model"
	"agenthost/pkg/session"
)

// nodeApp has a workflow whose nodes call one tool each of one MCP server.
func nodeApp(node string) map[string]string {
	return map[string]string{
		"app.yaml": "resumability_config: {is_resumable: true}\ntools: {sums: {mcp: {url: URL}}}",
		"root_agent.yaml": "agent_class: Workflow\nname: flow\nedges:\n  - - START\n    - " + node + `
    - {agent_class: FunctionNode, name: note, expr: "'sum ' + string(input.structuredContent.sum)", message: true}
`,
	}
}

type sumArgs struct {
	A int `json:"a"`
	B int `json:"b"`
}

func addSum(_ context.Context, _ *mcp.CallToolRequest, args sumArgs) (*mcp.CallToolResult, map[string]int, error) {
	return nil, map[string]int{"sum": args.A + args.B}, nil
}

// TestMCPToolNode: a workflow node calls one tool of an MCP server, with arguments from expressions and
// the state. An unknown tool and a server that is not available end the run with the reason.
func TestMCPToolNode(t *testing.T) {
	for _, test := range []struct{ name, node, want string }{
		{"arguments and state", "{agent_class: ToolNode, name: add, tool_code: {use: sums}, tool_name: add, args: {a: '2'}}", "sum 5"},
		{"unknown", "{agent_class: ToolNode, name: add, tool_code: {use: sums}, tool_name: ad}", `unknown tool "ad", did you mean add?: the tools are add`},
		{"inline with a prefix", "{agent_class: ToolNode, name: add, tool_code: {mcp: {url: URL, tool_name_prefix: my}}, tool_name: my_add, args: {a: '1', b: '1'}}", "sum 2"},
		{"no server", "{agent_class: ToolNode, name: add, tool_code: {mcp: {url: 'http://127.0.0.1:1'}}, tool_name: add}", "node add cannot call add: mcp server 127.0.0.1:1 (root_agent.yaml:5:65): server unreachable"},
	} {
		t.Run(test.name, func(t *testing.T) {
			a := newMCPApp(t, nodeApp(test.node))
			mcp.AddTool(a.server, &mcp.Tool{Name: "add"}, addSum)
			got, _ := a.run(t, model.UserText("go"), map[string]any{"b": 3.0})
			if !strings.Contains(got, test.want) {
				t.Errorf("answer = %s\nwant %s", got, test.want)
			}
		})
	}
}

// TestMCPToolNodeConfirmation: the approval that an MCP server's tool needs pauses the node, and the
// workflow continues after the answer.
func TestMCPToolNodeConfirmation(t *testing.T) {
	a := newMCPApp(t, nodeApp("{agent_class: ToolNode, name: add, tool_code: {mcp: {url: URL, confirm: mcp.destructive}}, tool_name: add, args: {a: '1', b: '3'}}"))
	mcp.AddTool(a.server, &mcp.Tool{Name: "add"}, addSum)
	_, events := a.run(t, model.UserText("go"), nil)
	call := findLastCall(events)
	if call == nil || call.ID != "wf_tool_confirmation:flow@1/add@1" {
		t.Fatalf("the open call is %v", call)
	}
	answer := &genai.FunctionResponse{ID: call.ID, Name: call.Name, Response: map[string]any{"confirmed": true}}
	got, _ := a.run(t, &genai.Content{Role: genai.RoleUser, Parts: []*genai.Part{{FunctionResponse: answer}}}, nil)
	if got != "sum 4" {
		t.Errorf("answer = %s", got)
	}
}

func findLastCall(events []*session.Event) *genai.FunctionCall {
	var last *genai.FunctionCall
	for _, ev := range events {
		for _, c := range ev.Calls() {
			last = c
		}
	}
	return last
}

// TestMCPToolNodeInTests: tests call no server, so that the node's tool is the one that it names.
func TestMCPToolNodeInTests(t *testing.T) {
	e := newWatchEnv(t)
	for name, text := range nodeApp("{agent_class: ToolNode, name: add, tool_code: {use: sums}, tool_name: add}") {
		e.writeFile("x/"+name, strings.ReplaceAll(text, "URL", "http://127.0.0.1:1"))
	}
	app, ds := New(listKinds(), &Options{Offline: true}).Load(t.Context(), e.top+"/x")
	if ds.HasErrors() {
		t.Fatal(ds)
	}
	defer app.Close()
	var names []string
	for _, sub := range app.AgentInfo().Agents {
		for _, one := range sub.Tools {
			names = append(names, one.Declaration.Name)
		}
	}
	if got := fmt.Sprint(names); got != "[add]" {
		t.Errorf("tools %s", got)
	}
}
