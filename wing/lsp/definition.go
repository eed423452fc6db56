package lsp

import (
	"path/filepath"

	"agenthost/pkg/spec"
)

// definitionAtCursor returns the location of the file or definition that the word at the
// cursor names.
func (s *Server) definitionAtCursor(c *cursor) any {
	word, _ := c.wordAtCursor()
	if word == "" {
		return nil
	}
	for _, file := range []string{filepath.Join(filepath.Dir(c.path), word), filepath.Join(c.dir, word)} {
		if filepath.Ext(word) != "" && s.files.hasFile(file) {
			return location{URI: uriFromPath(file)}
		}
	}
	if named, _, ok := s.findNamed(c, word); ok {
		text, _ := s.files.readText(named.Pos.File)
		at := s.rangeOfWord(spec.Pos{Line: named.Pos.Line, Col: 1}, splitIntoLines(text)).Start
		return location{URI: uriFromPath(named.Pos.File), Range: textRange{at, at}}
	}
	return nil
}
