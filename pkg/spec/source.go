package spec

import (
	"fmt"
	"path"
	"path/filepath"
	"strings"
	"unicode/utf8"
)

// A Pos is a position in a file. Lines and columns start at 1; columns count characters.
// Line is 0 for the file as a whole.
type Pos struct {
	File      string
	Line, Col int
}

// String returns "file:line:col", or only the file if there is no line.
func (p Pos) String() string {
	if p.Line == 0 {
		return p.File
	}
	return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Col)
}

// Short returns the position with its file's base name, for messages to clients that should not
// reveal the host's directories.
func (p Pos) Short() Pos {
	if p.File != "" {
		p.File = path.Base(filepath.ToSlash(p.File))
	}
	return p
}

func (p Pos) moveRight(n int) Pos {
	p.Col += n
	return p
}

// A source holds a file's lines, for snippets and for positions inside scalars.
type source struct {
	lines []string
	// strideOffsets contains, by line number, the byte offset of every strideLength'th character in
	// long lines. This avoids a scan from the line's start for each position in a document on one
	// line.
	strideOffsets map[int][]int
}

const strideLength = 1024

// newSource splits lines as the YAML parser does, so that line numbers match.
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

// lineText returns a line by its number, or "" if there is none.
func (s *source) lineText(number int) string {
	if s == nil || number < 1 || number > len(s.lines) {
		return ""
	}
	return s.lines[number-1]
}

// textFrom returns the rest of p's line, starting at its column.
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

// lastPos returns the position of the file's last character that is not a space.
func (s *source) lastPos(file string) Pos {
	for i := len(s.lines); i > 0; i-- {
		if text := strings.TrimRight(s.lineText(i), " \t"); text != "" {
			return Pos{file, i, utf8.RuneCountInString(text)}
		}
	}
	return Pos{file, 1, 1}
}

// clampPos moves a position into the file: the parser reports some problems after its
// end.
func (s *source) clampPos(p Pos) Pos {
	if s.isPastEnd(p) {
		return s.lastPos(p.File)
	}
	p.Line = max(p.Line, 1)
	p.Col = min(max(p.Col, 1), utf8.RuneCountInString(s.lineText(p.Line))+1)
	return p
}

// isPastEnd reports whether a position is after the last line that is not empty.
func (s *source) isPastEnd(p Pos) bool {
	return p.Line > len(s.lines) || p.Line > 1 && p.Line == len(s.lines) && s.lineText(p.Line) == ""
}
