package loader

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"agenthost/internal/adktools"
	"agenthost/internal/agentconfig"
	"agenthost/pkg/runtime"
	"agenthost/pkg/spec"
	"agenthost/pkg/tool"
)

// resolveTool resolves and validates one of an agent's tools. It returns nothing if there are
// errors, which it reports.
func (r *resolver) resolveTool(ctx context.Context, ref *agentconfig.ToolRef, t ancestry) []*resolvedTool {
	switch {
	case ref.Use.Value != "":
		return r.resolveToolUse(ctx, ref, t)
	case ref.Name.Value != "":
		return r.resolveNamedTool(ctx, ref, t)
	case ref.Kind.Value != "":
		return r.resolveKindTool(ctx, ref, t)
	}
	return nil
}

func (r *resolver) resolveToolUse(ctx context.Context, ref *agentconfig.ToolRef, t ancestry) []*resolvedTool {
	name := ref.Use.Value
	n, ok := r.app.names.tools[name]
	if at := ref.Node.Get("use"); at != nil && at.HasReference() {
		r.app.choosesTool = true
	}
	if !ok && r.appBroken {
		return nil
	}
	if !ok {
		r.report(unknownNameError(ref.Node.Get("use"), "tool %s under tools in app.yaml", name, slices.Sorted(maps.Keys(r.app.names.tools))))
		return nil
	}
	r.markUsed(n)
	key := sharedToolKey{n.node, t.hasOtherTools}
	if built := r.sharedTools[key]; built != nil {
		again := *built
		return []*resolvedTool{&again}
	}
	found := r.resolveDeclaredTool(ctx, n, t)
	// Each use of an agent tool has its own instance.
	if len(found) == 1 && found[0].set != nil {
		r.sharedTools[key] = found[0]
	}
	return found
}

// resolvePrompts returns a prompt's server. It returns nil if there are errors, which it reports.
func (r *resolver) resolvePrompts(ctx context.Context, ref *agentconfig.PromptRef, t ancestry) tool.PromptSource {
	name := ref.Server.Value
	if name == "" {
		return nil // already reported when the agent was decoded
	}
	for _, found := range r.resolveToolUse(ctx, &agentconfig.ToolRef{Use: ref.Server, Node: ref.Server.Mapping("use", name)}, t) {
		set := found.set
		if wrapped, ok := set.(wrappedSet); ok {
			set = wrapped.Set
		}
		if prompts, ok := set.(tool.PromptSource); ok {
			return prompts
		}
		r.report(ref.Node.Errorf("tool", "tool %s is not an MCP server, and has no prompts", name))
	}
	return nil
}

// resolveDeclaredTool resolves a tool under tools.
func (r *resolver) resolveDeclaredTool(ctx context.Context, p part, t ancestry) []*resolvedTool {
	n := p.node
	if n.Kind != spec.Mapping {
		return nil // already reported when app.yaml was decoded
	}
	var inner agentconfig.ToolRef
	r.report(inner.DecodeSpec(n)...)
	if inner.Use.Value != "" {
		r.report(inner.Use.Errorf(0, "use", "a tool under tools cannot use another one"))
		return nil
	}
	return r.resolveTool(ctx, &inner, ancestry{p.file, t.visited, t.hasOtherTools})
}

// resolveNamedTool resolves a tool by ADK's name.
func (r *resolver) resolveNamedTool(ctx context.Context, ref *agentconfig.ToolRef, t ancestry) []*resolvedTool {
	name := ref.Name.Value
	if own, ok := r.loader.opts.Functions.Tools[name]; ok {
		return r.resolveRegisteredTool(ref, own)
	}
	if f, ok := r.findFunction(name); ok {
		return r.resolveMappedTool(ctx, f, name, t)
	}
	name = trimToolModule(name)
	if kind, ok := r.loader.kinds.AgentTools.Lookup(name); ok && name != "agent" {
		args := normalizeArgs(ref)
		if name == "AgentTool" {
			args = normalizeAgentToolArgs(args)
		}
		return r.resolveAgentTool(ctx, kind, args, t)
	}
	if kind, ok := r.loader.kinds.Builtins.Lookup(name); ok {
		kind, args := r.replaceTool(kind, normalizeArgs(ref), t)
		found := r.buildTool(ctx, kind, args)
		more := r.withAdditionalTools(ctx, found, t)
		for _, t := range found {
			_, described := t.config.(tool.DocumentConfig)
			_, runs := t.config.(tool.SkillConfig)
			if described || runs || t.isDynamic() { // a server provides the tools, or scripts run
				t.set = r.wrapSet(t.set)
			}
		}
		return more
	}
	if name == "FunctionTool" || name == "LongRunningFunctionTool" {
		return r.resolveFunctionTool(ctx, ref, t)
	}
	if isCodeName(name) {
		r.report(missingToolCodeError(ref.Node.Get("name"), name))
		return nil
	}
	r.report(unknownToolError(ref, name, r.loader.kinds.Builtins.Names()))
	return nil
}

// replaceTool returns the built-in tool with its args, or the tool with args that replaces it in an
// agent with more tools.
func (r *resolver) replaceTool(kind spec.Kind[tool.Env, tool.Set], n *spec.Node, t ancestry) (spec.Kind[tool.Env, tool.Set], *spec.Node) {
	c, ok := r.decodeTool(kind, n).plan.Config.(tool.ReplaceableConfig)
	if !ok || !t.hasOtherTools {
		return kind, n
	}
	name, setting := c.Replacement()
	other, ok := r.loader.kinds.Builtins.Lookup(name)
	if !ok {
		return kind, n
	}
	args := *n
	args.Entries = slices.DeleteFunc(slices.Clone(n.Entries), func(e spec.Entry) bool { return e.Key.Value == setting })
	return other, &args
}

// resolveRegisteredTool resolves a tool that the embedding program has registered. It is already
// built and has no settings.
func (r *resolver) resolveRegisteredTool(ref *agentconfig.ToolRef, t tool.Tool) []*resolvedTool {
	if !ref.Args.IsNull() {
		r.report(ref.Args.Errorf("tool", "tool %s is registered by this program and takes no args", ref.Name.Value))
		return nil
	}
	set := tool.One(t)
	if _, agent := t.(*runtime.AgentTool); !agent {
		set = r.wrapSet(set)
	}
	return []*resolvedTool{{set: set}}
}

func unknownToolError(ref *agentconfig.ToolRef, name string, builtins []string) spec.Diagnostic {
	if found, ok := adktools.FindUnsupported(name); ok {
		d := ref.Name.Errorf(0, "tool", "%s %s", ref.Name.Value, found.Reason)
		if found.Hint != "" {
			d = d.WithHint("%s", found.Hint)
		}
		return d
	}
	builtins = append(builtins, "AgentTool", "ModelConsultTool")
	if _, ok := agentconfig.HintSource(agentconfig.BuiltinList, name); ok {
		return missingKindError(ref.Node.Get("name"), agentconfig.BuiltinList, name, builtins)
	}
	if near := spec.Suggest(name, builtins); near != "" { // the list is long
		return ref.Node.Get("name").Errorf("unknown-name", "unknown built-in tool %q", name).WithNearName(name, near)
	}
	d := unknownNameError(ref.Node.Get("name"), "built-in tool %s", name, builtins)
	if hint := foreignBuiltins()[strings.ToLower(name)]; hint != "" {
		return d.WithHint("%s", hint)
	}
	if d.Hint == "" && isIdentifier(name) {
		return d.WithHint("write - use: %s for a tool under tools: in app.yaml, or one of your own here, such as - http: {name: %[1]s, …}", name)
	}
	return d
}

// foreignBuiltins has hints for other programs' built-in tools.
func foreignBuiltins() map[string]string {
	const (
		search = "use google_search with a Gemini model, or - mcp: {…} with the MCP server of a search service"
		page   = "use - name: load_web_page"
		code   = "set code_executor on the agent"
		files  = "use - mcp: {command: [npx, -y, \"@modelcontextprotocol/server-filesystem\", FOLDER]}"
		shell  = "use - name: ExecuteBashTool, or a command tool"
		ask    = "use - name: request_input"
	)
	return map[string]string{
		"web_search": search, "websearch": search, "web_search_preview": search, "duckduckgo": search, "tavily": search, "serperdevtool": search,
		"fetch": page, "web_fetch": page, "webfetch": page, "scrapewebsitetool": page,
		"code_interpreter": code, "code_execution": code, "python": code,
		"filesystem": files, "file_search": files, "filereadtool": files,
		"shell": shell, "bash": shell, "terminal": shell,
		"human_input": ask, "ask_user": ask, "askuserquestion": ask,
		"memory": "use - name: load_memory, or preload_memory", "handoff": "use sub_agents, or - agent: {…}", "think": "set planner: plan_react on the agent",
	}
}

// resolveKindTool resolves a tool that its kind declares: one key with its settings.
func (r *resolver) resolveKindTool(ctx context.Context, ref *agentconfig.ToolRef, t ancestry) []*resolvedTool {
	name := ref.Kind.Value
	if kind, ok := r.loader.kinds.AgentTools.Lookup(name); ok && name == "agent" {
		return r.resolveAgentTool(ctx, kind, ref.Config, t)
	}
	if kind, ok := r.loader.kinds.Tools.Lookup(name); ok {
		found := r.buildTool(ctx, kind, ref.Config)
		more := r.withAdditionalTools(ctx, found, t)
		for _, t := range found {
			t.set = r.wrapSet(t.set)
		}
		return more
	}
	r.report(missingKindError(ref.Node.Entries[0].Key, agentconfig.ToolList, name, append(r.loader.kinds.Tools.Names(), "agent")))
	return nil
}

// wrapSet wraps a set with the loader's wrappers.
func (r *resolver) wrapSet(set tool.Set) tool.Set {
	if wrap := r.loader.opts.WrapTool; wrap != nil {
		return wrappedSet{set, wrap}
	}
	return set
}

func (r *resolver) buildTool(ctx context.Context, kind spec.Kind[tool.Env, tool.Set], n *spec.Node) []*resolvedTool {
	n = r.inlineSchema(n, "params")
	d := r.decodeTool(kind, n)
	ds := append(slices.Clip(d.ds), r.checkPolicy(d.plan.Config)...)
	r.report(ds...)
	if ds.HasErrors() {
		return nil
	}
	doc, ok := r.readToolDocument(ctx, kind.Name, n, d.plan.Config)
	if !ok {
		return nil
	}
	skills, ok := r.readSkills(d.plan.Config)
	if !ok {
		return nil
	}
	for _, s := range skills {
		if r.app.skills == nil {
			r.app.skills = map[string]tool.Skill{}
		}
		r.app.skills[s.Content().Folder] = s
	}
	addresses := slices.Concat(configAddresses(d.plan.Config), doc.listAddresses())
	conn, ok := r.resolveConnection(d.plan.Config, doc.doc, addresses)
	if !ok {
		return nil
	}
	set, err := r.acquireToolSet(ctx, d, toolInputs{conn, doc, skills})
	if err != nil {
		r.reportBuildError(n, "tool", err)
		return nil
	}
	return []*resolvedTool{{set: set, kind: kind.Name, config: d.plan.Config, node: n, use: d.use}}
}

// decodedTool is a decoded tool mapping; key is its set's resource key.
type decodedTool struct {
	plan spec.Plan[tool.Env, tool.Set]
	key  resourceKey
	use  *lazyStateUse
	ds   spec.Diagnostics
}

type toolKey struct {
	kind string
	node *spec.Node
}

func (r *resolver) decodeTool(kind spec.Kind[tool.Env, tool.Set], n *spec.Node) *decodedTool {
	return getOrMake(r.src.cache, toolKey{kind.Name, n}, func() (*decodedTool, bool) {
		plan, ds := kind.Decode(n)
		ds = append(plan.Check(ds), r.loader.decodeInlineConnection(plan.Config)...)
		return &decodedTool{plan, hashResourceKey("tool", r.src.name, kind.Name, textOf(n)), newLazyUse(plan.Config, n), ds}, true
	})
}

// toolInputs are what a tool uses besides its settings.
type toolInputs struct {
	conn   toolConnection
	doc    toolDocument
	skills []tool.Skill
}

// acquireToolSet returns the set for a tool's settings: a new one, or the previous revision's.
func (r *resolver) acquireToolSet(ctx context.Context, d *decodedTool, in toolInputs) (tool.Set, error) {
	conn, doc := in.conn, in.doc
	key := hashResourceKey("tool with connection", string(d.key[:]), string(conn.key[:]), doc.hashReduced(), hashSkills(in.skills))
	set, release, err := acquireResource(r.loader.resources, key, func() (tool.Set, func() error, error) {
		client, end := r.acquireToolClient(slices.Concat(configAddresses(d.plan.Config), doc.listAddresses()))
		programs, endPrograms := r.acquirePrograms()
		end = closeBoth(end, endPrograms)
		set, err := d.plan.Build(ctx, tool.Env{
			HTTP: client, Dir: r.src.absoluteDir(), Offline: r.loader.opts.Offline, Programs: programs, Logger: r.loader.opts.Logger, Connection: conn.connection,
			Document: doc.doc, Skills: in.skills,
		})
		if err != nil {
			return nil, nil, errors.Join(err, end())
		}
		return set, closeBoth(set.Close, end), nil
	})
	if err == nil {
		r.held.add(release)
	}
	return set, err
}

func (r *resolver) resolveAgentTool(ctx context.Context, kind spec.Kind[agentconfig.AgentToolEnv, tool.Set], n *spec.Node, t ancestry) []*resolvedTool {
	plan, ds := kind.Decode(n)
	ds = plan.Check(ds)
	r.report(ds...)
	if ds.HasErrors() {
		return nil
	}
	if c, ok := plan.Config.(agentconfig.ModelConfig); ok {
		m := r.resolveModel(ctx, c.ModelName())
		if m == nil {
			return nil // reported
		}
		set, err := plan.Build(ctx, agentconfig.AgentToolEnv{Model: m})
		if err != nil {
			r.reportBuildError(n, "tool", err)
			return nil
		}
		return []*resolvedTool{{set: set, kind: "ModelConsultTool", config: plan.Config, node: n, use: newLazyUse(plan.Config, n)}}
	}
	pt := &resolvedTool{plan: plan, kind: kind.Name, config: plan.Config, node: n, use: newLazyUse(plan.Config, n)}
	if refs, ok := plan.Config.(agentconfig.AgentConfig); ok {
		for _, ref := range refs.AgentRefs() {
			ref.Node = cmp.Or(ref.Node, n) // the tool names the agent itself
			if pt.agent = r.resolveRef(ctx, ref, t); pt.agent != nil {
				pt.agent.at = ref.Node
			}
		}
	}
	if pt.agent == nil {
		return nil
	}
	return []*resolvedTool{pt}
}
