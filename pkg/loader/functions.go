package loader

import (
	"context"
	"strings"

	"agenthost/pkg/runtime"
	"agenthost/pkg/spec"
)

// function finds what functions: has for a name of code.
func (j *job) function(name string) (part, bool) {
	f, ok := j.names.functions[name]
	if ok {
		j.use(f)
	}
	return f, ok
}

// mappedTool is the tool that functions: has for a name of code. Where it has
// no name of its own, it has the last word of that name, as the code would.
func (j *job) mappedTool(ctx context.Context, f part, name string, t trail) []*placedTool {
	mark := "function " + name
	if t.has(mark) {
		j.report(f.node.Errorf("cycle", "function %s stands for itself: %s", name, circle(t.passed, mark)))
		return nil
	}
	var ref runtime.ToolRef
	ds := ref.DecodeSpec(toolNamed(f.node, lastWord(name)))
	j.report(ds...)
	if ds.HasErrors() {
		return nil
	}
	return j.resolveTool(ctx, &ref, t.into(f.file, mark))
}

// lastWord is what a name of code ends with.
func lastWord(name string) string { return name[strings.LastIndex(name, ".")+1:] }

// toolNamed gives a tool of one kind a name where it has none.
func toolNamed(n *spec.Node, name string) *spec.Node {
	if n.Kind != spec.Mapping || len(n.Entries) != 1 {
		return n
	}
	e := n.Entries[0]
	if settings := named(e.Value, name); e.Key.Value != "use" && e.Key.Value != "name" && e.Key.Value != "agent" {
		return with(n, e.Key.Value, settings)
	}
	return n
}

// mappedAgent is the agent that functions: has for a name of code.
func (j *job) mappedAgent(ctx context.Context, f part, name string, t trail) *placed {
	var ref runtime.AgentRef
	ds := ref.DecodeSpec(f.node)
	j.report(ds...)
	if ds.HasErrors() {
		return nil
	}
	mark := "function " + name
	if t.has(mark) {
		j.report(f.node.Errorf("cycle", "agent %s stands below itself: %s", name, circle(t.passed, mark)))
		return nil
	}
	if ref.Inline != nil {
		ref.Inline = named(ref.Inline, lastWord(name))
	}
	return j.resolveRef(ctx, &ref, t.into(f.file, mark))
}

// needsCode words a name that only a program could supply, and the ways out.
func needsCode(at *spec.Node, what, name, ways string) spec.Diagnostic {
	return at.Errorf("code", "%s %s is code of another program, which this host does not have", what, name).WithHint("%s", ways)
}

// named gives a mapping a name, that of its key, where it has none.
func named(n *spec.Node, name string) *spec.Node {
	if n.Kind != spec.Mapping || n.Get("name") != nil {
		return n
	}
	return n.WithEntry("name", name)
}
