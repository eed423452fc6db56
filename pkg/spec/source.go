package spec

import (
	"strings"
	"unicode/utf8"
)

// A source is the text of a file, for snippets and for places inside scalars.
type source struct {
	lines []string
	// strideOffsets has, by line number, the byte offsets of every stride'th
	// character of the long lines, so that a document in one line is not walked
	// from its start for each place in it.
	strideOffsets map[int][]int
}

const strideLength = 1024

// newSource ends lines where the YAML parser ends them, so that its line
// numbers fit.
func newSource(text string) *source {
	breaks := strings.NewReplacer("\r\n", "\n", "\r", "\n", "\u0085", "\n", "\u2028", "\n", "\u2029", "\n")
	s := &source{lines: strings.Split(breaks.Replace(text), "\n"), strideOffsets: map[int][]int{}}
	for i, line := range s.lines {
		if len(line) > strideLength {
			s.strideOffsets[i+1] = strideOffsets(line)
		}
	}
	return s
}

func strideOffsets(line string) []int {
	var offsets []int
	n := 0
	for at := range line {
		if n%strideLength == 0 {
			offsets = append(offsets, at)
		}
		n++
	}
	return offsets
}

// lineText returns a line by its number, or "" when there is none.
func (s *source) lineText(number int) string {
	if s == nil || number < 1 || number > len(s.lines) {
		return ""
	}
	return s.lines[number-1]
}

// textFrom returns what stands on the line of p from its column on.
func (s *source) textFrom(p Pos) string {
	line, skip := s.lineText(p.Line), p.Col-1
	if offsets := s.strideOffsets[p.Line]; skip >= strideLength && len(offsets) > 0 {
		last := min(skip/strideLength, len(offsets)-1)
		line, skip = line[offsets[last]:], skip-last*strideLength
	}
	for range skip {
		_, size := utf8.DecodeRuneInString(line)
		line = line[size:]
	}
	return line
}

// lastPos is the last place of the file that has a character.
func (s *source) lastPos(file string) Pos {
	for i := len(s.lines); i > 0; i-- {
		if text := strings.TrimRight(s.lineText(i), " \t"); text != "" {
			return Pos{file, i, utf8.RuneCountInString(text)}
		}
	}
	return Pos{file, 1, 1}
}

// clampPos moves a place into the file: the parser reports some problems behind
// its end.
func (s *source) clampPos(p Pos) Pos {
	if s.isPastEnd(p) {
		return s.lastPos(p.File)
	}
	p.Line = max(p.Line, 1)
	p.Col = min(max(p.Col, 1), utf8.RuneCountInString(s.lineText(p.Line))+1)
	return p
}

// isPastEnd says whether a place is on no line, or on the empty one after the
// last line feed.
func (s *source) isPastEnd(p Pos) bool {
	return p.Line > len(s.lines) || p.Line > 1 && p.Line == len(s.lines) && s.lineText(p.Line) == ""
}
