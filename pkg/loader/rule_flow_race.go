package loader

import (
	"maps"
	"slices"

	"agenthost/pkg/runtime"
	"agenthost/pkg/tool"
)

// checkRaces warns of agents that run in parallel and always write the same key.
func (f *stateFlow) checkRaces(p *resolvedAgent) {
	for _, group := range groupParallel(p) {
		f.checkRace(group)
	}
	for _, sub := range slices.Concat(p.subs, toolAgents(p.tools)) {
		f.checkRaces(sub)
	}
}

// groupParallel returns the groups of sub-agents that an agent starts at the same time.
func groupParallel(p *resolvedAgent) [][]*resolvedAgent {
	if p.plan.Kind.Name == "ParallelAgent" {
		return [][]*resolvedAgent{p.subs}
	}
	begun := map[int][]*resolvedAgent{}
	for _, e := range workflowEdges(p) {
		if e.Kind == runtime.EdgeAlways && e.To < len(p.subs) && !slices.Contains(begun[e.From], p.subs[e.To]) {
			begun[e.From] = append(begun[e.From], p.subs[e.To])
		}
	}
	var groups [][]*resolvedAgent
	for _, from := range slices.Sorted(maps.Keys(begun)) {
		groups = append(groups, begun[from])
	}
	return groups
}

func (f *stateFlow) checkRace(group []*resolvedAgent) {
	taken := map[string]*resolvedAgent{}
	for _, p := range group {
		sure := f.collectCertainWrites(p)
		for _, key := range slices.Sorted(maps.Keys(sure)) {
			if by := taken[key]; by != nil {
				f.addProblem(sure[key].Key.Warnf(0, "state-race", "agents %s and %s run in parallel and both write the state key %s: the last one to finish wins", by.name, p.name, key).
					WithHint("use a separate key for each agent"))
			}
			taken[key] = p
		}
	}
}

// collectCertainWrites returns the writes of every run of an agent.
func (f *stateFlow) collectCertainWrites(p *resolvedAgent) map[string]tool.StateWrite {
	sure := map[string]tool.StateWrite{}
	use := p.stateUse()
	if !p.plan.Node.Get("when").IsNull() || use.Guarded {
		return sure
	}
	for _, w := range use.Writes {
		if w.Sure {
			sure[w.Key.Value] = w
		}
	}
	switch p.plan.Kind.Name {
	case "SequentialAgent", "ParallelAgent", "LoopAgent":
		for _, sub := range p.subs {
			maps.Copy(sure, f.collectCertainWrites(sub))
		}
	}
	return sure
}
