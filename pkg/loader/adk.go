package loader

import (
	"context"
	"slices"
	"strings"

	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
	"agenthost/pkg/spec"
	"agenthost/pkg/tool"
)

// Here is what the Python, the Java and the Go of ADK write differently.

// normalizeClassName is the name of one of ADK's classes of agents without its package,
// which may stand in front of it in Python and in Java, with the module too.
// Agent is ADK's other name of LlmAgent.
func normalizeClassName(name string) string {
	if rest, ok := strings.CutPrefix(strings.TrimPrefix(name, "com."), "google.adk.agents."); ok {
		name = lastWord(rest)
	}
	if name == "Agent" {
		return "LlmAgent"
	}
	return name
}

// resolveModelCode is what stands in the place of an agent's model_code.
func (j *job) resolveModelCode(ctx context.Context, agent *spec.Node) model.LLM {
	code := agent.Get("model_code")
	ref := runtime.CodeRef(code)
	if ref == nil {
		j.report(code.Errorf("type", "model_code is the name of code: {name: my_pkg.models.one}"))
		return nil
	}
	if named := agent.Get("model"); !named.IsNull() {
		j.report(code.Errorf("model", "model_code stands in the place of model, which is there too"))
	}
	j.report(checkCodeArgs(code)...)
	f, ok := j.findFunction(ref.Value)
	switch {
	case !ok:
		j.report(missingCodeError(ref, "model", ref.Value, "say under functions: in app.yaml which model stands in its place, or name one under model:"))
		return nil
	case j.loader.opts.Model != nil || f.node.Kind == spec.Scalar:
		return j.resolveModel(ctx, f.node.Text())
	}
	return j.buildPartModel(ctx, ref.Value, f)
}

// checkCodeArgs tells of arguments beside a name of code. Python passes them to the
// code; what stands in its place here takes none.
func checkCodeArgs(ref *spec.Node) spec.Diagnostics {
	var ds spec.Diagnostics
	for _, e := range ref.Entries {
		if key := e.Key.Value; key == "args" || key == "params" {
			ds = append(ds, e.Key.Errorf("code", "%s are for code: what stands in its place here takes none", key).
				WithHint("write their values into what functions: has for the name"))
		}
	}
	return ds
}

// stripCodeArgs is a name of code without its arguments, which are told of.
func (j *job) stripCodeArgs(ref *spec.Node) *spec.Node {
	ds := checkCodeArgs(ref)
	if len(ds) == 0 || ref.Get("name") == nil {
		return ref
	}
	j.report(ds...)
	bare := *ref
	bare.Entries = slices.DeleteFunc(slices.Clone(ref.Entries), func(e spec.Entry) bool { return e.Key.Value == "args" || e.Key.Value == "params" })
	return &bare
}

// trimToolModule is ADK's short name of a tool that is named with its package or
// module, as Python imports it; any other name stays.
func trimToolModule(name string) string {
	if strings.HasPrefix(name, "google.adk.tools.") {
		return lastWord(name)
	}
	return name
}

// applyMappedClass is an agent of a class of code as functions: has it: with the class
// and the fields of the agent that stands there, where it does not say its own. It
// is nil when what stands there is wrong.
func (j *job) applyMappedClass(n *spec.Node) *spec.Node {
	class := n.Get("agent_class")
	if class.IsNull() || class.Kind != spec.Scalar || !isCodeName(class.Value) {
		return n
	}
	f, ok := j.findFunction(class.Value)
	if !ok {
		return n
	}
	var mapped runtime.AgentRef
	ds := mapped.DecodeSpec(f.node)
	j.report(ds...)
	switch {
	case ds.HasErrors():
		return nil
	case mapped.Inline == nil:
		j.report(f.node.Errorf("agent-ref", "the agent that stands for the class %s must be written out here: its fields are those of every agent of the class", class.Value))
		return nil
	}
	own := *n
	own.Entries = slices.DeleteFunc(slices.Clone(n.Entries), func(e spec.Entry) bool { return e.Key.Value == "agent_class" })
	for _, e := range f.node.Entries {
		if own.Get(e.Key.Value) == nil {
			own.Entries = append(own.Entries, e)
		}
	}
	return &own
}

// normalizeArgs is the args of a named tool as a mapping. The Java dialect writes
// them as a list of {name, value}; a tool without args has an empty mapping.
func normalizeArgs(ref *runtime.ToolRef) *spec.Node {
	empty := *ref.Node
	empty.Entries = nil
	if ref.Args == nil || ref.Args.IsNull() {
		return &empty
	}
	if ref.Args.Kind != spec.Sequence {
		return ref.Args
	}
	empty.Pos = ref.Args.Pos
	for _, item := range ref.Args.Items {
		if key, value := item.Get("name"), item.Get("value"); key != nil && value != nil {
			empty.Entries = append(empty.Entries, spec.Entry{Key: key, Value: value})
		}
	}
	return &empty
}

// normalizeAgentToolArgs is the args of AgentTool. The Go dialect has skip_summarization
// beside the reference to the agent.
func normalizeAgentToolArgs(args *spec.Node) *spec.Node {
	agent := args.Get("agent")
	skip := agent.Get("skip_summarization")
	if skip == nil || agent.Get("name") != nil || args.Get("skip_summarization") != nil {
		return args
	}
	ref := *agent
	ref.Entries = slices.DeleteFunc(slices.Clone(agent.Entries), func(e spec.Entry) bool { return e.Value == skip })
	moved := replaceKey(args, "agent", &ref)
	for _, e := range agent.Entries {
		if e.Value == skip {
			moved.Entries = append(moved.Entries, e)
		}
	}
	return moved
}

// resolveFunctionTool is ADK's class around a function: what stands in the place of the
// function, and is answered later when the class says so.
func (j *job) resolveFunctionTool(ctx context.Context, ref *runtime.ToolRef, t ancestry) []*resolvedTool {
	args := normalizeArgs(ref)
	at := args.Get("func")
	for _, e := range args.Entries {
		if e.Value != at {
			j.report(e.Key.Errorf("unknown-field", "unknown field %q", e.Key.Value).WithHint("the only field here is func"))
		}
	}
	if at.IsNull() || at.Kind != spec.Scalar {
		j.report(ref.Node.Errorf("required", "%s needs the name of a function: args: {func: NAME}", ref.Name.Value))
		return nil
	}
	name, longRunning := at.Value, trimToolModule(ref.Name.Value) == "LongRunningFunctionTool"
	if own, ok := j.loader.opts.Functions.Tools[name]; ok {
		if longRunning && !tool.CapabilitiesOf(own).LongRunning {
			j.report(at.Errorf("tool", "the program's tool %s is not long-running: name it as it is, without LongRunningFunctionTool", name))
			return nil
		}
		return []*resolvedTool{{set: j.wrapSet(tool.One(own))}}
	}
	f, ok := j.findFunction(name)
	if !ok {
		j.report(missingToolCodeError(at, name))
		return nil
	}
	if longRunning {
		f.node = markLongRunning(f.node)
	}
	return j.resolveMappedTool(ctx, f, name, t)
}

// markLongRunning is a tool of one kind with long_running.
func markLongRunning(n *spec.Node) *spec.Node {
	if n.Kind != spec.Mapping || len(n.Entries) != 1 || n.Entries[0].Value.Kind != spec.Mapping {
		return n
	}
	e := n.Entries[0]
	if e.Value.Get("long_running") != nil {
		return n
	}
	return replaceKey(n, e.Key.Value, e.Value.WithEntry("long_running", "true"))
}
