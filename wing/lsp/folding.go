package lsp

import (
	"context"
	"strings"
)

// A foldingRange is a range of lines that an editor can hide, without its first line.
type foldingRange struct {
	StartLine int    `json:"startLine"`
	EndLine   int    `json:"endLine"`
	Kind      string `json:"kind,omitempty"`
}

// listFoldingRanges answers textDocument/foldingRange: what is deeper than a line, and comments of
// several lines. It reads lines, so that an unfinished document has ranges as well.
func (s *Server) listFoldingRanges(_ context.Context, m *message) (any, error) {
	var p openParams
	if err := decodeParams(m, &p); err != nil {
		return nil, err
	}
	text, ok := s.files.readText(pathFromURI(p.Document.URI))
	if !ok {
		return nil, nil
	}
	return findFoldingRanges(splitIntoLines(text)), nil
}

func findFoldingRanges(lines []string) []foldingRange {
	type openRange struct{ line, indent int }
	ranges := []foldingRange{}
	var open []openRange
	last, comment := 0, -1 // the last line with content; where a comment began
	endComment := func(next int) {
		if comment >= 0 && next-comment > 1 {
			ranges = append(ranges, foldingRange{comment, next - 1, "comment"})
		}
		comment = -1
	}
	closeRanges := func(indent int) {
		for len(open) > 0 && open[len(open)-1].indent >= indent {
			if first := open[len(open)-1].line; last > first {
				ranges = append(ranges, foldingRange{StartLine: first, EndLine: last})
			}
			open = open[:len(open)-1]
		}
	}
	for i, line := range lines {
		content := strings.TrimLeft(line, " ")
		switch {
		case strings.HasPrefix(content, "#"):
			if comment < 0 {
				comment = i
			}
			continue
		case strings.TrimSpace(content) == "":
			endComment(i)
			continue
		}
		endComment(i)
		indent := 2 * (len(line) - len(content))
		if strings.HasPrefix(content, "- ") || content == "-" {
			indent++ // below a key at the same column
		}
		closeRanges(indent)
		open = append(open, openRange{i, indent})
		last = i
	}
	endComment(len(lines))
	closeRanges(0)
	return ranges
}
