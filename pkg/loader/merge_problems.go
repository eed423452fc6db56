package loader

import (
	"fmt"

	"agenthost/pkg/spec"
)

// sharedRules are the rules about names: a name that the app or the host lacks is
// one problem, however many agents use it.
var sharedRules = []string{"code", "env", "file", "grant", "model", "unknown-name"}

// collectProblems returns what a load has found, sorted by place, each problem once.
func (j *job) collectProblems() spec.Diagnostics {
	ds := j.src.dropFollowUpProblems(j.ds)
	ds.Sort()
	return ds.Merge(sharedRules...)
}

// mergeByPlace joins warnings of one rule at one place, which differ only in the
// agents that lead there, into the first.
func mergeByPlace(ds spec.Diagnostics) spec.Diagnostics {
	type place struct {
		pos  spec.Pos
		rule string
	}
	first, more := map[place]int{}, map[int]int{}
	var merged spec.Diagnostics
	for _, d := range ds {
		at := place{d.Pos, d.Rule}
		if i, ok := first[at]; ok {
			if d.Message != merged[i].Message {
				more[i]++
			}
			continue
		}
		first[at] = len(merged)
		merged = append(merged, d)
	}
	for i, n := range more {
		merged[i].Message += fmt.Sprintf("; the same for other agents: %d", n)
	}
	return merged
}
