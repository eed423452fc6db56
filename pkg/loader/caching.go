package loader

import (
	"context"

	"agenthost/pkg/model"
	"agenthost/pkg/spec"
)

// checkCaching warns when an app asks for contents to be cached and none of
// its agents has a model that can. Agents that are called as tools do not
// count: their sessions end with the call, so that nothing could use a cache.
func (j *job) checkCaching(ctx context.Context, root *resolvedAgent) {
	if j.doc.ContextCache == nil || root == nil || j.ds.HasErrors() {
		return
	}
	if !j.hasCachingModel(root, j.buildDefaultModel(ctx)) {
		j.report(j.contextCacheNode.Warnf("context-cache", "no model of the app can cache contents: this changes nothing").
			WithHint("models of the provider gemini can"))
	}
}

// hasCachingModel says whether an agent, or one below it, has a model that caches.
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
