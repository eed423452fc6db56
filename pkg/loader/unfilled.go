package loader

import (
	"slices"
	"strings"

	"agenthost/pkg/spec"
)

// unfilled is a scalar in a line with a reference that could not be filled in.
type unfilled struct{ from, to spec.Pos }

// noteUnfilled remembers the scalars of a tree that problems with references are
// told of.
func (s *source) noteUnfilled(n *spec.Node, told spec.Diagnostics) {
	for _, e := range n.Entries {
		s.noteUnfilled(e.Value, told)
	}
	for _, item := range n.Items {
		s.noteUnfilled(item, told)
	}
	text := n.Text()
	for i := strings.Index(text.Value, "${"); i >= 0; {
		at := text.At(i)
		if slices.ContainsFunc(told, func(d spec.Diagnostic) bool { return d.Pos == at }) {
			s.unfilled = append(s.unfilled, unfilled{n.Pos, text.At(len(text.Value))})
			return
		}
		next := strings.Index(text.Value[i+1:], "${")
		if next < 0 {
			return
		}
		i += 1 + next
	}
}

// withoutFollowers leaves out what is wrong with a scalar only because a
// reference in it could not be filled in, which is told already.
func (s *source) withoutFollowers(ds spec.Diagnostics) spec.Diagnostics {
	if len(s.unfilled) == 0 {
		return ds
	}
	return slices.DeleteFunc(ds, func(d spec.Diagnostic) bool {
		return !slices.ContainsFunc(s.toldOf, d.Equal) && slices.ContainsFunc(s.unfilled, func(u unfilled) bool { return u.has(d.Pos) })
	})
}

// has says whether a place is that of the scalar. In one of many lines it is
// where the scalar begins: what stands in other lines is told for itself.
func (u unfilled) has(at spec.Pos) bool {
	oneLine := u.from.Line == u.to.Line && at.Line == u.from.Line && u.from.Col <= at.Col && at.Col <= u.to.Col
	return at.File == u.from.File && (oneLine || at == u.from)
}
