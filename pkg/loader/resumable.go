package loader

import (
	"slices"

	"agenthost/pkg/runtime"
)

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
