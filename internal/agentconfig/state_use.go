package agentconfig

import (
	"maps"
	"slices"
	"strings"

	"agenthost/internal/toolconfig"
	"agenthost/pkg/runtime"
	"agenthost/pkg/spec"
	"agenthost/pkg/template"
	"agenthost/pkg/tool"
)

// StateUse returns how an agent's mapping uses the state, including its callbacks
// but not its tools and sub-agents. config was decoded from n.
func StateUse(n *spec.Node, config any) tool.StateUse {
	var u tool.StateUse
	for _, c := range CallbackUses(n) {
		u.Add(c.Use)
	}
	u.Add(AgentUse(n, config))
	return u
}

// A stateUser is an agent's config that reads or writes state keys.
type stateUser interface {
	stateUse(n *spec.Node) tool.StateUse
}

var _ = []stateUser{
	(*llmConfig)(nil), (*loopConfig)(nil), (*routerConfig)(nil), (*workflowConfig)(nil),
	(*functionNodeConfig)(nil), (*toolNodeConfig)(nil),
}

// AgentUse is [StateUse] without the callbacks.
func AgentUse(n *spec.Node, config any) tool.StateUse {
	var u tool.StateUse
	if when := n.Get("when"); !when.IsNull() {
		u.Exprs = append(u.Exprs, conditionExpr(spec.Expr{Text: when.Text()}, "when"))
	}
	if c, ok := config.(stateUser); ok {
		u.Add(c.stateUse(n))
	}
	return u
}

func conditionExpr(e spec.Expr, guard string) tool.StateExpr {
	return tool.StateExpr{Expr: e, Env: runtime.ExprEnv(), Bool: true, Guard: guard}
}

// stateKeyRefs returns the text's placeholders that refer to state keys.
func stateKeyRefs(t *template.Text) []template.Ref {
	refs := slices.Clone(t.Refs())
	return slices.DeleteFunc(refs, func(r template.Ref) bool { return r.Artifact })
}

func (c *llmConfig) stateUse(n *spec.Node) tool.StateUse {
	u := c.describeProviderUse()
	texts := []spec.Text{c.Instruction.Text, c.GlobalInstruction}
	if p := c.Instruction.prompt; p != nil {
		texts = append(texts, p.argTexts()...)
	}
	for _, text := range texts {
		u.Texts = append(u.Texts, tool.StateText{Text: text, Refs: stateKeyRefs(template.Parse(text.Value)), Begins: true})
	}
	if at := n.Get("output_key"); !at.IsNull() && c.OutputKey != "" {
		u.Writes = append(u.Writes, tool.StateWrite{
			Key: at.Text(), Verb: "output_key", Text: c.OutputSchema.schema == nil, Sure: len(c.Common.SubAgents) == 0,
		})
	}
	return u
}

func (c *loopConfig) stateUse(*spec.Node) tool.StateUse {
	if c.Until.Value == "" {
		return tool.StateUse{}
	}
	return tool.StateUse{Exprs: []tool.StateExpr{conditionExpr(c.Until, "until")}}
}

func (c *routerConfig) stateUse(*spec.Node) tool.StateUse {
	var u tool.StateUse
	for _, r := range c.Routes {
		if r.When != nil {
			u.Exprs = append(u.Exprs, conditionExpr(r.When.Expr, "route"))
		}
	}
	return u
}

// WorkflowEdges returns the workflow's edges. Nodes are indexed in AgentRefs order.
func (c *workflowConfig) WorkflowEdges() []runtime.Edge { return c.Edges.listEdges() }

func (c *workflowConfig) stateUse(*spec.Node) tool.StateUse {
	var u tool.StateUse
	for _, e := range c.Edges.routeExprs {
		u.Exprs = append(u.Exprs, tool.StateExpr{Expr: e, Env: runtime.ExprEnv(), Guard: "route"})
	}
	return u
}

// stateUse returns the key that a node writes.
func (c *nodeConfig) stateUse(n *spec.Node) tool.StateUse {
	at := n.Get("output_key")
	if at.IsNull() || c.OutputKey == "" {
		return tool.StateUse{}
	}
	return tool.StateUse{Writes: []tool.StateWrite{{Key: at.Text(), Verb: "output_key", Sure: true}}}
}

// The program's function may read and write any key.
func (c *functionNodeConfig) stateUse(n *spec.Node) tool.StateUse {
	u := c.Node.stateUse(n)
	u.Opaque = c.FuncCode.Value != ""
	if c.Expr.Value != "" {
		u.Exprs = append(u.Exprs, tool.StateExpr{Expr: c.Expr, Env: inputEnv()})
	}
	return u
}

func (c *toolNodeConfig) stateUse(n *spec.Node) tool.StateUse {
	u := c.Node.stateUse(n)
	for _, e := range c.Args {
		u.Exprs = append(u.Exprs, tool.StateExpr{Expr: e, Env: inputEnv()})
	}
	return u
}

// StateUse returns how the confirmation condition uses the state.
func (c *agentToolConfig) StateUse(*spec.Node) tool.StateUse {
	return toolconfig.ConfirmUse(c.Call.Call.Confirm.When)
}

// StateUse returns how the confirmation condition uses the state.
func (c *agentKindConfig) StateUse(*spec.Node) tool.StateUse {
	return toolconfig.ConfirmUse(c.Call.Call.Confirm.When)
}

// A CallbackUse is a callback in an agent's mapping.
type CallbackUse struct {
	// Hook is the callback's hook, such as before_model.
	Hook string
	Node *spec.Node
	// Use is how the callback uses the state.
	Use tool.StateUse
}

// CallbackUses returns the callbacks in an agent's mapping, grouped by hook. It omits invalid
// callbacks.
func CallbackUses(n *spec.Node) []CallbackUse {
	var all []CallbackUse
	for _, h := range hookSpecs() {
		all = append(all, h.collectUses(n.Get(h.name+"_callbacks"))...)
	}
	return all
}

// RuleUse returns how a callback rule uses the state if its hook is not known. A placeholder counts if
// it is a state key in each hook. Its expressions have the names of all hooks.
func RuleUse(rule *spec.Node) tool.StateUse {
	var c CallbackConfig
	spec.Decode(rule, &c)
	var u tool.StateUse
	for i, h := range hookSpecs() {
		one := h.describeRuleUse(rule, &c, false)
		if i == 0 {
			u = one
			continue
		}
		u.Texts = slices.DeleteFunc(u.Texts, func(t tool.StateText) bool {
			return !slices.ContainsFunc(one.Texts, func(o tool.StateText) bool {
				return o.Text.Pos == t.Text.Pos && slices.Equal(o.Refs, t.Refs)
			})
		})
		for j := range u.Exprs {
			mergeEnv(u.Exprs[j].Env, one.Exprs[j].Env)
		}
	}
	return u
}

// mergeEnv adds the names of another environment.
func mergeEnv(env, other template.Env) {
	for name, sample := range other {
		known, isEnv := env[name].(template.Env)
		more, alsoEnv := sample.(template.Env)
		switch {
		case isEnv && alsoEnv:
			merged := maps.Clone(known) // hookSpecs shares its environments
			mergeEnv(merged, more)
			env[name] = merged
		case !isEnv:
			env[name] = sample
		}
	}
}

// collectUses returns the uses in a callback list. A rule is certain to be evaluated if no earlier
// rule can answer.
func (h hookSpec) collectUses(list *spec.Node) []CallbackUse {
	if list == nil {
		return nil
	}
	var all []CallbackUse
	sure := slices.Contains([]string{"before_agent", "after_agent", "before_model"}, h.name)
	for _, item := range list.Items {
		var c CallbackConfig
		if item.Kind != spec.Mapping || spec.Decode(item, &c).HasErrors() {
			continue
		}
		u := h.describeRuleUse(item, &c, sure)
		u.Opaque = c.Name.Value != ""
		onlySets := slices.ContainsFunc(append(toolconfig.WriteVerbs(), toolconfig.SaveVerb), func(verb string) bool { return item.Get(verb) != nil })
		u.Guarded = h.name == "before_agent" && !onlySets
		sure = sure && onlySets
		all = append(all, CallbackUse{h.name, item, u})
	}
	return all
}

// guardVerb returns the verb if it prevents an action; empty if the rule only changes an answer or
// writes state.
func (h hookSpec) guardVerb(n *spec.Node) string {
	for _, verb := range []string{"deny", "confirm", "fail", "respond"} {
		if n.Get(verb) != nil && (verb != "respond" || strings.HasPrefix(h.name, "before_")) {
			return verb
		}
	}
	return ""
}

// describeRuleUse returns one rule's use.
func (h hookSpec) describeRuleUse(n *spec.Node, c *CallbackConfig, sure bool) tool.StateUse {
	var u tool.StateUse
	env := h.declareEnv()
	named := func(root string) bool { _, ok := env[root]; return ok }
	if c.When.Value != "" {
		u.Exprs = append(u.Exprs, tool.StateExpr{Expr: c.When, Env: env, Bool: true, Guard: h.guardVerb(n)})
	}
	if c.Replace.Value != "" {
		u.Exprs = append(u.Exprs, tool.StateExpr{Expr: c.Replace, Env: env})
	}
	for _, e := range c.Writes.Exprs() {
		u.Exprs = append(u.Exprs, tool.StateExpr{Expr: e, Env: env})
	}
	for _, s := range c.Saves {
		u.Exprs = append(u.Exprs, tool.StateExpr{Expr: s.Value, Env: env})
		u.AddPaths(s.Name, named)
	}
	toolconfig.AddWrites(&u, n, tool.StateWrite{Sure: sure && c.When.Value == "", First: h.name == "before_agent"})
	for _, verb := range []string{"respond", "deny", "confirm", "emit", "fail"} {
		u.AddTexts(n.Get(verb), named)
	}
	return u
}

// describeProviderUse returns the state keys that the expression reads,
// including placeholders in the text that it injects.
func (c *llmConfig) describeProviderUse() tool.StateUse {
	var u tool.StateUse
	p := c.InstructionProvider
	if p.Value == "" {
		return u
	}
	u.Exprs = []tool.StateExpr{{Expr: p, Env: providerEnv()}}
	for _, call := range template.Calls(p.Value, "inject") {
		u.ReadsAny = u.ReadsAny || !call.Literal
		refs := stateKeyRefs(template.Parse(call.Text))
		for i := range refs {
			refs[i].Offset = call.Offset
		}
		u.Texts = append(u.Texts, tool.StateText{Text: p.Text, Refs: refs})
	}
	return u
}
