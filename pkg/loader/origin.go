package loader

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"strings"

	"agenthost/internal/agentconfig"
	"agenthost/pkg/runtime"
	"agenthost/pkg/spec"
	"agenthost/pkg/store"
	"agenthost/pkg/template"
	"agenthost/pkg/tool"
)

// An Origin describes an agent in a revision. Positions are in the revision's files, as
// file:line:column.
type Origin struct {
	Agent string `json:"agent"`
	Class string `json:"class"`
	At    string `json:"at"`
	// YAML is the effective agent without its sub-agents. Each line ends with the
	// position where it was written.
	YAML string `json:"yaml"`
	// Model is the model of the agent or its nearest ancestor with one; nil means the host's
	// default model.
	Model *OriginPart `json:"model,omitempty"`
	// Texts are the model's instruction templates: the root's global instruction and the agent's
	// instruction.
	Texts []OriginText `json:"-"`
	// Provider is where the expression is that computes the instruction, if any.
	Provider string `json:"-"`
	// Variables are the environment variables that the lines refer to.
	Variables []string `json:"variables,omitempty"`
	// StateUse is the agent's own state use.
	StateUse  OriginPart   `json:"-"`
	Callbacks []OriginPart `json:"callbacks"`
	Tools     []OriginPart `json:"tools"`
}

// An OriginText is an instruction with placeholders and its position.
type OriginText struct{ Field, Source, At string }

// An OriginPart is an agent's model, tool or callback.
type OriginPart struct {
	// Name is the name of the model or tool, or the callback's hook.
	Name string `json:"name"`
	// Detail is the tool kind, the callback's effect, or the position of the model's settings.
	Detail string `json:"does,omitempty"`
	At     string `json:"at"`
	// Reads and Writes are the state keys that it names.
	Reads  []OriginKey `json:"reads,omitempty"`
	Writes []OriginKey `json:"writes,omitempty"`
	// ReadsAny reports that it may read any state key.
	ReadsAny bool `json:"readsAny,omitempty"`
}

// An OriginKey is a state key and the position that names it.
type OriginKey struct {
	Key string `json:"key"`
	At  string `json:"at"`
}

// Origins finds an agent, or a tool that is an entry of the app (see [runtime.NewToolEntry]), in a
// revision. It returns one origin per declaration with that name, usually one. References to variables and secrets appear as they are written.
func (l *Loader) Origins(ctx context.Context, rev *store.Revision, agent string) []*Origin {
	r := l.newRevisionResolver(rev)
	defer r.held.close()
	r.resolveApp(ctx)
	var all []*Origin
	if r.app.root == nil {
		return nil
	}
	toolName, isEntry := runtime.ParseEntryName(agent)
	visitWithModel(r.app.root, spec.Text{}, func(p *resolvedAgent, model spec.Text) {
		var o *Origin
		switch {
		case isEntry:
			o = p.describeEntry(agent, toolName)
		case p.name == agent:
			o = r.describeOrigin(p, model)
		}
		if o != nil && !slices.ContainsFunc(all, func(known *Origin) bool { return known.At == o.At }) {
			all = append(all, o)
		}
	})
	return all
}

// describeEntry returns the origin of an entry that calls one of the agent's tools; nil if the agent
// does not have the tool.
func (p *resolvedAgent) describeEntry(entry, toolName string) *Origin {
	for _, t := range p.tools {
		if !slices.Contains(t.names, toolName) {
			continue
		}
		at := cmp.Or(t.node, t.at)
		part := newOriginPart(toolName, t.kind, at, t.collectStateUse())
		o := &Origin{Agent: entry, Class: "ToolNode", At: part.At, YAML: renderText(at), StateUse: part, Callbacks: []OriginPart{}, Tools: []OriginPart{part}}
		for _, c := range agentconfig.CallbackUses(p.plan.Node) {
			if strings.HasSuffix(c.Hook, "_tool") || c.Hook == "on_tool_error" {
				o.Callbacks = append(o.Callbacks, newOriginPart(c.Hook, strings.Join(c.Node.Keys(), ", "), c.Node, c.Use))
			}
		}
		return o
	}
	return nil
}

// visitWithModel visits an agent and its descendants, each with its effective model.
func visitWithModel(p *resolvedAgent, inherited spec.Text, visit func(p *resolvedAgent, model spec.Text)) {
	if name, _ := p.modelName(); name.Value != "" {
		inherited = name
	}
	visit(p, inherited)
	for _, sub := range slices.Concat(p.subs, toolAgents(p.tools)) {
		visitWithModel(sub, inherited, visit)
	}
}

func (r *resolver) describeOrigin(p *resolvedAgent, model spec.Text) *Origin {
	root, n := r.app.root, p.plan.Node
	o := &Origin{
		Agent: p.name, Class: p.plan.Kind.Name, At: n.Pos.String(), YAML: renderText(removeKey(n, "sub_agents")),
		StateUse:  newOriginPart(p.name, "", n, agentStateUse(root, p)),
		Callbacks: []OriginPart{}, Tools: []OriginPart{},
	}
	for _, text := range []struct {
		of    *resolvedAgent
		field string
	}{{root, "global_instruction"}, {p, "instruction"}} {
		if at := text.of.plan.Node.Get(text.field); !at.IsNull() && at.Kind == spec.Scalar {
			o.Texts = append(o.Texts, OriginText{text.field, at.Value, at.Pos.String()})
		}
	}
	if at := n.Get("instruction_provider"); !at.IsNull() {
		o.Provider = at.Pos.String()
	}
	for asked := range r.src.usedValues {
		name, ok := strings.CutPrefix(asked, "env ")
		if reference := "${env:" + name; ok && (strings.Contains(o.YAML, reference+"}") || strings.Contains(o.YAML, reference+":-")) {
			o.Variables = append(o.Variables, name)
		}
	}
	slices.Sort(o.Variables)
	if model.Value != "" {
		o.Model = &OriginPart{Name: model.Value, At: model.Pos.String()}
		if m, ok := r.app.names.models[model.Value]; ok {
			o.Model.Detail = m.node.Pos.String()
		}
	}
	for _, c := range agentconfig.CallbackUses(n) {
		o.Callbacks = append(o.Callbacks, newOriginPart(c.Hook, strings.Join(c.Node.Keys(), ", "), c.Node, c.Use))
	}
	for _, t := range p.tools {
		at := t.node
		if at == nil {
			at = t.at
		}
		for _, name := range t.names {
			o.Tools = append(o.Tools, newOriginPart(name, t.kind, at, t.collectStateUse()))
		}
	}
	return o
}

// agentStateUse returns an agent's state use, including the root's global instruction.
func agentStateUse(root, p *resolvedAgent) tool.StateUse {
	use := agentconfig.AgentUse(p.plan.Node, p.plan.Config)
	global := func(of *resolvedAgent) func(t tool.StateText) bool {
		at := of.plan.Node.Get("global_instruction")
		return func(t tool.StateText) bool { return at != nil && t.Text.Pos == at.Pos }
	}
	if p != root {
		use.Texts = slices.DeleteFunc(use.Texts, global(p))
		for _, t := range root.cachedStateUse().Texts {
			if global(root)(t) {
				use.Texts = append(use.Texts, t)
			}
		}
	}
	return use
}

func newOriginPart(name, does string, at *spec.Node, use tool.StateUse) OriginPart {
	part := OriginPart{Name: name, Detail: does, At: at.Pos.String(), ReadsAny: use.ReadsAny || use.Opaque}
	read := func(key string, at spec.Text, offset int) {
		part.Reads = append(part.Reads, OriginKey{key, at.At(offset).String()})
	}
	for _, t := range use.Texts {
		for _, ref := range t.Refs {
			read(ref.Name, t.Text, ref.Offset)
		}
	}
	for _, e := range use.Exprs {
		uses := template.UsesOf(e.Expr.Value, "state")
		part.ReadsAny = part.ReadsAny || uses.Whole
		for _, m := range uses.Members {
			read(m.Name, e.Expr.Text, m.Offset)
		}
	}
	for _, w := range use.Writes {
		part.Writes = append(part.Writes, OriginKey{w.Key.Value, w.Key.Pos.String()})
	}
	return part
}

// removeKey returns a copy of a mapping without a key.
func removeKey(n *spec.Node, key string) *spec.Node {
	rest := *n
	rest.Entries = slices.DeleteFunc(slices.Clone(n.Entries), func(e spec.Entry) bool { return e.Key.Value == key })
	return &rest
}

func renderText(n *spec.Node) string {
	var b bytes.Buffer
	_ = spec.Print(&b, n, true) // cannot fail for a buffer
	return b.String()
}
