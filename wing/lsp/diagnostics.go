package lsp

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"agenthost/pkg/spec"
)

// checkApp validates a changed app and publishes its diagnostics.
func (s *Server) checkApp(ctx context.Context, dir string) error {
	delete(s.dirty, dir)
	a := s.apps[dir]
	if a == nil {
		a = &app{published: map[string]bool{}}
		s.apps[dir] = a
	}
	outline, ds := s.checkFolder(ctx, dir, &a.cache)
	// An invalid document may lack names; keep the previous outline.
	if a.outline == nil || !ds.HasErrors() || len(outline.Agents) > 0 {
		a.outline = outline
	}
	a.problems = ds
	byFile := map[string]spec.Diagnostics{}
	for _, d := range ds.Split() {
		byFile[d.Pos.File] = append(byFile[d.Pos.File], d)
	}
	for file := range a.published {
		if byFile[file] == nil {
			byFile[file] = nil
		}
	}
	a.published = map[string]bool{}
	for _, file := range slices.Sorted(maps.Keys(byFile)) {
		a.published[file] = len(byFile[file]) > 0
		if err := s.publishDiagnostics(file, byFile[file]); err != nil {
			return err
		}
	}
	return nil
}

// checkIfNeeded validates an app that has changed since its last check, or has had none.
func (s *Server) checkIfNeeded(ctx context.Context, dir string) error {
	if s.dirty[dir] || s.apps[dir] == nil {
		return s.checkApp(ctx, dir)
	}
	return nil
}

func (s *Server) publishDiagnostics(file string, ds spec.Diagnostics) error {
	text, _ := s.files.readText(file)
	lines := splitIntoLines(text)
	p := publishParams{URI: uriFromPath(file), Diagnostics: []diagnostic{}}
	for _, d := range ds {
		p.Diagnostics = append(p.Diagnostics, s.newDiagnostic(d, lines))
	}
	params, err := json.Marshal(p)
	if err != nil {
		return err
	}
	return writeMessage(s.out, &message{Method: "textDocument/publishDiagnostics", Params: params})
}

func (s *Server) newDiagnostic(d spec.Diagnostic, lines []string) diagnostic {
	out := diagnostic{Range: s.rangeOfWord(d.Pos, lines), Severity: severityError, Code: d.Rule, Source: "agenthost", Message: d.Message}
	if d.Severity == spec.Warning {
		out.Severity = severityWarning
	}
	if d.Hint != "" {
		out.Message += "\n" + d.Hint
	}
	return out
}

// rangeOfWord returns the word's range at a position.
func (s *Server) rangeOfWord(pos spec.Pos, lines []string) textRange {
	n := max(pos.Line-1, 0)
	if n >= len(lines) {
		return textRange{position{n, 0}, position{n, 0}}
	}
	line := lines[n]
	start := s.encoding.countUnits(line, pos.Col-1)
	rest := line[s.encoding.byteOffset(line, start):]
	end := strings.IndexAny(rest, " \t,]}:#")
	switch {
	case rest == "":
		end = 0
	case end < 0:
		end = len(rest)
	case end == 0:
		end = 1
	}
	return textRange{position{n, start}, position{n, start + s.encoding.countUnits(rest[:end], end)}}
}
