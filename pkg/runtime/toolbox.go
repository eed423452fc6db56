package runtime

import (
	"context"
	"slices"

	"google.golang.org/genai"

	"agenthost/pkg/tool"
)

// toolbox is what one LLM agent may use, prepared once.
type toolbox struct {
	byName  map[string]tool.Tool
	names   []string
	offered []*genai.Tool
	editors []namedEditor
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
		b.offered = []*genai.Tool{{FunctionDeclarations: decls}}
	}
	return b
}

// stocked is what the agent offers its model of these tools.
func (a *LLMAgent) stocked(tools []tool.Tool) *toolbox {
	b := newToolbox(tools)
	b.offered = a.opts.Code.offered(b.offered)
	return b
}

// stock asks the agent's sets which tools they have, once in each run of the
// agent: what a server offers may change, but not while a model counts on it.
func (inv *Invocation) stock(ctx context.Context) error {
	a, ok := inv.node.agent.(*LLMAgent)
	if !ok || len(inv.node.sets) == 0 || inv.stocked != nil {
		return nil
	}
	tools := slices.Clip(inv.node.fixed)
	for _, set := range inv.node.sets {
		more, err := set.Tools(ctx)
		switch {
		case ctx.Err() != nil:
			return AsRunError(ctx.Err())
		case err != nil:
			return failf(CodeToolFailed, err, "the tools of agent %s cannot be listed: %s", a.AgentName, err)
		}
		tools = append(tools, more...)
	}
	inv.stocked = a.stocked(tools)
	return nil
}

// tools are what the agent may use in this run.
func (inv *Invocation) tools() *toolbox {
	if inv.stocked != nil {
		return inv.stocked
	}
	return inv.node.tools
}
