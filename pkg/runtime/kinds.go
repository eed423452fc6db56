package runtime

import (
	"slices"
	"strings"

	"agenthost/pkg/spec"
	"agenthost/pkg/template"
	"agenthost/pkg/tool"
)

// AgentKinds returns the agent classes that documents can use.
func AgentKinds() spec.Kinds[AgentEnv, Agent] {
	return spec.Kinds[AgentEnv, Agent]{
		spec.NewKind("LlmAgent", "Calls a model and executes its tool calls.", newLLM),
		spec.NewKind("SequentialAgent", "Runs its sub-agents one after the other.", newSequential),
		spec.NewKind("ParallelAgent", "Runs its sub-agents concurrently, each on its own branch.", newParallel),
		spec.NewKind("LoopAgent", "Runs its sub-agents repeatedly until a sub-agent escalates, a condition is true, or the maximum of iterations is reached.", newLoop),
		spec.NewKind("RouterAgent", "Runs one of its agents, chosen by conditions.", newRouter),
		spec.NewKind("Workflow", "Runs a graph of agents along its edges.", newWorkflow),
		spec.NewKind("FunctionNode", "In a Workflow: computes a value with an expression or a function of the program.", newConfiguredFunctionNode),
		spec.NewKind("ToolNode", "In a Workflow: calls a tool.", newConfiguredToolNode),
		spec.NewKind("JoinNode", "In a Workflow: waits for all its predecessors.", newJoin),
	}
}

// AgentToolKinds returns the kinds of agent tools: ADK's AgentTool, and the short
// form.
func AgentToolKinds() spec.Kinds[AgentToolEnv, tool.Set] {
	return spec.Kinds[AgentToolEnv, tool.Set]{
		spec.NewKind("AgentTool", "Lets the model call an agent (ADK's form, with args).", newAgentTool),
		spec.NewKind("agent", "Lets the model call an agent.", newAgentKind),
	}
}

// PluginKinds returns the plugins that app.yaml can use.
func PluginKinds() spec.Kinds[PluginEnv, *Plugin] {
	return spec.Kinds[PluginEnv, *Plugin]{
		spec.NewKind("add_to_memory", "Adds the events of each run to the memory when the run ends.", newAddToMemory),
		spec.NewKind("context_filter", "Sends models only the last turns of a conversation.", newContextFilter),
		spec.NewKind("global_instruction", "Puts an instruction before the instructions of every agent.", newGlobalInstruction),
		spec.NewKind("logging", "Logs the steps of each run.", newLogging),
		spec.NewKind("retry_and_reflect", "Returns guidance to the model when a tool fails, so that it retries.", newRetryAndReflect),
		spec.NewKind("save_files_as_artifacts", "Saves files in user messages as artifacts.", newSaveFiles),
	}
}

// The config of an agent class, of an agent as a tool, or of a plugin implements those of
// the following interfaces that apply to it. The loader resolves and checks what they
// return; a config is valid YAML of its own without them.
type (
	// A ModelConfig has a model: its name, which may be empty, and the field that names it
	// as code, which may be nil.
	ModelConfig interface {
		ModelName() spec.Text
		ModelCodeNode() *spec.Node
	}
	// An AgentConfig refers to other agents: its sub-agents, or the agent that a tool
	// calls.
	AgentConfig interface{ AgentRefs() []*AgentRef }
	// A ToolConfig refers to tools.
	ToolConfig interface{ ToolRefs() []*ToolRef }
	// A FunctionConfig names Go functions, which Bind resolves.
	FunctionConfig interface {
		Bind(f *Functions) spec.Diagnostics
	}
	// A FileConfig names text files of the app.
	FileConfig interface {
		ReadFiles(read func(path string) (string, error)) spec.Diagnostics
	}
	// An InstructionConfig has instructions of a model.
	InstructionConfig interface{ Instructions() []spec.Text }
	// A CodeConfig may enable code execution of the model: BuiltInCode returns the setting
	// in the agent n, or nil.
	CodeConfig interface{ BuiltInCode(n *spec.Node) *spec.Node }
	// An EdgeConfig runs its sub-agents along edges.
	EdgeConfig interface{ WorkflowEdges() []Edge }
	// A RouteConfig has routes, which are checked against the state schema; it may be nil.
	RouteConfig interface {
		CheckRoutes(n *spec.Node, s *tool.StateSchema) spec.Diagnostics
	}
)

var (
	_ ModelConfig       = (*llmConfig)(nil)
	_ InstructionConfig = (*llmConfig)(nil)
	_ CodeConfig        = (*llmConfig)(nil)
	_ FileConfig        = (*llmConfig)(nil)
	_ AgentConfig       = (*llmConfig)(nil)
	_ AgentConfig       = (*workflowConfig)(nil)
	_ AgentConfig       = (*loopConfig)(nil)
	_ AgentConfig       = (*sequentialConfig)(nil)
	_ AgentConfig       = (*parallelConfig)(nil)
	_ AgentConfig       = (*routerConfig)(nil)
	_ AgentConfig       = (*agentToolConfig)(nil)
	_ AgentConfig       = (*agentKindConfig)(nil)
	_ ToolConfig        = (*llmConfig)(nil)
	_ ToolConfig        = (*toolNodeConfig)(nil)
	_ FunctionConfig    = (*llmConfig)(nil)
	_ FunctionConfig    = (*toolNodeConfig)(nil)
	_ FunctionConfig    = (*functionNodeConfig)(nil)
	_ FunctionConfig    = (*contextFilterConfig)(nil)
	_ EdgeConfig        = (*workflowConfig)(nil)
	_ RouteConfig       = (*routerConfig)(nil)
	_ tool.StateConfig  = (*agentToolConfig)(nil)
	_ tool.StateConfig  = (*agentKindConfig)(nil)
	_ spec.Checker      = (*llmConfig)(nil)
	_ spec.Checker      = (*workflowConfig)(nil)
	_ spec.Checker      = (*loopConfig)(nil)
	_ spec.Checker      = (*routerConfig)(nil)
	_ spec.Checker      = (*agentToolConfig)(nil)
	_ spec.Checker      = (*agentKindConfig)(nil)
	_ spec.Checker      = (*toolNodeConfig)(nil)
	_ spec.Checker      = (*functionNodeConfig)(nil)
)

// asBuiltin returns an agent of this package, or nil. An agent that embeds one
// of them is not built in: its own Run is called.
func asBuiltin(agent Agent) builtinAgent {
	switch a := agent.(type) {
	case *LLMAgent, *SequentialAgent, *ParallelAgent, *LoopAgent, *RouterAgent, *Workflow, *JoinNode:
		return a.(builtinAgent)
	}
	return nil
}

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

// A stateUser is the config of an agent that reads or writes state keys.
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
	return tool.StateExpr{Expr: e, Env: conditionEnv(), Bool: true, Guard: guard}
}

// stateKeyRefs returns the placeholders of text that refer to state keys.
func stateKeyRefs(t *template.Text) []template.Ref {
	refs := slices.Clone(t.Refs())
	return slices.DeleteFunc(refs, func(r template.Ref) bool { return r.Artifact })
}

func (c *llmConfig) stateUse(n *spec.Node) tool.StateUse {
	u := c.describeProviderUse()
	for _, text := range []spec.Text{c.Instruction, c.GlobalInstruction} {
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

// WorkflowEdges returns the edges of the workflow. Nodes are indexed in the order
// of AgentRefs.
func (c *workflowConfig) WorkflowEdges() []Edge { return c.Edges.listEdges() }

func (c *workflowConfig) stateUse(*spec.Node) tool.StateUse {
	var u tool.StateUse
	for _, e := range c.Edges.routeExprs {
		u.Exprs = append(u.Exprs, tool.StateExpr{Expr: e, Env: conditionEnv(), Guard: "route"})
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

// A function of the program may read and write any key.
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

// StateUse returns the use of the confirmation condition.
func (c *agentToolConfig) StateUse(*spec.Node) tool.StateUse {
	return tool.ConfirmUse(c.Call.Call.Confirm)
}

// StateUse returns the use of the confirmation condition.
func (c *agentKindConfig) StateUse(*spec.Node) tool.StateUse {
	return tool.ConfirmUse(c.Call.Call.Confirm)
}

// A CallbackUse is a callback of an agent's mapping.
type CallbackUse struct {
	// Hook is the hook of the callback, such as before_model.
	Hook string
	Node *spec.Node
	// Use is how the callback uses the state.
	Use tool.StateUse
}

// CallbackUses returns the callbacks of an agent's mapping, grouped by hook. It
// omits invalid callbacks.
func CallbackUses(n *spec.Node) []CallbackUse {
	var all []CallbackUse
	for _, h := range hookSpecs() {
		all = append(all, h.collectUses(n.Get(h.name+"_callbacks"))...)
	}
	return all
}

// collectUses returns the uses of a list of callbacks. A rule is certain to be
// evaluated if no earlier rule can answer.
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
		onlySets := slices.ContainsFunc(tool.WriteVerbs(), func(verb string) bool { return item.Get(verb) != nil })
		u.Guarded = h.name == "before_agent" && !onlySets
		sure = sure && onlySets
		all = append(all, CallbackUse{h.name, item, u})
	}
	return all
}

// guardVerb returns the verb of a rule that prevents an action; empty if the rule
// only changes an answer or writes state.
func (h hookSpec) guardVerb(n *spec.Node) string {
	for _, verb := range []string{"deny", "confirm", "fail", "respond"} {
		if n.Get(verb) != nil && (verb != "respond" || strings.HasPrefix(h.name, "before_")) {
			return verb
		}
	}
	return ""
}

// describeRuleUse returns the use of one rule.
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
	u.AddWrites(n, tool.StateWrite{Sure: sure && c.When.Value == "", First: h.name == "before_agent"})
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
