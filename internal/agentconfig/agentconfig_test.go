package agentconfig_test

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agenthost/internal/agentconfig"
	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
	"agenthost/pkg/spec"
	"agenthost/pkg/tool"
	"agenthost/pkg/tool/declare"
)

type silentModel struct{}

func (silentModel) Name() string { return "silent" }

func (silentModel) Generate(context.Context, *model.Request) iter.Seq2[*model.Response, error] {
	return func(func(*model.Response, error) bool) {}
}

func parseNode(t *testing.T, src string) *spec.Node {
	t.Helper()
	n, ds := spec.Parse("root_agent.yaml", []byte(src))
	if err := ds.Err(); err != nil {
		t.Fatal(err)
	}
	return n
}

// TestAgentKinds: each agent class is decoded, and built from the agents and tools that
// the loader resolves.
func TestAgentKinds(t *testing.T) {
	for _, tt := range []struct{ class, src, want string }{
		{"LlmAgent", "{name: a, instruction: 'Hi {x?}', output_key: out, include_contents: none}", "LlmAgent a silent 'Hi {x?}' out none"},
		{"SequentialAgent", "{name: a}", "SequentialAgent a [one two]"},
		{"ParallelAgent", "{name: a}", "ParallelAgent a [one two]"},
		{"LoopAgent", "{name: a, max_iterations: 3, until: state.done == true}", "LoopAgent a 3 [one two]"},
		{"RouterAgent", "{name: a, routes: [{when: state.x == 1, agent: {use: one}}, {agent: {use: two}}]}", "RouterAgent a [one two]"},
		{"Workflow", "{name: a, edges: [[START, one, {yes: two}]]}", "Workflow a [one two] {-1 0 0 <nil> <nil>} {0 1 1 yes <nil>}"},
		{"FunctionNode", "{name: a, expr: input + 1, output_key: out}", "FunctionNode a out"},
		{"ToolNode", "{name: a, tool_code: clock, args: {zone: state.zone}}", "ToolNode a"},
	} {
		t.Run(tt.class, func(t *testing.T) {
			kind, ok := agentconfig.AgentKinds().Lookup(tt.class)
			if !ok {
				t.Fatal("unknown class")
			}
			plan, ds := kind.Decode(parseNode(t, tt.src))
			if c, binds := plan.Config.(agentconfig.FunctionConfig); binds {
				ds = append(ds, c.Bind(&agentconfig.Functions{})...)
			}
			if err := ds.Err(); err != nil {
				t.Fatal(err)
			}
			agent, err := plan.Build(t.Context(), newAgentEnv(t, tt.class))
			if err != nil {
				t.Fatal(err)
			}
			app, err := runtime.NewApp("app", agent, &runtime.AppOptions{Model: silentModel{}})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, describeAgent(app.AgentInfo())); diff != "" {
				t.Errorf("agent (-want +got):\n%s", diff)
			}
		})
	}
}

// newAgentEnv returns what the loader has resolved for an agent.
func newAgentEnv(t *testing.T, class string) agentconfig.AgentEnv {
	t.Helper()
	switch class {
	case "LlmAgent", "FunctionNode":
		return agentconfig.AgentEnv{}
	case "ToolNode":
		clock, err := declare.Func("clock", "The time.", func(context.Context, *tool.Call, struct{}) (string, error) { return "noon", nil })
		if err != nil {
			t.Fatal(err)
		}
		return agentconfig.AgentEnv{Tools: []tool.Tool{clock}}
	}
	return agentconfig.AgentEnv{SubAgents: []runtime.Agent{runtime.NewLLM("one", nil), runtime.NewLLM("two", nil)}}
}

func describeAgent(p *runtime.AgentInfo) string {
	words := []string{p.Kind, p.Name}
	if p.Kind == "LlmAgent" {
		words = append(words, p.Model, "'"+p.Instruction+"'")
	}
	if p.MaxIterations != nil {
		words = append(words, fmt.Sprint(*p.MaxIterations))
	}
	if p.OutputKey != "" {
		words = append(words, p.OutputKey)
	}
	if p.IncludeContents != "" {
		words = append(words, string(p.IncludeContents))
	}
	var subs []string
	for _, sub := range p.Agents {
		subs = append(subs, sub.Name)
	}
	if len(subs) > 0 {
		words = append(words, fmt.Sprint(subs))
	}
	for _, e := range p.Edges {
		words = append(words, fmt.Sprint(e))
	}
	return strings.Join(words, " ")
}

// TestPluginKinds: each plugin is built with its minimal settings, under its own name.
func TestPluginKinds(t *testing.T) {
	settings := map[string]string{
		"add_to_memory": "{}", "context_filter": "{num_invocations_to_keep: 2, custom_filter: index > 0}", "global_instruction": "{instruction: Be brief.}",
		"logging": "{level: debug}", "retry_and_reflect": "{tracking_scope: global}", "save_files_as_artifacts": "{}",
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(settings)), agentconfig.PluginKinds().Names()); diff != "" {
		t.Errorf("plugins (-want +got):\n%s", diff)
	}
	for name, src := range settings {
		kind, _ := agentconfig.PluginKinds().Lookup(name)
		plan, ds := kind.Decode(parseNode(t, src))
		if err := ds.Err(); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		p, err := plan.Build(t.Context(), agentconfig.PluginEnv{Logger: slog.New(slog.DiscardHandler)})
		if err != nil || p.Name != name {
			t.Errorf("%s: plugin %v, %v", name, p, err)
		}
	}
}

// TestConditionErrorsHavePosition: a condition is compiled when it is decoded, and its errors have
// their position.
func TestConditionErrorsHavePosition(t *testing.T) {
	for _, tt := range []struct{ src, want string }{
		{"when: state.x == 1", ""},
		{"when: state.x ==", "root_agent.yaml:1:16: the expression ends too early [expression]"},
		{"when: stat.x", "root_agent.yaml:1:7: unknown name stat; did you mean state? [expression]"},
		{"when: [1]", "root_agent.yaml:1:7: expected a string, got a list [type]"},
	} {
		var c agentconfig.Condition
		got := c.DecodeSpec(parseNode(t, tt.src).Get("when")).Error()
		if got != tt.want || (c.Compiled != nil) != (tt.want == "") {
			t.Errorf("%s: %q, compiled %t; want %q", tt.src, got, c.Compiled != nil, tt.want)
		}
	}
}

// TestCallbacksKeepOrder: rules and Go function names become callbacks of their hook, in order.
func TestCallbacksKeepOrder(t *testing.T) {
	n := parseNode(t, `
name: a
before_agent_callbacks:
  - {when: state.closed == true, respond: We are closed.}
  - {name: till.greet}
after_tool_callbacks: [{name: till.greet}]
`)
	callbacks, ds := agentconfig.DecodeCallbacks(n, map[string]runtime.Callbacks{"till.greet": {BeforeAgent: []runtime.AgentFunc{nil}}})
	if len(callbacks.BeforeAgent) != 2 || len(callbacks.AfterTool) != 0 {
		t.Errorf("callbacks = %+v", callbacks)
	}
	if want := "root_agent.yaml:6:31: after_tool callback till.greet is code that this host does not have [code]"; len(ds) != 1 || ds[0].String() != want {
		t.Errorf("problems = %v, want %s", ds, want)
	}
	var hooks []string
	for _, use := range agentconfig.CallbackUses(n) {
		hooks = append(hooks, fmt.Sprintf("%s opaque=%t guarded=%t", use.Hook, use.Use.Opaque, use.Use.Guarded))
	}
	want := []string{"before_agent opaque=false guarded=true", "before_agent opaque=true guarded=true", "after_tool opaque=true guarded=false"}
	if diff := cmp.Diff(want, hooks); diff != "" {
		t.Errorf("CallbackUses (-want +got):\n%s", diff)
	}
}
