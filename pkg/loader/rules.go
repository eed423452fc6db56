package loader

import (
	"context"
	"slices"

	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
	"agenthost/pkg/spec"
)

// checkCaching warns when an app enables context caching and no model of its agents
// supports it. Agents called as tools do not count: their sessions end with the
// call, so a cache would never be used.
func (j *job) checkCaching(ctx context.Context, root *resolvedAgent) {
	if j.doc.ContextCache == nil || root == nil || j.ds.HasErrors() {
		return
	}
	if !j.hasCachingModel(root, j.buildDefaultModel(ctx)) {
		j.report(j.contextCacheNode.Warnf("context-cache", "no model of the app supports context caching: the setting has no effect").
			WithHint("use a model of the provider gemini"))
	}
}

// hasCachingModel reports whether an agent or one of its descendants has a model
// that supports context caching.
func (j *job) hasCachingModel(p *resolvedAgent, inherited model.LLM) bool {
	if _, asks := p.plan.Config.(interface{ ModelName() spec.Text }); asks {
		if p.model != nil {
			inherited = p.model
		}
		if model.CanCache(inherited) {
			return true
		}
	}
	for _, sub := range p.subs {
		if j.hasCachingModel(sub, inherited) {
			return true
		}
	}
	return false
}

// checkCodeExecution warns of agents, including those called as tools, that enable
// code execution with a model that does not support it. above is the model that
// an agent without its own inherits; nil is the default model.
func (j *job) checkCodeExecution(ctx context.Context, p *resolvedAgent, above model.LLM) {
	if p == nil || j.ds.HasErrors() {
		return
	}
	if p.model != nil {
		above = p.model
	}
	if c, ok := p.plan.Config.(interface {
		BuiltInCode(n *spec.Node) *spec.Node
	}); ok {
		if at := c.BuiltInCode(p.plan.Node); at != nil && !model.RunsCode(j.modelOrDefault(ctx, above)) {
			j.report(at.Warnf("code-executor", "the model of agent %s does not support code execution: the setting has no effect", p.name).
				WithHint("use a model of the provider gemini"))
		}
	}
	for _, sub := range p.subs {
		j.checkCodeExecution(ctx, sub, above)
	}
	for _, t := range p.tools {
		j.checkCodeExecution(ctx, t.agent, above)
	}
}

func (j *job) modelOrDefault(ctx context.Context, m model.LLM) model.LLM {
	if m == nil {
		return j.buildDefaultModel(ctx)
	}
	return m
}

// resolveCompaction finds the model that writes summaries: the configured one, or
// that of the root agent, which must then be an LLM agent.
func (j *job) resolveCompaction(ctx context.Context, root *resolvedAgent) {
	c := j.doc.Compaction
	if c == nil {
		return
	}
	if name := c.config.Summarizer.Model; name.Value != "" {
		j.summarizer = j.resolveModel(ctx, name)
		return
	}
	if root == nil {
		return
	}
	if _, asks := root.plan.Config.(interface{ ModelName() spec.Text }); !asks {
		j.report(c.node.Errorf("compaction", "the root agent %s has no model for summaries", root.name).
			WithHint("set summarizer: {model: NAME}"))
	}
}

const (
	resumabilityKey  = "resumability_config"
	resumabilityRule = "resumability"
)

// isResumable reports whether the app or its root agent enables resumable invocations.
func (j *job) isResumable(root *resolvedAgent) bool {
	if j.doc.Resumability.Resumable() {
		return true
	}
	n := root.plan.Node.Get(resumabilityKey)
	if n.IsNull() {
		return false
	}
	var c runtime.ResumabilityConfig
	c.DecodeSpec(n) // problems were reported when the agent was decoded
	return c.Resumable()
}

// checkResumability validates that resumability is set only on the root agent, and that
// sub-agents of a resumable app have unique names.
func (j *job) checkResumability(root *resolvedAgent) {
	if root == nil {
		return
	}
	resumable := j.isResumable(root)
	var below func(p *resolvedAgent)
	below = func(p *resolvedAgent) {
		seen := map[string]bool{}
		for _, sub := range p.subs {
			if resumable && sub.name != "" && seen[sub.name] {
				j.report(sub.plan.Node.Get("name").Errorf(resumabilityRule,
					"agent %s has more than one sub-agent named %s: resumable apps require unique names", p.name, sub.name))
			}
			seen[sub.name] = true
		}
		for _, sub := range slices.Concat(p.subs, toolAgents(p.tools)) {
			if at := sub.plan.Node.Get(resumabilityKey); !at.IsNull() {
				j.report(at.Errorf(resumabilityRule, "resumability is allowed only on the root agent, not on agent %s", sub.name).
					WithHint("set it in app.yaml or on the root agent"))
			}
			below(sub)
		}
	}
	below(root)
}

// checkSecrets reports secrets in fields that are displayed. All documents must have
// been decoded before.
func (j *job) checkSecrets() {
	if j.ds.HasErrors() {
		return // decoding may be incomplete
	}
	for _, root := range j.src.roots {
		j.report(spec.CheckSecrets(root)...)
	}
}
