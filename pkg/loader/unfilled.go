package loader

import (
	"slices"
	"strings"

	"agenthost/pkg/spec"
)

// unfilledScalar is the range of a scalar with a reference that could not be expanded.
type unfilledScalar struct{ from, to spec.Pos }

// recordUnfilled records the scalars of a tree whose references have problems.
func (s *source) recordUnfilled(n *spec.Node, problems spec.Diagnostics) {
	for _, e := range n.Entries {
		s.recordUnfilled(e.Value, problems)
	}
	for _, item := range n.Items {
		s.recordUnfilled(item, problems)
	}
	text := n.Text()
	for i := strings.Index(text.Value, "${"); i >= 0; {
		at := text.At(i)
		if slices.ContainsFunc(problems, func(d spec.Diagnostic) bool { return d.Pos == at }) {
			s.unfilled = append(s.unfilled, unfilledScalar{n.Pos, text.At(len(text.Value))})
			return
		}
		next := strings.Index(text.Value[i+1:], "${")
		if next < 0 {
			return
		}
		i += 1 + next
	}
}

// dropFollowUpProblems removes problems of scalars that only follow from an unexpanded
// reference, which is already reported.
func (s *source) dropFollowUpProblems(ds spec.Diagnostics) spec.Diagnostics {
	if len(s.unfilled) == 0 {
		return ds
	}
	return slices.DeleteFunc(ds, func(d spec.Diagnostic) bool {
		return !slices.ContainsFunc(s.unfilledProblems, d.Equal) && slices.ContainsFunc(s.unfilled, func(u unfilledScalar) bool { return u.containsPos(d.Pos) })
	})
}

// containsPos reports whether a position is in the scalar. For a multi-line scalar,
// only the start counts: problems in its other lines are reported separately.
func (u unfilledScalar) containsPos(at spec.Pos) bool {
	oneLine := u.from.Line == u.to.Line && at.Line == u.from.Line && u.from.Col <= at.Col && at.Col <= u.to.Col
	return at.File == u.from.File && (oneLine || at == u.from)
}
