package loader

import (
	"encoding/json"
	"slices"

	"agenthost/pkg/agentconfig"
	"agenthost/pkg/model"
	"agenthost/pkg/spec"
)

// checkCaching warns when an app enables context caching and no model of its agents
// supports it. Agents called as tools do not count: their sessions end with the
// call, so a cache would never be used.
func checkCaching(app *appModel) spec.Diagnostics {
	if app.doc.ContextCache == nil || hasCachingModel(app.root, app.defaultModel()) {
		return nil
	}
	return spec.Diagnostics{app.contextCacheNode().Warnf("context-cache", "no model of the app supports context caching: the setting has no effect").
		WithHint("use a model of the provider gemini or anthropic")}
}

// hasCachingModel reports whether an agent or one of its descendants has a model
// that supports context caching.
func hasCachingModel(p *resolvedAgent, inherited model.LLM) bool {
	if _, ok := p.modelName(); ok {
		if p.model != nil {
			inherited = p.model
		}
		if model.CanCache(inherited) {
			return true
		}
	}
	return slices.ContainsFunc(p.subs, func(sub *resolvedAgent) bool { return hasCachingModel(sub, inherited) })
}

// checkCodeExecution warns of agents, including those called as tools, that enable
// code execution with a model that does not support it. An agent without a model
// inherits that of its parent or of its caller; nil is the default model.
func checkCodeExecution(app *appModel) spec.Diagnostics {
	var ds spec.Diagnostics
	var below func(p *resolvedAgent, inherited model.LLM)
	below = func(p *resolvedAgent, inherited model.LLM) {
		if p.model != nil {
			inherited = p.model
		}
		if c, ok := p.plan.Config.(agentconfig.CodeConfig); ok {
			at, m := c.BuiltInCode(p.plan.Node), inherited
			if at != nil && m == nil {
				m = app.defaultModel()
			}
			if at != nil && !model.RunsCode(m) {
				ds = append(ds, at.Warnf("code-executor", "the model of agent %s does not support code execution: the setting has no effect", p.name).
					WithHint("use a model of the provider gemini"))
			}
		}
		for _, sub := range slices.Concat(p.subs, toolAgents(p.tools)) {
			below(sub, inherited)
		}
	}
	below(app.root, nil)
	return ds
}

// bytesPerToken is the estimate of check: English texts have about 4 bytes per token, and
// most other languages fewer.
const bytesPerToken = 4

// checkContextLimits warns of agents whose max_output_tokens exceeds that of their model, and
// of those whose instructions and tools alone exceed its context.
func checkContextLimits(app *appModel) spec.Diagnostics {
	var ds spec.Diagnostics
	var below func(p *resolvedAgent, inherited string)
	below = func(p *resolvedAgent, inherited string) {
		if p.modelRef != "" {
			inherited = p.modelRef
		}
		if _, ok := p.modelName(); ok {
			ds = append(ds, checkAgentLimits(app, p, app.listModelLimits(inherited))...)
		}
		for _, sub := range slices.Concat(p.subs, toolAgents(p.tools)) {
			below(sub, inherited)
		}
	}
	below(app.root, "")
	return mergeByPlace(ds)
}

// checkAgentLimits checks an agent against the models that it may call, until one of them has
// a smaller limit.
func checkAgentLimits(app *appModel, p *resolvedAgent, models []namedLimits) spec.Diagnostics {
	for _, limits := range models {
		ds := append(checkOutputLimit(outputTokensNode(p), limits), checkInputLimit(app, p, limits)...)
		if len(ds) > 0 {
			return ds
		}
	}
	return nil
}

// outputTokensNode returns the agent's max_output_tokens, or nil.
func outputTokensNode(p *resolvedAgent) *spec.Node {
	settings := p.plan.Node.Get("generate_content_config")
	if at := settings.Get("maxOutputTokens"); at != nil {
		return at
	}
	return settings.Get("max_output_tokens")
}

// checkOutputLimit checks a max_output_tokens, which may be nil.
func checkOutputLimit(at *spec.Node, limits namedLimits) spec.Diagnostics {
	if at.IsNull() || limits.Output == 0 {
		return nil
	}
	n, ok := at.Any().(int64)
	if !ok || n <= int64(limits.Output) {
		return nil
	}
	return spec.Diagnostics{at.Warnf("context-limit", "max_output_tokens %d exceeds the limit of %d tokens of model %s", n, limits.Output, limits.model).
		WithHint("set it to at most %d, or use a model with longer responses", limits.Output)}
}

// checkInputLimit estimates the prompt of an agent without its conversation. The warning is
// at the longest part.
func checkInputLimit(app *appModel, p *resolvedAgent, limits namedLimits) spec.Diagnostics {
	if limits.Input == 0 {
		return nil
	}
	total, most, at := 0, 0, p.plan.Node
	add := func(n *spec.Node, size int) {
		if total += size; size > most {
			most, at = size, n
		}
	}
	for _, key := range []string{"instruction", "static_instruction"} {
		n := p.plan.Node.Get(key)
		add(n, textSize(n))
	}
	global := app.root.plan.Node.Get("global_instruction")
	add(global, textSize(global))
	add(p.plan.Node.Get("tools"), toolsSize(p.tools))
	tokens := total / bytesPerToken
	if tokens <= limits.Input {
		return nil
	}
	return spec.Diagnostics{at.Warnf("context-limit", "the instructions and tools of agent %s have an estimated %d tokens, more than the %d that model %s accepts", p.name, tokens, limits.Input, limits.model).
		WithHint("shorten them, let a tool return long texts, or use a model with a larger context; %d bytes count as one token", bytesPerToken)}
}

// textSize returns the bytes of the text of an instruction, which may be nil, a string, or
// parts.
func textSize(n *spec.Node) int {
	switch {
	case n.IsNull():
		return 0
	case n.Kind == spec.Scalar:
		return len(n.Value)
	}
	size := textSize(n.Get("text")) + textSize(n.Get("parts"))
	for _, item := range n.Items {
		size += textSize(item)
	}
	return size
}

// toolsSize returns the bytes of the declarations of tools that are known before a run.
func toolsSize(tools []*resolvedTool) int {
	size := 0
	for _, t := range tools {
		for _, one := range t.tools {
			if decl, err := json.Marshal(one.Declaration()); err == nil {
				size += len(decl)
			}
		}
	}
	return size
}
