package loader

import (
	"context"

	"agenthost/pkg/model"
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
