package lsp

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"agenthost/pkg/spec"
)

// codeActions returns the edits that resolve the problems in the requested lines: the preferred ones
// are the fixes that check --fix applies, the others are those that a problem's hint names.
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
	if err := s.checkIfNeeded(ctx, dir); err != nil {
		return nil, err
	}
	lines := splitIntoLines(text)
	for _, d := range s.apps[dir].problems.Split() {
		if d.Pos.File != path {
			continue
		}
		for _, edit := range listEdits(d, lines) {
			if edit.fix.Line-1 < p.Range.Start.Line || edit.fix.Line-1 > p.Range.End.Line {
				continue
			}
			actions = append(actions, codeAction{
				Title: fmt.Sprintf("Change %s to %s", edit.fix.Old, edit.fix.New), Kind: quickFix, IsPreferred: edit.safe,
				Diagnostics: []diagnostic{s.newDiagnostic(d, lines)},
				Edit:        workspaceEdit{map[string][]textEdit{p.Document.URI: {{s.rangeOfFix(edit.fix, lines[edit.fix.Line-1]), edit.fix.New}}}},
			})
		}
	}
	return actions, nil
}

// problemEdit is an edit that resolves a problem. It is safe if check --fix applies it.
type problemEdit struct {
	fix  spec.Fix
	safe bool
}

// listEdits returns a problem's fix and then its proposals, as far as the lines still have the text
// that they replace.
func listEdits(d spec.Diagnostic, lines []string) []problemEdit {
	var edits []problemEdit
	add := func(f spec.Fix, safe bool) bool {
		if f.Line < 1 || f.Line > len(lines) || f.Col < 1 {
			return false
		}
		line := []rune(lines[f.Line-1])
		if f.Old == "" && f.New == "" || f.Col-1 > len(line) || !strings.HasPrefix(string(line[f.Col-1:]), f.Old) {
			return false
		}
		if !slices.ContainsFunc(edits, func(e problemEdit) bool { return e.fix == f }) {
			edits = append(edits, problemEdit{f, safe})
		}
		return true
	}
	add(d.Fix, true)
	for _, p := range d.Proposals {
		at := spec.Fix{Line: d.Pos.Line, Col: d.Pos.Col, Old: p.Old, New: p.New}
		if !add(at, false) {
			at.Col++ // after a quote
			add(at, false)
		}
	}
	return edits
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
