package loader

import (
	"context"
	"slices"
	"strings"

	"agenthost/internal/agentconfig"
	"agenthost/pkg/spec"
	"agenthost/pkg/tool"
)

func missingToolCodeError(at *spec.Node, name string) spec.Diagnostic {
	return missingCodeError(at, "tool", name,
		"declare a replacement under functions in app.yaml, write a tool here, or register a Go function with this name")
}

// resolveMappedTool resolves the tool that functions: has for a code name. A tool without a name is
// named after the code name's last part.
func (r *resolver) resolveMappedTool(ctx context.Context, f part, name string, t ancestry) []*resolvedTool {
	mark := "function " + name
	if t.hasVisited(mark) {
		r.report(f.node.Errorf("cycle", "function %s refers to itself: %s", name, formatCycle(t.visited, mark)))
		return nil
	}
	var ref agentconfig.ToolRef
	ds := ref.DecodeSpec(addToolName(f.node, lastWord(name)))
	r.report(ds...)
	if ds.HasErrors() {
		return nil
	}
	return r.resolveTool(ctx, &ref, t.extendWith(f.file, mark))
}

// lastWord returns a dotted code name's last part.
func lastWord(name string) string { return name[strings.LastIndex(name, ".")+1:] }

// addToolName adds a name to a tool definition without one.
func addToolName(n *spec.Node, name string) *spec.Node {
	if n.Kind != spec.Mapping || len(n.Entries) != 1 {
		return n
	}
	e := n.Entries[0]
	if settings := addDefaultName(e.Value, name); e.Key.Value != "use" && e.Key.Value != "name" && e.Key.Value != "agent" {
		return replaceKey(n, e.Key.Value, settings)
	}
	return n
}

// resolveMappedAgent resolves the agent that functions: has for a code name.
func (r *resolver) resolveMappedAgent(ctx context.Context, f part, name string, t ancestry) *resolvedAgent {
	var ref agentconfig.AgentRef
	ds := ref.DecodeSpec(f.node)
	r.report(ds...)
	if ds.HasErrors() {
		return nil
	}
	mark := "function " + name
	if t.hasVisited(mark) {
		r.report(f.node.Errorf("cycle", "agent %s is its own descendant: %s", name, formatCycle(t.visited, mark)))
		return nil
	}
	if ref.Inline != nil {
		ref.Inline = addDefaultName(ref.Inline, lastWord(name))
	}
	return r.resolveRef(ctx, &ref, t.extendWith(f.file, mark))
}

// addDefaultName adds a name to a mapping without one.
func addDefaultName(n *spec.Node, name string) *spec.Node {
	if n.Kind != spec.Mapping || n.Get("name") != nil {
		return n
	}
	return n.WithEntry("name", name)
}

// applyMappedClass merges the agent that functions: maps a code class to into an agent with this
// class; the agent's own fields take precedence. It returns nil when the mapped agent is invalid.
func (r *resolver) applyMappedClass(n *spec.Node) *spec.Node {
	class := n.Get("agent_class")
	if class.IsNull() || class.Kind != spec.Scalar || !isCodeName(class.Value) {
		return n
	}
	f, ok := r.findFunction(class.Value)
	if !ok {
		return n
	}
	var mapped agentconfig.AgentRef
	ds := mapped.DecodeSpec(f.node)
	r.report(ds...)
	switch {
	case ds.HasErrors():
		return nil
	case mapped.Inline == nil:
		r.report(f.node.Errorf("agent-ref", "the agent for the class %s must be written inline: every agent of the class gets its fields", class.Value))
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

// resolveFunctionTool resolves FunctionTool and LongRunningFunctionTool to the tool
// that the program or functions: has for the function.
func (r *resolver) resolveFunctionTool(ctx context.Context, ref *agentconfig.ToolRef, t ancestry) []*resolvedTool {
	args := normalizeArgs(ref)
	at := args.Get("func")
	for _, e := range args.Entries {
		if e.Value != at {
			r.report(e.Key.Errorf("unknown-field", "unknown field %q", e.Key.Value).WithHint("use func, the only field of these args"))
		}
	}
	if at.IsNull() || at.Kind != spec.Scalar {
		r.report(ref.Node.Errorf("required", "%s requires the name of a function: args: {func: NAME}", ref.Name.Value))
		return nil
	}
	name, longRunning := at.Value, trimToolModule(ref.Name.Value) == "LongRunningFunctionTool"
	if own, ok := r.loader.opts.Functions.Tools[name]; ok {
		if longRunning && !tool.CapabilitiesOf(own).LongRunning {
			r.report(at.Errorf("tool", "the registered tool %s is not long-running: use FunctionTool or its plain name", name))
			return nil
		}
		return []*resolvedTool{{set: r.wrapSet(tool.One(own))}}
	}
	f, ok := r.findFunction(name)
	if !ok {
		r.report(missingToolCodeError(at, name))
		return nil
	}
	if n := f.node; longRunning && n.Kind == spec.Mapping && len(n.Entries) == 1 {
		if e := n.Entries[0]; e.Value.Kind == spec.Mapping && e.Value.Get("long_running") == nil {
			f.node = replaceKey(n, e.Key.Value, e.Value.WithEntry("long_running", "true"))
		}
	}
	return r.resolveMappedTool(ctx, f, name, t)
}

// isCodeName reports whether a name refers to code, not to a kind.
func isCodeName(name string) bool { return strings.Contains(name, ".") }

// missingCodeError reports a code name that this host has no implementation for.
func missingCodeError(at *spec.Node, what, name, ways string) spec.Diagnostic {
	return at.Errorf("code", "%s %s is code that this host does not have", what, name).WithHint("%s", ways)
}

// This file handles spellings that differ between ADK for Python, Java and Go.

// normalizeClassName removes the package and module that Python and Java allow before an ADK agent
// class. Agent is an alias for LlmAgent.
func normalizeClassName(name string) string {
	if rest, ok := strings.CutPrefix(strings.TrimPrefix(name, "com."), "google.adk.agents."); ok {
		name = lastWord(rest)
	}
	if name == "Agent" {
		return "LlmAgent"
	}
	return name
}

// trimToolModule shortens an ADK tool's import path to the tool's name; other names stay unchanged.
func trimToolModule(name string) string {
	if strings.HasPrefix(name, "google.adk.tools.") {
		return lastWord(name)
	}
	return name
}

// normalizeArgs returns a named tool's args as a mapping. ADK for Java writes them as a list with
// {name, value}; without args the mapping is empty.
func normalizeArgs(ref *agentconfig.ToolRef) *spec.Node {
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

// normalizeAgentToolArgs returns AgentTool's args. ADK for Go writes skip_summarization into the
// agent reference; it moves to the args.
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
