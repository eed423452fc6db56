package lsp

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"agenthost/pkg/spec"
)

// codeActions returns the fixes for the problems in the requested lines. They are the
// fixes that check --fix applies.
func (s *Server) codeActions(ctx context.Context, m *message) (any, error) {
	var p codeActionParams
	if err := decodeParams(m, &p); err != nil {
		return nil, err
	}
	path := pathFromURI(p.Document.URI)
	text, ok := s.files.readText(path)
	dir := s.files.findAppFolder(path)
	actions := []codeAction{}
	if !ok || dir == "" || !p.includesQuickFix() {
		return actions, nil
	}
	if s.dirty[dir] || s.apps[dir] == nil {
		if err := s.checkApp(ctx, dir); err != nil {
			return nil, err
		}
	}
	lines := splitIntoLines(text)
	for _, d := range s.apps[dir].problems {
		line := d.Fix.Line - 1
		if d.Pos.File != path || line < p.Range.Start.Line || line > p.Range.End.Line {
			continue
		}
		if _, done := spec.ApplyFixes([]byte(text), []spec.Fix{d.Fix}); len(done) == 0 {
			continue
		}
		actions = append(actions, codeAction{
			Title: fmt.Sprintf("Change %s to %s", d.Fix.Old, d.Fix.New), Kind: quickFix, IsPreferred: true,
			Diagnostics: []diagnostic{s.newDiagnostic(d, lines)},
			Edit:        workspaceEdit{map[string][]textEdit{p.Document.URI: {{s.rangeOfFix(d.Fix, lines[line]), d.Fix.New}}}},
		})
	}
	return actions, nil
}

// includesQuickFix reports whether the requested action kinds include quick fixes.
func (p *codeActionParams) includesQuickFix() bool {
	return len(p.Context.Only) == 0 || slices.ContainsFunc(p.Context.Only, func(kind string) bool {
		return kind == "" || kind == quickFix || strings.HasPrefix(quickFix, kind+".")
	})
}

// rangeOfFix returns the text range that a fix replaces.
func (s *Server) rangeOfFix(f spec.Fix, line string) textRange {
	start := s.encoding.countUnits(line, f.Col-1)
	return textRange{position{f.Line - 1, start}, position{f.Line - 1, start + s.encoding.countUnits(f.Old, len(f.Old))}}
}
