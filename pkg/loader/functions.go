package loader

import (
	"context"
	"strings"

	"agenthost/pkg/runtime"
	"agenthost/pkg/spec"
)

// findFunction returns the entry of functions: for a name of code.
func (j *job) findFunction(name string) (part, bool) {
	f, ok := j.names.functions[name]
	if ok {
		j.markUsed(f)
	}
	return f, ok
}

// resolveMappedTool resolves the tool that functions: has for a name of code. A tool
// without a name is named after the last part of the code name.
func (j *job) resolveMappedTool(ctx context.Context, f part, name string, t ancestry) []*resolvedTool {
	mark := "function " + name
	if t.hasVisited(mark) {
		j.report(f.node.Errorf("cycle", "function %s refers to itself: %s", name, formatCycle(t.visited, mark)))
		return nil
	}
	var ref runtime.ToolRef
	ds := ref.DecodeSpec(addToolName(f.node, lastWord(name)))
	j.report(ds...)
	if ds.HasErrors() {
		return nil
	}
	return j.resolveTool(ctx, &ref, t.extendWith(f.file, mark))
}

// lastWord returns the last part of a dotted code name.
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

// resolveMappedAgent resolves the agent that functions: has for a name of code.
func (j *job) resolveMappedAgent(ctx context.Context, f part, name string, t ancestry) *resolvedAgent {
	var ref runtime.AgentRef
	ds := ref.DecodeSpec(f.node)
	j.report(ds...)
	if ds.HasErrors() {
		return nil
	}
	mark := "function " + name
	if t.hasVisited(mark) {
		j.report(f.node.Errorf("cycle", "agent %s is its own descendant: %s", name, formatCycle(t.visited, mark)))
		return nil
	}
	if ref.Inline != nil {
		ref.Inline = addDefaultName(ref.Inline, lastWord(name))
	}
	return j.resolveRef(ctx, &ref, t.extendWith(f.file, mark))
}

// missingCodeError reports a code name that this host has no implementation for.
func missingCodeError(at *spec.Node, what, name, ways string) spec.Diagnostic {
	return at.Errorf("code", "%s %s is code that this host does not have", what, name).WithHint("%s", ways)
}

// addDefaultName adds a name to a mapping without one.
func addDefaultName(n *spec.Node, name string) *spec.Node {
	if n.Kind != spec.Mapping || n.Get("name") != nil {
		return n
	}
	return n.WithEntry("name", name)
}
