package lsp

import (
	"path/filepath"

	"agenthost/pkg/spec"
)

// define goes to the file or the place that a word names.
func (s *Server) define(c *cursor) any {
	word, _ := c.word()
	if word == "" {
		return nil
	}
	for _, file := range []string{filepath.Join(filepath.Dir(c.path), word), filepath.Join(c.dir, word)} {
		if filepath.Ext(word) != "" && s.files.exists(file) {
			return location{URI: uriOf(file)}
		}
	}
	if named, _, ok := s.named(c, word); ok {
		text, _ := s.files.text(named.Pos.File)
		at := rangeOf(spec.Pos{Line: named.Pos.Line, Col: 1}, linesOf(text)).Start
		return location{URI: uriOf(named.Pos.File), Range: textRange{at, at}}
	}
	return nil
}
