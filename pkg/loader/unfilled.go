package loader

import (
	"slices"
	"strings"

	"agenthost/pkg/spec"
)

// unfilledScalar is a scalar in a line with a reference that could not be filled in.
type unfilledScalar struct{ from, to spec.Pos }

// recordUnfilled remembers the scalars of a tree that problems with references are
// told of.
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

// dropFollowUpProblems leaves out what is wrong with a scalar only because a
// reference in it could not be filled in, which is told already.
func (s *source) dropFollowUpProblems(ds spec.Diagnostics) spec.Diagnostics {
	if len(s.unfilled) == 0 {
		return ds
	}
	return slices.DeleteFunc(ds, func(d spec.Diagnostic) bool {
		return !slices.ContainsFunc(s.unfilledProblems, d.Equal) && slices.ContainsFunc(s.unfilled, func(u unfilledScalar) bool { return u.containsPos(d.Pos) })
	})
}

// containsPos says whether a place is that of the scalar. In one of many lines it is
// where the scalar begins: what stands in other lines is told for itself.
func (u unfilledScalar) containsPos(at spec.Pos) bool {
	oneLine := u.from.Line == u.to.Line && at.Line == u.from.Line && u.from.Col <= at.Col && at.Col <= u.to.Col
	return at.File == u.from.File && (oneLine || at == u.from)
}
