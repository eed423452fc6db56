package loader

import (
	"slices"

	"agenthost/pkg/runtime"
)

const (
	resumabilityKey  = "resumability_config"
	resumabilityRule = "resumability"
)

// isResumable says whether the app or its root agent asks for invocations that
// can be resumed.
func (j *job) isResumable(root *resolvedAgent) bool {
	if j.doc.Resumability.Resumable() {
		return true
	}
	n := root.plan.Node.Get(resumabilityKey)
	if n.IsNull() {
		return false
	}
	var c runtime.ResumabilityConfig
	c.DecodeSpec(n) // its problems were told when the agent was decoded
	return c.Resumable()
}

// checkResumability wants the setting at the root alone, and in an app that has it
// names that tell sub-agents apart.
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
					"agent %s has two sub-agents named %s: a resumed invocation could not tell which of them ran", p.name, sub.name))
			}
			seen[sub.name] = true
		}
		for _, sub := range slices.Concat(p.subs, toolAgents(p.tools)) {
			if at := sub.plan.Node.Get(resumabilityKey); !at.IsNull() {
				j.report(at.Errorf(resumabilityRule, "agent %s is not the root: invocations are resumed as a whole", sub.name).
					WithHint("set it in app.yaml or on the root agent"))
			}
			below(sub)
		}
	}
	below(root)
}
