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

// placedTool is a tool of an agent, checked: built already, or waiting for the
// agent that it calls.
type placedTool struct {
	at  *spec.Node // where the agent names it
	set tool.Set
	// kind is the name of its kind, or of the built-in tool.
	kind string
	// config and node are what the set was built from.
	config any
	node   *spec.Node
	plan   spec.Plan[runtime.AgentToolEnv, tool.Set]
	agent  *placed
	use    *lazyUse
}

// resolveTool finds and checks one tool of an agent. Nothing comes back for a
// tool that cannot be had; its problems are reported.
func (j *job) resolveTool(ctx context.Context, ref *runtime.ToolRef, t trail) []*placedTool {
	switch {
	case ref.Use.Value != "":
		return j.useTool(ctx, ref, t)
	case ref.Name.Value != "":
		return j.namedTool(ctx, ref, t)
	case ref.Kind.Value != "":
		return j.kindTool(ctx, ref, t)
	}
	return nil
}

func (j *job) useTool(ctx context.Context, ref *runtime.ToolRef, t trail) []*placedTool {
	name := ref.Use.Value
	n, ok := j.names.tools[name]
	if !ok && j.appBroken {
		return nil
	}
	if !ok {
		j.report(unknown(ref.Node.Get("use"), "tool %s under tools in app.yaml", name, slices.Sorted(maps.Keys(j.names.tools))))
		return nil
	}
	j.use(n)
	if built := j.shared[n.node]; built != nil {
		again := *built
		return []*placedTool{&again}
	}
	found := j.declaredTool(ctx, n, t)
	// A tool that calls an agent is another one at each place.
	if len(found) == 1 && found[0].set != nil {
		j.shared[n.node] = found[0]
	}
	return found
}

// declaredTool is a tool under tools:.
func (j *job) declaredTool(ctx context.Context, p part, t trail) []*placedTool {
	n := p.node
	if n.Kind != spec.Mapping {
		return nil // told already, when app.yaml was decoded
	}
	var inner runtime.ToolRef
	j.report(inner.DecodeSpec(n)...)
	if inner.Use.Value != "" {
		j.report(inner.Use.Errorf(0, "use", "a tool under tools: cannot be the use of another"))
		return nil
	}
	return j.resolveTool(ctx, &inner, trail{file: p.file, passed: t.passed})
}

// namedTool is a tool by ADK's name.
func (j *job) namedTool(ctx context.Context, ref *runtime.ToolRef, t trail) []*placedTool {
	name := ref.Name.Value
	if own, ok := j.loader.opts.Functions.Tools[name]; ok {
		return j.programTool(ref, own)
	}
	if f, ok := j.function(name); ok {
		return j.mappedTool(ctx, f, name, t)
	}
	name = adkTool(name)
	if kind, ok := j.loader.agentTools.Lookup(name); ok && name == "AgentTool" {
		return j.agentTool(ctx, kind, agentToolArgs(argsOf(ref)), t)
	}
	if kind, ok := j.loader.builtins.Lookup(name); ok {
		found := j.buildTool(ctx, kind, argsOf(ref))
		for _, t := range found {
			if t.isDynamic() { // the tools are a server's, and built in only by name
				t.set = j.wrapped(t.set)
			}
		}
		return found
	}
	if name == "FunctionTool" || name == "LongRunningFunctionTool" {
		return j.functionTool(ctx, ref, t)
	}
	if isCodeName(name) {
		j.report(toolNeedsCode(ref.Node.Get("name"), name))
		return nil
	}
	j.report(unknownTool(ref, name, j.loader.builtins.Names()))
	return nil
}

func toolNeedsCode(at *spec.Node, name string) spec.Diagnostic {
	return needsCode(at, "tool", name,
		"say what stands in its place under functions: in app.yaml, write a tool here, or register a Go function of this name")
}

// programTool is a tool that the program has under this name. It is built, so
// there is nothing to set.
func (j *job) programTool(ref *runtime.ToolRef, t tool.Tool) []*placedTool {
	if !ref.Args.IsNull() {
		j.report(ref.Args.Errorf("tool", "tool %s is one of this program, which built it: it takes no args", ref.Name.Value))
		return nil
	}
	set := tool.One(t)
	if _, agent := t.(*runtime.AgentTool); !agent {
		set = j.wrapped(set)
	}
	return []*placedTool{{set: set}}
}

// wrapped is a set with what the loader puts around tools.
func (j *job) wrapped(set tool.Set) tool.Set {
	if wrap := j.loader.opts.WrapTool; wrap != nil {
		return wrappedSet{set, wrap}
	}
	return set
}

func unknownTool(ref *runtime.ToolRef, name string, builtins []string) spec.Diagnostic {
	if why := tool.UnsupportedReason(name); why != "" {
		return ref.Name.Errorf(0, "tool", "%s %s", ref.Name.Value, why)
	}
	return unknown(ref.Node.Get("name"), "built-in tool %s", name, append(builtins, "AgentTool"))
}

// kindTool is a tool by our kinds: one key with its settings.
func (j *job) kindTool(ctx context.Context, ref *runtime.ToolRef, t trail) []*placedTool {
	name := ref.Kind.Value
	if kind, ok := j.loader.agentTools.Lookup(name); ok && name == "agent" {
		return j.agentTool(ctx, kind, ref.Config, t)
	}
	if kind, ok := j.loader.toolKinds.Lookup(name); ok {
		found := j.buildTool(ctx, kind, ref.Config)
		for _, t := range found {
			t.set = j.wrapped(t.set)
		}
		return found
	}
	if slices.Contains([]string{"openapi", "command"}, name) {
		j.report(ref.Kind.Errorf(0, "tool", "this version does not have tools of the kind %s yet; %s", name, thereAre(append(j.loader.toolKinds.Names(), "agent"))))
		return nil
	}
	j.report(unknown(ref.Node.Entries[0].Key, "kind of tool %s", name, append(j.loader.toolKinds.Names(), "agent")))
	return nil
}

func (j *job) buildTool(ctx context.Context, kind spec.Kind[tool.Env, tool.Set], n *spec.Node) []*placedTool {
	n = j.withSchema(n, "params")
	d := j.decodedTool(kind, n)
	ds := append(slices.Clip(d.ds), j.checkReach(d.plan.Config)...)
	j.report(ds...)
	if ds.HasErrors() {
		return nil
	}
	set, err := j.toolSet(ctx, d)
	if err != nil {
		j.reportBuild(n, "tool", err)
		return nil
	}
	return []*placedTool{{set: set, kind: kind.Name, config: d.plan.Config, node: n, use: d.use}}
}

// decodedTool is what a tool's mapping says by itself; key is that of its set.
type decodedTool struct {
	plan spec.Plan[tool.Env, tool.Set]
	key  resourceKey
	use  *lazyUse
	ds   spec.Diagnostics
}

type toolKey struct {
	kind string
	node *spec.Node
}

func (j *job) decodedTool(kind spec.Kind[tool.Env, tool.Set], n *spec.Node) *decodedTool {
	return recalled(j.src.recall, toolKey{kind.Name, n}, func() (*decodedTool, bool) {
		plan, ds := kind.Decode(n)
		ds = append(ds, checkConfig(plan.Config, n)...)
		return &decodedTool{plan, resourceKeyOf("tool", j.src.name, kind.Name, textOf(n)), useOf(plan.Config, n), ds}, true
	})
}

// toolSet is what the settings of a tool come to: a new set, or that of the
// revision before.
func (j *job) toolSet(ctx context.Context, d *decodedTool) (tool.Set, error) {
	set, giveBack, err := borrow(j.loader.resources, d.key, func() (tool.Set, func() error, error) {
		client, end := j.client(d.plan.Config)
		set, err := d.plan.Build(ctx, tool.Env{
			HTTP: client, Dir: j.src.folder(), Offline: j.loader.opts.Replace != nil, Logger: j.loader.opts.Logger,
		})
		if err != nil {
			return nil, nil, errors.Join(err, end())
		}
		return set, both(set.Close, end), nil
	})
	if err == nil {
		j.closers = append(j.closers, giveBack)
	}
	return set, err
}

func (j *job) agentTool(ctx context.Context, kind spec.Kind[runtime.AgentToolEnv, tool.Set], n *spec.Node, t trail) []*placedTool {
	plan, ds := kind.Decode(n)
	ds = append(ds, checkConfig(plan.Config, n)...)
	j.report(ds...)
	if ds.HasErrors() {
		return nil
	}
	pt := &placedTool{plan: plan, kind: kind.Name, config: plan.Config, node: n, use: useOf(plan.Config, n)}
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
	return []*placedTool{pt}
}

// reportBuild tells why something could not be built, at its own place if the
// builder knows one.
func (j *job) reportBuild(n *spec.Node, rule string, err error) {
	var ds spec.Diagnostics
	if errors.As(err, &ds) {
		j.report(ds...)
		return
	}
	j.report(n.Errorf(rule, "%s", err))
}
