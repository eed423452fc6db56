package runtime

import (
	"context"
	"slices"

	"google.golang.org/genai"

	"agenthost/pkg/tool"
)

// toolbox has the prepared tools of an LLM agent.
type toolbox struct {
	byName   map[string]tool.Tool
	names    []string
	declared []*genai.Tool
	editors  []namedEditor
}

type namedEditor struct {
	name string
	edit tool.RequestEditor
}

func newToolbox(tools []tool.Tool) *toolbox {
	b := &toolbox{byName: map[string]tool.Tool{}}
	var decls []*genai.FunctionDeclaration
	for _, t := range tools {
		d := t.Declaration()
		if e, ok := t.(tool.RequestEditor); ok {
			b.editors = append(b.editors, namedEditor{d.Name, e})
		}
		if tool.CapabilitiesOf(t).Builtin || b.byName[d.Name] != nil {
			continue
		}
		b.byName[d.Name] = t
		b.names = append(b.names, d.Name)
		decls = append(decls, d)
	}
	if len(decls) > 0 {
		b.declared = []*genai.Tool{{FunctionDeclarations: decls}}
	}
	return b
}

// buildToolbox returns the toolbox of the agent with these tools.
func (a *LLMAgent) buildToolbox(tools []tool.Tool) *toolbox {
	b := newToolbox(tools)
	b.declared = a.opts.Code.withBuiltinTool(b.declared)
	return b
}

// loadToolsets lists the tools of the agent's sets, once per run of the agent: the
// tools of a server may change between runs, but not during one.
func (inv *Invocation) loadToolsets(ctx context.Context) error {
	a, ok := inv.node.agent.(*LLMAgent)
	if !ok || len(inv.node.toolsets) == 0 || inv.toolbox != nil {
		return nil
	}
	tools := slices.Clip(inv.node.staticTools)
	for _, set := range inv.node.toolsets {
		more, err := set.Tools(ctx)
		switch {
		case ctx.Err() != nil:
			return AsRunError(ctx.Err())
		case err != nil:
			return failf(CodeToolFailed, err, "listing the tools of agent %s failed: %s", a.AgentName, err)
		}
		tools = append(tools, more...)
	}
	inv.toolbox = a.buildToolbox(tools)
	return nil
}

// activeToolbox returns the toolbox of the agent in this run.
func (inv *Invocation) activeToolbox() *toolbox {
	if inv.toolbox != nil {
		return inv.toolbox
	}
	return inv.node.tools
}
