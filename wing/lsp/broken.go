package lsp

import (
	"context"
	"slices"
	"strings"

	"agenthost/pkg/loader"
	"agenthost/pkg/spec"
)

// A file with a syntax error has no content for the loader: its agents and tools would be unknown, and
// the other files would have false problems or none. Therefore the app is checked a second time with a
// string instead that can be parsed: the last text that could, or else the current one without the
// lines that cannot be read. The second check's problems are reported where the current text still has
// the lines, next to the syntax error.
//
// Invariants: every syntax error is reported; no problem is reported at a line that the second check
// did not read as it is.

// substitutes are the texts that replace broken files during a check.
type substitutes map[string]substitute

// A substitute is text that can be parsed. Its first lines and its last ones are the current text's.
type substitute struct {
	text           string
	first, last    int
	lines, current int // the number of lines in the substitute and in the current text
	// partial reports that lines are missing, so that what follows from their absence is unknown.
	partial bool
}

// checkFolder returns an app's outline and its problems.
func (s *Server) checkFolder(ctx context.Context, dir string, cache *loader.OutlineCache) (*loader.Outline, spec.Diagnostics) {
	outline, ds := s.checker.Outline(ctx, dir, cache)
	broken := substitutes{}
	for _, d := range ds {
		if isSyntaxError(d) {
			if text, ok := s.files.readText(d.Pos.File); ok && broken[d.Pos.File].text == "" {
				broken[d.Pos.File] = findSubstitute(text, s.parsed[d.Pos.File])
			}
		}
	}
	s.recordParsed(dir, broken)
	if len(broken) == 0 {
		return outline, ds
	}
	s.files.setSubstitutes(broken)
	defer s.files.setSubstitutes(nil)
	outline, more := s.checker.Outline(ctx, dir, cache)
	return outline, broken.mergeProblems(ds, more)
}

// isSyntaxError reports whether a problem's file has no content.
func isSyntaxError(d spec.Diagnostic) bool {
	return d.Severity == spec.Error && slices.Contains([]string{"yaml", "duplicate-key"}, d.Rule)
}

// recordParsed stores the texts of the app's open files that can be parsed.
func (s *Server) recordParsed(dir string, broken substitutes) {
	for path, text := range s.files.listOpen() {
		if _, isBroken := broken[path]; !isBroken && strings.HasPrefix(path, dir) {
			s.parsed[path] = text
		}
	}
}

// recordOpened stores the text of an opened file if it can be parsed: a change can follow before a check.
func (s *Server) recordOpened(path, text string) {
	if _, ds := spec.Parse(path, []byte(text)); !slices.ContainsFunc(ds, isSyntaxError) {
		s.parsed[path] = text
	}
}

// findSubstitute returns the text that replaces a broken one: the last one that could be parsed, or
// the text without the lines of its errors.
func findSubstitute(text, parsed string) substitute {
	lines := splitIntoLines(text)
	if parsed != "" {
		before := splitIntoLines(parsed)
		r := substitute{text: parsed, lines: len(before), current: len(lines)}
		for r.first < min(len(before), len(lines)) && before[r.first] == lines[r.first] {
			r.first++
		}
		for r.last < min(len(before), len(lines))-r.first && before[len(before)-1-r.last] == lines[len(lines)-1-r.last] {
			r.last++
		}
		return r
	}
	r := substitute{lines: len(lines), current: len(lines), first: len(lines), partial: true}
	for range 20 {
		_, ds := spec.Parse("", []byte(strings.Join(lines, "\n")))
		at := slices.IndexFunc(ds, isSyntaxError)
		if at < 0 {
			r.text = strings.Join(lines, "\n")
			return r
		}
		// The parser may notice an error a line later.
		n := min(max(ds[at].Pos.Line-1, 0), len(lines)-1)
		for n > 0 && strings.TrimSpace(lines[n]) == "" {
			n--
		}
		lines[n] = ""
		r.first = min(r.first, n)
	}
	return r
}

// mergeProblems returns the problems of the broken files' syntax, and those of the second check.
func (b substitutes) mergeProblems(syntax, checked spec.Diagnostics) spec.Diagnostics {
	var ds spec.Diagnostics
	for _, d := range syntax {
		if _, isBroken := b[d.Pos.File]; isBroken && isSyntaxError(d) {
			ds = append(ds, d)
		}
	}
	for _, d := range checked.Split() {
		r, isBroken := b[d.Pos.File]
		switch {
		case isBroken && isSyntaxError(d), isBroken && r.partial && d.Rule == "required":
			continue
		case isBroken && d.Pos.Line > r.first:
			if d.Pos.Line <= r.lines-r.last {
				continue
			}
			d.Pos.Line += r.current - r.lines
			if d.Fix != (spec.Fix{}) {
				d.Fix.Line += r.current - r.lines
			}
		}
		ds = append(ds, d)
	}
	ds.Sort()
	return ds
}
