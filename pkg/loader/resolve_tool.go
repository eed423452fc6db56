package loader

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"

	"agenthost/pkg/runtime"
	"agenthost/pkg/spec"
	"agenthost/pkg/tool"
)

// resolveTool resolves and validates one tool of an agent. It returns nothing if there
// are errors, which it reports.
func (j *job) resolveTool(ctx context.Context, ref *runtime.ToolRef, t ancestry) []*resolvedTool {
	switch {
	case ref.Use.Value != "":
		return j.resolveToolUse(ctx, ref, t)
	case ref.Name.Value != "":
		return j.resolveNamedTool(ctx, ref, t)
	case ref.Kind.Value != "":
		return j.resolveKindTool(ctx, ref, t)
	}
	return nil
}

func (j *job) resolveToolUse(ctx context.Context, ref *runtime.ToolRef, t ancestry) []*resolvedTool {
	name := ref.Use.Value
	n, ok := j.names.tools[name]
	if !ok && j.appBroken {
		return nil
	}
	if !ok {
		j.report(unknownNameError(ref.Node.Get("use"), "tool %s under tools in app.yaml", name, slices.Sorted(maps.Keys(j.names.tools))))
		return nil
	}
	j.markUsed(n)
	if built := j.sharedTools[n.node]; built != nil {
		again := *built
		return []*resolvedTool{&again}
	}
	found := j.resolveDeclaredTool(ctx, n, t)
	// Each use of a tool that calls an agent has its own instance.
	if len(found) == 1 && found[0].set != nil {
		j.sharedTools[n.node] = found[0]
	}
	return found
}

// resolveDeclaredTool resolves a tool under tools.
func (j *job) resolveDeclaredTool(ctx context.Context, p part, t ancestry) []*resolvedTool {
	n := p.node
	if n.Kind != spec.Mapping {
		return nil // already reported when app.yaml was decoded
	}
	var inner runtime.ToolRef
	j.report(inner.DecodeSpec(n)...)
	if inner.Use.Value != "" {
		j.report(inner.Use.Errorf(0, "use", "a tool under tools cannot use another one"))
		return nil
	}
	return j.resolveTool(ctx, &inner, ancestry{file: p.file, visited: t.visited})
}

// resolveNamedTool resolves a tool by ADK's name.
func (j *job) resolveNamedTool(ctx context.Context, ref *runtime.ToolRef, t ancestry) []*resolvedTool {
	name := ref.Name.Value
	if own, ok := j.loader.opts.Functions.Tools[name]; ok {
		return j.resolveProgramTool(ref, own)
	}
	if f, ok := j.findFunction(name); ok {
		return j.resolveMappedTool(ctx, f, name, t)
	}
	name = trimToolModule(name)
	if kind, ok := j.loader.agentTools.Lookup(name); ok && name == "AgentTool" {
		return j.resolveAgentTool(ctx, kind, normalizeAgentToolArgs(normalizeArgs(ref)), t)
	}
	if kind, ok := j.loader.builtins.Lookup(name); ok {
		found := j.buildTool(ctx, kind, normalizeArgs(ref))
		for _, t := range found {
			if t.isDynamic() { // a server provides the tools
				t.set = j.wrapSet(t.set)
			}
		}
		return found
	}
	if name == "FunctionTool" || name == "LongRunningFunctionTool" {
		return j.resolveFunctionTool(ctx, ref, t)
	}
	if isCodeName(name) {
		j.report(missingToolCodeError(ref.Node.Get("name"), name))
		return nil
	}
	j.report(unknownToolError(ref, name, j.loader.builtins.Names()))
	return nil
}

func missingToolCodeError(at *spec.Node, name string) spec.Diagnostic {
	return missingCodeError(at, "tool", name,
		"declare a replacement under functions in app.yaml, write a tool here, or register a Go function of this name")
}

// resolveProgramTool resolves a tool that the program has registered. It is already
// built and has no settings.
func (j *job) resolveProgramTool(ref *runtime.ToolRef, t tool.Tool) []*resolvedTool {
	if !ref.Args.IsNull() {
		j.report(ref.Args.Errorf("tool", "tool %s is registered by this program and takes no args", ref.Name.Value))
		return nil
	}
	set := tool.One(t)
	if _, agent := t.(*runtime.AgentTool); !agent {
		set = j.wrapSet(set)
	}
	return []*resolvedTool{{set: set}}
}

func unknownToolError(ref *runtime.ToolRef, name string, builtins []string) spec.Diagnostic {
	if slices.Contains([]string{"McpToolset", "MCPToolset"}, name) {
		return unlinkedMCPError(ref.Name)
	}
	if why := tool.UnsupportedReason(name); why != "" {
		return ref.Name.Errorf(0, "tool", "%s %s", ref.Name.Value, why)
	}
	return unknownNameError(ref.Node.Get("name"), "built-in tool %s", name, append(builtins, "AgentTool"))
}

// unlinkedMCPError reports a tool of package mcptool, which the program does not use.
func unlinkedMCPError(at spec.Text) spec.Diagnostic {
	return at.Errorf(0, "tool", "this program does not support MCP servers").
		WithHint("in Go, add the kinds of package mcptool to loader.Options")
}

// resolveKindTool resolves a tool of one of our kinds: one key with its settings.
func (j *job) resolveKindTool(ctx context.Context, ref *runtime.ToolRef, t ancestry) []*resolvedTool {
	name := ref.Kind.Value
	if kind, ok := j.loader.agentTools.Lookup(name); ok && name == "agent" {
		return j.resolveAgentTool(ctx, kind, ref.Config, t)
	}
	if kind, ok := j.loader.toolKinds.Lookup(name); ok {
		found := j.buildTool(ctx, kind, ref.Config)
		for _, t := range found {
			t.set = j.wrapSet(t.set)
		}
		return found
	}
	if name == "mcp" {
		j.report(unlinkedMCPError(ref.Kind))
		return nil
	}
	if slices.Contains([]string{"openapi", "command"}, name) {
		j.report(ref.Kind.Errorf(0, "tool", "this version does not support tools of the kind %s yet; %s", name, listNames(append(j.loader.toolKinds.Names(), "agent"))))
		return nil
	}
	j.report(unknownNameError(ref.Node.Entries[0].Key, "kind of tool %s", name, append(j.loader.toolKinds.Names(), "agent")))
	return nil
}

func (j *job) buildTool(ctx context.Context, kind spec.Kind[tool.Env, tool.Set], n *spec.Node) []*resolvedTool {
	n = j.inlineSchema(n, "params")
	d := j.decodeTool(kind, n)
	ds := append(slices.Clip(d.ds), j.checkPolicy(d.plan.Config)...)
	j.report(ds...)
	if ds.HasErrors() {
		return nil
	}
	set, err := j.acquireToolSet(ctx, d)
	if err != nil {
		j.reportBuildError(n, "tool", err)
		return nil
	}
	return []*resolvedTool{{set: set, kind: kind.Name, config: d.plan.Config, node: n, use: d.use}}
}

// decodedTool is a decoded tool mapping; key is the resource key of its set.
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

func (j *job) decodeTool(kind spec.Kind[tool.Env, tool.Set], n *spec.Node) *decodedTool {
	return getOrMake(j.src.cache, toolKey{kind.Name, n}, func() (*decodedTool, bool) {
		plan, ds := kind.Decode(n)
		ds = append(ds, checkConfig(plan.Config, n)...)
		return &decodedTool{plan, hashResourceKey("tool", j.src.name, kind.Name, textOf(n)), newLazyUse(plan.Config, n), ds}, true
	})
}

// acquireToolSet returns the set for a tool's settings: a new one, or that of the
// previous revision.
func (j *job) acquireToolSet(ctx context.Context, d *decodedTool) (tool.Set, error) {
	set, release, err := acquireResource(j.loader.resources, d.key, func() (tool.Set, func() error, error) {
		client, end := j.acquireToolClient(d.plan.Config)
		set, err := d.plan.Build(ctx, tool.Env{
			HTTP: client, Dir: j.src.absoluteDir(), Offline: j.loader.opts.ReplaceTool != nil, Logger: j.loader.opts.Logger,
		})
		if err != nil {
			return nil, nil, errors.Join(err, end())
		}
		return set, closeBoth(set.Close, end), nil
	})
	if err == nil {
		j.closers = append(j.closers, release)
	}
	return set, err
}

func (j *job) resolveAgentTool(ctx context.Context, kind spec.Kind[runtime.AgentToolEnv, tool.Set], n *spec.Node, t ancestry) []*resolvedTool {
	plan, ds := kind.Decode(n)
	ds = append(ds, checkConfig(plan.Config, n)...)
	j.report(ds...)
	if ds.HasErrors() {
		return nil
	}
	pt := &resolvedTool{plan: plan, kind: kind.Name, config: plan.Config, node: n, use: newLazyUse(plan.Config, n)}
	if refs, ok := plan.Config.(interface{ AgentRefs() []*runtime.AgentRef }); ok {
		for _, ref := range refs.AgentRefs() {
			ref.Node = cmp.Or(ref.Node, n) // the tool names the agent itself
			if pt.agent = j.resolveRef(ctx, ref, t); pt.agent != nil {
				pt.agent.at = ref.Node
			}
		}
	}
	if pt.agent == nil {
		return nil
	}
	return []*resolvedTool{pt}
}

// checkToolNames warns of tools with the same name: a model can call only the first
// one.
func (j *job) checkToolNames(ctx context.Context, p *resolvedAgent) {
	seen := map[string]bool{}
	for _, t := range p.tools {
		for _, name := range t.listToolNames(ctx) {
			if seen[name] {
				j.report(t.at.Warnf("duplicate-name", "agent %s has more than one tool named %s: only the first one is called", p.name, name))
			}
			seen[name] = true
		}
	}
}
