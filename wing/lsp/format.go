package lsp

import (
	"context"

	"agenthost/pkg/spec"
)

// formatDocument answers textDocument/formatting and rangeFormatting: the edits of [spec.Format] in the
// lines of the request. A document that cannot be formatted has none; see its diagnostics.
func (s *Server) formatDocument(_ context.Context, m *message) (any, error) {
	var p struct {
		Document document   `json:"textDocument"`
		Range    *textRange `json:"range"`
	}
	if err := decodeParams(m, &p); err != nil {
		return nil, err
	}
	edits := []textEdit{}
	text, ok := s.files.readText(pathFromURI(p.Document.URI))
	if !ok {
		return nil, nil
	}
	changes, err := spec.FormatLines([]byte(text))
	if err != nil {
		return edits, nil //nolint:nilerr // see the diagnostics
	}
	lines := splitIntoLines(text)
	for _, c := range changes {
		if p.Range != nil && (c.Line < p.Range.Start.Line || c.Line > p.Range.End.Line) {
			continue
		}
		at := textRange{position{c.Line, 0}, position{c.Line, s.encoding.countUnits(lines[c.Line], len(lines[c.Line]))}}
		if c.Removed {
			at.End = position{c.Line + 1, 0}
		}
		edits = append(edits, textEdit{at, c.Text})
	}
	return edits, nil
}
