package builtin

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genai"

	"agenthost/internal/tooltest"
	"agenthost/pkg/model"
	"agenthost/pkg/session"
	"agenthost/pkg/spec"
	"agenthost/pkg/tool"
	"agenthost/pkg/tool/declare"
	"agenthost/pkg/tool/httptool"
	"agenthost/wing/programs"
	"agenthost/wing/skills"
	"agenthost/wing/vertex/vertextool"
)

// requiredArgs are the args for the built-in tools that require some.
var requiredArgs = map[string]string{
	"DiscoveryEngineSearchTool": "{data_store_id: projects/p/locations/l/collections/c/dataStores/d}",

	"ExampleTool":          "{examples: []}",
	"SkillToolset":         "{skills: [skills]}",
	"VertexAiRagRetrieval": "{rag_corpora: [projects/p/locations/l/ragCorpora/1]}",
	"VertexAiSearchTool":   "{data_store_id: projects/p/locations/l/collections/c/dataStores/d}",
}

// allBuiltins are all packages' built-in tools.
func allBuiltins() spec.Kinds[tool.Env, tool.Set] {
	return slices.Concat(Builtins(), httptool.Builtins(), programs.Builtins(), skills.Builtins(), vertextool.Builtins()).SortByName()
}

// singleBuiltins are the built-in tools that are not toolsets.
func singleBuiltins() spec.Kinds[tool.Env, tool.Set] {
	return slices.DeleteFunc(allBuiltins(), func(k spec.Kind[tool.Env, tool.Set]) bool { return k.Name == "SkillToolset" })
}

func builtin(t *testing.T, name string) tool.Tool {
	t.Helper()
	k, ok := allBuiltins().Lookup(name)
	if !ok {
		t.Fatalf("Builtins().Lookup(%q) found nothing", name)
	}
	args := requiredArgs[name]
	if args == "" {
		args = "{}"
	}
	n, _ := spec.Parse("tool.yaml", []byte(args))
	plan, ds := k.Decode(n)
	if err := ds.Err(); err != nil {
		t.Fatal(err)
	}
	set, err := plan.Build(t.Context(), tooltest.NewEnv())
	if err != nil {
		t.Fatal(err)
	}
	return tooltest.OnlyTool(t, set)
}

// TestBuiltinDeclarations checks that each kind builds a tool with its own name and a valid schema.
// The function names of request_input and VertexAiLoadProfilesTool differ from their tool names.
func TestBuiltinDeclarations(t *testing.T) {
	for _, k := range singleBuiltins() {
		d, want := builtin(t, k.Name).Declaration(), k.Name
		switch want {
		case "request_input":
			want = "adk_request_input"
		case "DiscoveryEngineSearchTool":
			want = "discovery_engine_search"
		case "VertexAiLoadProfilesTool":
			want = "load_profiles"
		case "ExecuteBashTool":
			want = "execute_bash"
		}
		if d.Name != want {
			t.Errorf("builtin %s declares %s, want %s", k.Name, d.Name, want)
		}
		if _, err := declare.Params(d); err != nil {
			t.Errorf("builtin %s: %v", k.Name, err)
		}
	}
}

func TestBuiltinsTakeNoArgs(t *testing.T) {
	n, _ := spec.Parse("tool.yaml", []byte("{max: 3}"))
	for _, k := range allBuiltins() {
		if requiredArgs[k.Name] != "" {
			continue
		}
		_, ds := k.Decode(n)
		if want := `tool.yaml:1:2: unknown field "max" [unknown-field]`; strings.Join(ds.Strings(), "\n") != want {
			t.Errorf("%s with args = %v, want %s", k.Name, ds.Err(), want)
		}
	}
}

func TestBuiltinCalls(t *testing.T) {
	null := map[string]any{"result": nil}
	tests := []struct {
		name    string
		tool    tool.Tool
		args    map[string]any
		want    map[string]any
		actions session.Actions
	}{
		{"exit_loop", builtin(t, "exit_loop"), nil, null, session.Actions{Escalate: true, SkipSummarization: true}},
		{
			"transfer_to_agent", tool.NewTransfer([]string{"billing", "sales"}),
			map[string]any{"agent_name": "sales"},
			null,
			session.Actions{TransferToAgent: "sales"},
		},
		{
			"transfer_to_agent without targets", builtin(t, "transfer_to_agent"),
			map[string]any{"agent_name": "any"},
			null,
			session.Actions{TransferToAgent: "any"},
		},
		{
			"get_user_choice", builtin(t, "get_user_choice"),
			map[string]any{"options": []any{"a", "b"}},
			nil,
			session.Actions{SkipSummarization: true},
		},
		{
			"request_input", builtin(t, "request_input"),
			map[string]any{"message": "Where to?", "response_schema": map[string]any{"type": "string"}},
			nil,
			session.Actions{},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			call := tooltest.NewCall(tt.args, nil)
			got, err := tt.tool.Run(t.Context(), call)
			if err != nil {
				t.Fatalf("Run: %v", err)
			}
			if tt.want == nil && got != nil || tt.want != nil && !cmp.Equal(got.Response, tt.want) {
				t.Errorf("Run = %v, want %v", got, tt.want)
			}
			if diff := cmp.Diff(tt.actions, *call.Actions); diff != "" {
				t.Errorf("actions (-want +got):\n%s", diff)
			}
		})
	}
}

func TestBuiltinWrongArgs(t *testing.T) {
	const retry = "\nYou could retry calling this tool with parameters that fit its declaration."
	tests := []struct {
		name string
		tool tool.Tool
		args map[string]any
		want string
	}{
		{
			"agent not among the targets", tool.NewTransfer([]string{"billing", "sales"}),
			map[string]any{"agent_name": "boss"},
			"Invoking `transfer_to_agent()` failed as the following input parameters are wrong:\n" +
				"agent_name: value must be one of 'billing', 'sales'" + retry,
		},
		{
			"no question", builtin(t, "request_input"), nil,
			"Invoking `adk_request_input()` failed as the following mandatory input parameters are not present:\nmessage\n" +
				"You could retry calling this tool, but it is IMPORTANT for you to provide all the mandatory parameters.",
		},
		{
			"no agent", tool.NewTransfer(nil), nil,
			"Invoking `transfer_to_agent()` failed as the following mandatory input parameters are not present:\nagent_name\n" +
				"You could retry calling this tool, but it is IMPORTANT for you to provide all the mandatory parameters.",
		},
		{
			"options not a list", builtin(t, "get_user_choice"),
			map[string]any{"options": "a"},
			"Invoking `get_user_choice()` failed as the following input parameters are wrong:\noptions: got string, want array" + retry,
		},
		{
			"names not a list", builtin(t, "load_artifacts"),
			map[string]any{"artifact_names": "a"},
			"Invoking `load_artifacts()` failed as the following input parameters are wrong:\nartifact_names: got string, want array" + retry,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			call := tooltest.NewCall(tt.args, nil)
			_, err := tt.tool.Run(t.Context(), call)
			if diff := cmp.Diff(tt.want, tooltest.ErrorString(err)); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(session.Actions{}, *call.Actions); diff != "" {
				t.Errorf("a rejected call recorded actions (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTransferDeclaration(t *testing.T) {
	got := tool.NewTransfer([]string{"billing", "sales"}).Declaration().ParametersJsonSchema
	want := map[string]any{
		"type": "object",
		"properties": map[string]any{
			"agent_name": map[string]any{
				"type": "string", "description": "The agent to transfer to.", "enum": []any{"billing", "sales"},
			},
			"transfer_reason": map[string]any{
				"type": "string", "description": "Why that agent continues, and what it is to do. It reads this in the conversation, and does not transfer back for the same reason.",
			},
		},
		"required": []any{"agent_name"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("parameters (-want +got):\n%s", diff)
	}
}

func TestBuiltinCapabilities(t *testing.T) {
	want := map[string]tool.Capabilities{
		"enterprise_web_search": {RequestOnly: true}, "google_maps_grounding": {RequestOnly: true},
		"google_search": {RequestOnly: true}, "url_context": {RequestOnly: true}, "get_user_choice": {LongRunning: true},
		"exit_loop": {}, "transfer_to_agent": {}, "load_artifacts": {},
		"load_memory": {}, "preload_memory": {RequestOnly: true}, "request_input": {LongRunning: true},
		"ExecuteBashTool": {}, "ExampleTool": {RequestOnly: true}, "VertexAiLoadProfilesTool": {},
		"VertexAiRagRetrieval": {RequestOnly: true}, "VertexAiSearchTool": {RequestOnly: true}, "load_web_page": {Timeout: 30 * time.Second}, "DiscoveryEngineSearchTool": {Timeout: 30 * time.Second},
	}
	got := map[string]tool.Capabilities{}
	for _, k := range singleBuiltins() {
		got[k.Name] = tool.CapabilitiesOf(builtin(t, k.Name))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("capabilities (-want +got):\n%s", diff)
	}
}

func TestModelTools(t *testing.T) {
	tests := []struct {
		name string
		want *genai.Tool
	}{
		{"google_search", &genai.Tool{GoogleSearch: &genai.GoogleSearch{}}},
		{"url_context", &genai.Tool{URLContext: &genai.URLContext{}}},
		{"google_maps_grounding", &genai.Tool{GoogleMaps: &genai.GoogleMaps{}}},
		{"enterprise_web_search", &genai.Tool{EnterpriseWebSearch: &genai.EnterpriseWebSearch{}}},
	}
	functions := &genai.Tool{FunctionDeclarations: []*genai.FunctionDeclaration{{Name: "f"}}}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			shared := append(make([]*genai.Tool, 0, 8), functions)
			tool := builtin(t, tt.name)
			for range 2 {
				req := &model.Request{Config: &genai.GenerateContentConfig{Tools: shared}}
				edit(t, tool, req)
				edit(t, tool, req)
				if diff := cmp.Diff([]*genai.Tool{functions, tt.want}, req.Config.Tools); diff != "" {
					t.Errorf("tools after two edits (-want +got):\n%s", diff)
				}
			}
			if appended := shared[:2][1]; appended != nil {
				t.Errorf("EditRequest wrote %v into the shared list", appended)
			}
			_, err := tool.Run(t.Context(), tooltest.NewCall(nil, nil))
			if want := tt.name + " runs inside the model's service and cannot be called"; tooltest.ErrorString(err) != want {
				t.Errorf("Run error = %v, want %s", err, want)
			}
		})
	}
}

func edit(t *testing.T, it tool.Tool, req *model.Request) {
	t.Helper()
	if err := it.(tool.RequestEditor).EditRequest(t.Context(), tooltest.NewCall(nil, nil), req); err != nil {
		t.Fatalf("EditRequest: %v", err)
	}
}
