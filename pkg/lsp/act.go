package lsp

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"agenthost/pkg/spec"
)

// act answers with the repairs of the problems in the lines that are asked
// about: those that check --fix would make.
func (s *Server) act(ctx context.Context, m *message) (any, error) {
	var p actParams
	if err := decode(m, &p); err != nil {
		return nil, err
	}
	path := pathOf(p.Document.URI)
	text, ok := s.files.text(path)
	dir := s.files.appOf(path)
	actions := []codeAction{}
	if !ok || dir == "" || !p.wantsFixes() {
		return actions, nil
	}
	if s.dirty[dir] || s.apps[dir] == nil {
		if err := s.check(ctx, dir); err != nil {
			return nil, err
		}
	}
	lines := linesOf(text)
	for _, d := range s.apps[dir].problems {
		line := d.Fix.Line - 1
		if d.Pos.File != path || line < p.Range.Start.Line || line > p.Range.End.Line {
			continue
		}
		if _, done := spec.Apply([]byte(text), []spec.Fix{d.Fix}); len(done) == 0 {
			continue
		}
		actions = append(actions, codeAction{
			Title: fmt.Sprintf("Change %s to %s", d.Fix.Old, d.Fix.New), Kind: quickFix, IsPreferred: true,
			Diagnostics: []diagnostic{diagnosticOf(d, lines)},
			Edit:        workspaceEdit{map[string][]textEdit{p.Document.URI: {{placeOf(d.Fix, lines[line]), d.Fix.New}}}},
		})
	}
	return actions, nil
}

// wantsFixes says whether repairs are among the kinds of actions asked for.
func (p *actParams) wantsFixes() bool {
	return len(p.Context.Only) == 0 || slices.ContainsFunc(p.Context.Only, func(kind string) bool {
		return kind == "" || kind == quickFix || strings.HasPrefix(quickFix, kind+".")
	})
}

// placeOf is where the old text of a repair stands.
func placeOf(f spec.Fix, line string) textRange {
	start := units(line, f.Col-1)
	rest := line[bytesOf(line, start):]
	return textRange{position{f.Line - 1, start}, position{f.Line - 1, start + units(rest, len(f.Old))}}
}
