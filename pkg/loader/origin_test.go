package loader_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"agenthost/internal/testenv"
	"agenthost/pkg/loader"
	"agenthost/pkg/store"
)

// TestOriginsWithEffectiveSettings expects each occurrence of an agent in a revision with its
// effective settings: the inherited model, the root's global instruction, and the revision's
// overlay.
func TestOriginsWithEffectiveSettings(t *testing.T) {
	rev := &store.Revision{App: "desk", ID: "r", Files: map[string][]byte{
		"app.yaml":        []byte("models: {demo: {provider: gemini, model: x}}\ndefaults:\n  LlmAgent: {description: Ours.}\n"),
		"app.prod.yaml":   []byte("models: {demo: {model: y}}\n"),
		"sub/helper.yaml": []byte("name: helper\ninstruction: Help {who}.\nglobal_instruction: Not {mine}.\n"),
		"root_agent.yaml": []byte(`name: desk
model: demo
instruction: Ask.
global_instruction: Be {tone}.
sub_agents:
  - config_path: sub/helper.yaml
  - name: clerk
    model: ${env:CLERK}
    instruction: File.
    sub_agents:
      - {name: helper, instruction: Help here.}
`),
	}}
	found := loader.New(testenv.Kinds(), nil).Origins(t.Context(), rev, "helper")
	want := []*loader.Origin{{
		Agent: "helper", Class: "LlmAgent", At: "sub/helper.yaml:1:1",
		YAML: "name: helper  # sub/helper.yaml:1\n" +
			"instruction: \"Help {who}.\"  # sub/helper.yaml:2\n" +
			"global_instruction: \"Not {mine}.\"  # sub/helper.yaml:3\n" +
			"description: Ours.  # app.yaml:3\n",
		Model:     &loader.OriginPart{Name: "demo", Detail: "app.yaml:1:16", At: "root_agent.yaml:2:8"},
		Texts:     []loader.OriginText{{Field: "global_instruction", Source: "Be {tone}.", At: "root_agent.yaml:4:21"}, {Field: "instruction", Source: "Help {who}.", At: "sub/helper.yaml:2:14"}},
		StateUse:  loader.OriginPart{Name: "helper", At: "sub/helper.yaml:1:1", Reads: []loader.OriginKey{{Key: "who", At: "sub/helper.yaml:2:19"}, {Key: "tone", At: "root_agent.yaml:4:24"}}},
		Callbacks: []loader.OriginPart{}, Tools: []loader.OriginPart{},
	}, {
		Agent: "helper", Class: "LlmAgent", At: "root_agent.yaml:11:9",
		YAML: "name: helper  # root_agent.yaml:11\n" +
			"instruction: Help here.  # root_agent.yaml:11\n" +
			"description: Ours.  # app.yaml:3\n",
		Model:     &loader.OriginPart{Name: "${env:CLERK}", At: "root_agent.yaml:8:12"},
		Texts:     []loader.OriginText{{Field: "global_instruction", Source: "Be {tone}.", At: "root_agent.yaml:4:21"}, {Field: "instruction", Source: "Help here.", At: "root_agent.yaml:11:37"}},
		StateUse:  loader.OriginPart{Name: "helper", At: "root_agent.yaml:11:9", Reads: []loader.OriginKey{{Key: "tone", At: "root_agent.yaml:4:24"}}},
		Callbacks: []loader.OriginPart{}, Tools: []loader.OriginPart{},
	}}
	if diff := cmp.Diff(want, found); diff != "" {
		t.Errorf("Origins (-want +got)\n%s", diff)
	}
	if none := loader.New(testenv.Kinds(), nil).Origins(t.Context(), rev, "unknown"); len(none) != 0 {
		t.Errorf("Origins of an unknown agent = %v", none)
	}
}

// TestOriginOfEntry expects the tool that a client calls without a model, with the callbacks for it.
func TestOriginOfEntry(t *testing.T) {
	rev := &store.Revision{App: "desk", ID: "r", Files: map[string][]byte{
		"app.yaml": []byte("models: {demo: {provider: gemini, model: x}}\n"),
		"root_agent.yaml": []byte(`name: desk
model: demo
instruction: Ask.
before_agent_callbacks: [{set: {seen: "1"}}]
before_tool_callbacks: [{when: args.id == "", deny: No.}]
tools:
  - expr: {name: find, params: {id: string}, value: args.id, set: {last: args.id}}
`),
	}}
	tool := loader.OriginPart{Name: "find", Detail: "expr", At: "root_agent.yaml:7:11", Writes: []loader.OriginKey{{Key: "last", At: "root_agent.yaml:7:68"}}}
	want := []*loader.Origin{{
		Agent: "tool:find", Class: "ToolNode", At: "root_agent.yaml:7:11",
		YAML: "name: find  # root_agent.yaml:7\n" +
			"params:  # root_agent.yaml:7\n  id: string  # root_agent.yaml:7\n" +
			"value: args.id  # root_agent.yaml:7\n" +
			"set:  # root_agent.yaml:7\n  last: args.id  # root_agent.yaml:7\n",
		StateUse: tool, Tools: []loader.OriginPart{tool},
		Callbacks: []loader.OriginPart{{Name: "before_tool", Detail: "when, deny", At: "root_agent.yaml:5:25"}},
	}}
	if diff := cmp.Diff(want, loader.New(testenv.Kinds(), nil).Origins(t.Context(), rev, "tool:find")); diff != "" {
		t.Errorf("Origins (-want +got)\n%s", diff)
	}
	if none := loader.New(testenv.Kinds(), nil).Origins(t.Context(), rev, "tool:other"); len(none) != 0 {
		t.Errorf("Origins of an unknown tool = %v", none)
	}
}
