package loader

import (
	"context"
	"maps"
	"path"
	"slices"
	"strings"

	"agenthost/internal/agentconfig"
	"agenthost/pkg/runtime"
	"agenthost/pkg/spec"
	"agenthost/pkg/tool"
)

// resolveAgent validates an agent and its descendants. It returns nil if the agent
// cannot be determined. It reports problems in either case.
func (r *resolver) resolveAgent(ctx context.Context, n *spec.Node, t ancestry) *resolvedAgent {
	if r.agentCount++; r.agentCount > maxAgents {
		if r.agentCount == maxAgents+1 {
			r.report(n.Errorf("limit", "the app exceeds the limit of %d agents, counting every use", maxAgents))
		}
		return nil
	}
	if n.Kind != spec.Mapping || r.src.budget.isExceeded() {
		return nil // already reported when the list was decoded, or reported at the end
	}
	if len(r.loader.kinds.Agents) == 0 {
		r.report(n.Errorf("unknown-name", "this program has no agent classes").WithHint("in Go, add loader.AgentKinds to Agents of loader.Kinds"))
		return nil
	}
	slot := r.app.slots
	r.app.slots++
	if n = r.applyMappedClass(n); n == nil {
		return nil
	}
	kind, known := r.findAgentKind(n)
	base := r.applyDefaults(n, kind.Name)
	n = r.inlineNames(r.inlineCode(base, kind))
	if kind.Name == "Workflow" {
		n = r.nameFileNodes(n, t)
	}
	d := r.decodeAgent(kind, n)
	plan := d.plan
	if known {
		r.report(d.ds...)
	} else {
		r.report(dropClassProblems(d.ds, n.Get("agent_class"))...)
	}
	p := &resolvedAgent{plan: plan, name: r.checkAgentName(n), base: base, callbacks: d.callbacks, use: d.use, slot: slot}
	if m, ok := plan.Config.(agentconfig.ModelConfig); ok {
		p.model, p.modelRef = r.resolveModel(ctx, m.ModelName()), m.ModelName().Value
		if !m.ModelCodeNode().IsNull() {
			p.model, p.modelRef = r.resolveModelCode(ctx, n)
		}
	}
	if refs, ok := plan.Config.(agentconfig.AgentConfig); ok {
		for _, ref := range refs.AgentRefs() {
			if sub := r.resolveRef(ctx, ref, t); sub != nil {
				sub.at = ref.Node
				p.subs = append(p.subs, sub)
			}
		}
	}
	r.checkNodePlaces(p)
	r.countTransferPairs(p)
	if refs, ok := plan.Config.(agentconfig.ToolConfig); ok {
		all := refs.ToolRefs()
		of := t
		of.hasOtherTools = len(all) > 1
		for _, ref := range all {
			for _, pt := range r.resolveTool(ctx, ref, of) {
				pt.at = ref.Node
				p.tools = append(p.tools, pt)
			}
		}
	}
	if c, ok := plan.Config.(agentconfig.PromptConfig); ok && c.PromptRef() != nil {
		p.prompts = r.resolvePrompts(ctx, c.PromptRef(), t)
	}
	if c, ok := plan.Config.(agentconfig.ServerConfig); ok {
		kind, settings := c.ServerSet(n)
		if p.server = r.buildTool(ctx, kind, settings); p.server == nil {
			return nil // reported
		}
		p.model, p.wrapModel = r.loader.opts.Model, r.loader.opts.WrapModel
	}
	if c, ok := plan.Config.(agentconfig.ExecutorConfig); ok && c.ExecutorPlan() != nil {
		p.executor = c.ExecutorPlan()
		r.checkExecutor(p.executor)
	}
	for _, t := range p.tools {
		t.listTools(ctx)
	}
	r.app.agents = append(r.app.agents, p)
	return p
}

// decodedAgent is a decoded agent mapping.
type decodedAgent struct {
	plan      spec.Plan[agentconfig.AgentEnv, runtime.Agent]
	callbacks runtime.Callbacks
	use       *lazyStateUse
	ds        spec.Diagnostics
}

type agentKey struct {
	class string
	node  *spec.Node
}

// decodeAgent decodes an agent mapping. Agents that read other files are decoded each
// time.
func (r *resolver) decodeAgent(kind spec.Kind[agentconfig.AgentEnv, runtime.Agent], n *spec.Node) *decodedAgent {
	return getOrMake(r.src.cache, agentKey{kind.Name, n}, func() (*decodedAgent, bool) {
		d := &decodedAgent{}
		d.plan, d.ds = kind.Decode(n)
		d.ds = d.plan.Check(d.ds)
		selfContained := true
		if c, ok := d.plan.Config.(agentconfig.FileConfig); ok {
			d.ds = append(d.ds, c.ReadFiles(func(path string) (string, error) {
				selfContained = false
				return r.src.readTextFile(path)
			})...)
		}
		d.ds = append(d.ds, r.bindFunctions(d.plan.Config)...)
		if c, ok := d.plan.Config.(agentconfig.ExecutorConfig); ok {
			d.ds = append(d.ds, c.BindExecutor(r.loader.kinds.Executors, &r.loader.opts.Functions)...)
		}
		callbacks, ds := agentconfig.DecodeCallbacks(n, r.loader.opts.Functions.Callbacks)
		d.callbacks, d.ds = callbacks, append(d.ds, ds...)
		d.use = &lazyStateUse{find: func() tool.StateUse { return agentconfig.StateUse(n, d.plan.Config) }}
		return d, selfContained
	})
}

// bindFunctions resolves the registered functions that a config names.
func (r *resolver) bindFunctions(config any) spec.Diagnostics {
	if c, ok := config.(agentconfig.FunctionConfig); ok {
		return c.Bind(&r.loader.opts.Functions)
	}
	return nil
}

// findAgentKind finds an agent's class. If the class is unknown, it reports the error and returns
// the suggested class with known true, or else LlmAgent, so that the remaining agent is validated.
func (r *resolver) findAgentKind(n *spec.Node) (kind spec.Kind[agentconfig.AgentEnv, runtime.Agent], known bool) {
	kinds := r.loader.kinds.Agents
	fallback, ok := kinds.Lookup("LlmAgent")
	if !ok {
		fallback = kinds[0]
	}
	class := n.Get("agent_class")
	isAbsent := class.IsNull() || class.Kind == spec.Scalar && class.Value == ""
	if isAbsent && !ok {
		r.report(n.Errorf("required", "agent_class is required: %s", listNames(kinds.Names())))
	}
	if isAbsent {
		return fallback, ok
	}
	if class.Kind != spec.Scalar {
		r.report(class.Errorf("type", "agent_class must be a string, such as LoopAgent"))
		return fallback, false
	}
	name := normalizeClassName(class.Value)
	if kind, ok := kinds.Lookup(name); ok {
		return kind, true
	}
	if strings.Contains(name, ".") {
		r.report(missingCodeError(class, "agent class", name,
			"declare a replacement agent under functions in app.yaml, or use one of the classes "+strings.Join(kinds.Names(), ", ")))
		return fallback, false
	}
	if kind, ok := findShortClass(kinds, name); ok {
		r.report(class.Errorf("unknown-name", "unknown agent class %q", class.Value).WithHint("write %s", kind.Name).WithFix(class.Value, kind.Name))
		return kind, true
	}
	r.report(unknownNameError(class, "agent class %s", name, kinds.Names()))
	if near, ok := kinds.Lookup(spec.Suggest(name, kinds.Names())); ok {
		return near, true
	}
	return fallback, false
}

// findShortClass returns the class that other programs call llm, sequential or loop_agent.
func findShortClass(kinds spec.Kinds[agentconfig.AgentEnv, runtime.Agent], name string) (spec.Kind[agentconfig.AgentEnv, runtime.Agent], bool) {
	shorten := func(name string) string {
		return strings.TrimSuffix(strings.NewReplacer("_", "", "-", "").Replace(strings.ToLower(name)), "agent")
	}
	short := shorten(name)
	if short == "" || short == "react" { // "agent" alone
		short = "llm"
	}
	at := slices.IndexFunc(kinds, func(k spec.Kind[agentconfig.AgentEnv, runtime.Agent]) bool { return shorten(k.Name) == short })
	if at < 0 {
		return spec.Kind[agentconfig.AgentEnv, runtime.Agent]{}, false
	}
	return kinds[at], true
}

// dropClassProblems removes problems that follow from an unknown class: unknown and
// missing fields, and the class itself.
func dropClassProblems(ds spec.Diagnostics, class *spec.Node) spec.Diagnostics {
	return slices.DeleteFunc(slices.Clone(ds), func(d spec.Diagnostic) bool {
		return d.Rule == "unknown-field" || d.Rule == "required" || d.Pos == class.Pos
	})
}

func (r *resolver) resolveRef(ctx context.Context, ref *agentconfig.AgentRef, t ancestry) *resolvedAgent {
	switch {
	case ref.Code.Value != "":
		if f, ok := r.findFunction(ref.Code.Value); ok {
			return r.resolveMappedAgent(ctx, f, ref.Code.Value, t)
		}
		code := ref.Node.Get("code")
		if r.loader.opts.Functions.Nodes[code.Value] != nil {
			// Edges refer to the program's function by its name: a node calls it.
			n := code.WithEntry("func_code", code.Value)
			n.Kind, n.Tag, n.Value = spec.Mapping, "!!map", ""
			return r.resolveAgent(ctx, n.WithEntry("name", lastWord(code.Value)).WithEntry("agent_class", "FunctionNode"), t)
		}
		r.report(missingCodeError(code, "agent", ref.Code.Value,
			"declare a replacement under functions in app.yaml, or write an agent here"))
	case ref.Use.Value != "":
		return r.resolveUse(ctx, ref, t)
	case ref.ConfigPath.Value != "":
		return r.resolveConfigPath(ctx, ref, t)
	case ref.Inline != nil:
		return r.resolveAgent(ctx, ref.Inline, t)
	}
	return nil
}

func (r *resolver) resolveUse(ctx context.Context, ref *agentconfig.AgentRef, t ancestry) *resolvedAgent {
	name := ref.Use.Value
	d, ok := r.app.names.agents[name]
	if !ok && r.appBroken {
		return nil // it may be declared in an unread file
	}
	if !ok {
		r.report(unknownNameError(ref.Node.Get("use"), "agent %s under agents", name, slices.Sorted(maps.Keys(r.app.names.agents))))
		return nil
	}
	mark := "use " + name
	if t.hasVisited(mark) {
		r.report(ref.Use.Errorf(0, "cycle", "agent %s contains itself: %s", name, formatCycle(t.visited, mark)))
		return nil
	}
	r.markUsed(d)
	return r.resolveAgent(ctx, addDefaultName(d.node, name), t.extendWith(d.file, mark))
}

// resolveConfigPath resolves a config_path. As in ADK, a path is relative to its file and must stay
// below that file's folder (adk-python agents/config_agent_utils.py).
func (r *resolver) resolveConfigPath(ctx context.Context, ref *agentconfig.AgentRef, t ancestry) *resolvedAgent {
	given := ref.ConfigPath.Value
	fail := func(rule, format string, args ...any) *resolvedAgent {
		r.report(ref.ConfigPath.Errorf(0, rule, format, args...))
		return nil
	}
	rel := path.Clean(strings.TrimPrefix(given, "./"))
	if escapesFolder(given) {
		r.report(addSlashHint(ref.ConfigPath.Errorf(0, "path", "config_path %s is outside this file's folder", given), given))
		return nil
	}
	file := path.Join(path.Dir(t.file), rel)
	if t.hasVisited(file) {
		return fail("cycle", "agent file %s includes itself: %s", given, formatCycle(t.visited, file))
	}
	if !r.src.fileExists(file) {
		return fail("file", "%s", r.src.missingFileMessage(file))
	}
	n, t := r.readAgentFile(file, t, false)
	if n == nil {
		return nil
	}
	return r.resolveAgent(ctx, n, t)
}

// checkAgentName returns an agent's name. It must be an identifier, but not "user", the
// author of user messages (adk-python agents/base_agent.py).
func (r *resolver) checkAgentName(n *spec.Node) string {
	at := n.Get("name")
	if at == nil || at.Kind != spec.Scalar || at.IsNull() {
		return ""
	}
	switch {
	case at.Value == "user":
		r.report(at.Errorf("agent-name", "the agent name user is reserved for the author of user messages"))
	case !isIdentifier(at.Value):
		r.report(at.Errorf("agent-name", "agent name %q is not an identifier", at.Value).
			WithHint("use letters, digits and underscores, beginning with a letter"))
	}
	return at.Value
}

// checkNodePlaces rejects a JoinNode and a parallel_worker outside a Workflow.
func (r *resolver) checkNodePlaces(p *resolvedAgent) {
	if p.plan.Kind.Name == "Workflow" {
		return
	}
	for _, sub := range p.subs {
		if sub.plan.Kind.Name == "JoinNode" {
			r.report(sub.plan.Node.Errorf("edges", "JoinNode %s is not a node of a Workflow", sub.name))
		}
		if at := sub.plan.Node.Get("parallel_worker"); at != nil && at.Value == "true" {
			r.report(at.Errorf("node", "parallel_worker of %s requires a Workflow node", sub.name))
		}
	}
}

// countTransferPairs counts the pairs among an LLM agent and its sub-agents, and
// reports an error when the limit is exceeded.
func (r *resolver) countTransferPairs(p *resolvedAgent) {
	if p.plan.Kind.Name != "LlmAgent" {
		return
	}
	before := r.transferPairs
	r.transferPairs += len(p.subs) * (len(p.subs) + 1)
	if before <= maxTransferPairs && r.transferPairs > maxTransferPairs {
		r.report(p.plan.Node.Errorf("limit", "the app exceeds the limit of %d agent pairs that may transfer to each other", maxTransferPairs).
			WithHint("nest sub-agents more deeply, or use agents as tools"))
	}
}
