package spec

import (
	"io"
	"strings"
	"unicode"
)

const (
	// tabStop is the tab width in snippets.
	tabStop = 4
	// snippetWidth limits the printed part of a long line.
	snippetWidth = 120
	// maxSnippet is the length of the longest line printed as a snippet.
	maxSnippet = 16 << 10
)

// WriteText writes each problem as "file:line:col: message [rule]", followed by the
// source line, a caret under the column, and the hint, if known.
func (ds Diagnostics) WriteText(w io.Writer) error {
	var b strings.Builder
	for _, d := range ds {
		b.WriteString(d.String() + "\n")
		d.writeSnippet(&b)
		if d.Hint != "" {
			b.WriteString("hint: " + d.Hint + "\n")
		}
		if len(d.Also) > 0 {
			b.WriteString("also: " + d.alsoText() + "\n")
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// maxAlso limits the printed other places.
const maxAlso = 5

func (d Diagnostic) alsoText() string {
	var words []string
	for _, p := range d.Also[:min(len(d.Also), maxAlso)] {
		words = append(words, p.Pos.String())
	}
	if len(d.Also) > maxAlso {
		words = append(words, "…")
	}
	return strings.Join(words, ", ")
}

func (d Diagnostic) writeSnippet(b *strings.Builder) {
	if d.Pos.Line == 0 || len(d.Source) > maxSnippet || strings.TrimSpace(d.Source) == "" {
		return
	}
	cells, caret := layoutCells(d.Source, d.Pos.Col)
	from := 0
	if caret >= snippetWidth {
		from = caret - snippetWidth/2
	}
	to := min(len(cells), from+snippetWidth)
	text := strings.TrimRight(strings.Join(cells[from:to], ""), " ")
	b.WriteString("  | " + text + "\n")
	b.WriteString("  | " + strings.Repeat(" ", caret-from) + "^\n")
}

// layoutCells spreads a line over the cells of a terminal and returns the cell of a
// column. A wide character occupies two cells, the second of which is empty.
func layoutCells(line string, col int) (cells []string, caret int) {
	n := 1
	for _, r := range line {
		if n == col {
			caret = len(cells)
		}
		cells = appendRune(cells, r)
		n++
	}
	if col >= n {
		caret = len(cells)
	}
	return cells, caret
}

func appendRune(cells []string, r rune) []string {
	switch {
	case r == '\t':
		cells = append(cells, " ")
		for len(cells)%tabStop != 0 {
			cells = append(cells, " ")
		}
		return cells
	case unicode.IsControl(r):
		return append(cells, "\uFFFD")
	case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf) && len(cells) > 0:
		cells[len(cells)-1] += string(r)
		return cells
	case isWide(r):
		return append(cells, string(r), "")
	}
	return append(cells, string(r))
}

// isWide reports whether terminals display the character in two cells: East Asian
// scripts, their punctuation and full-width forms, and emoji.
func isWide(r rune) bool {
	return unicode.In(r, unicode.Han, unicode.Hangul, unicode.Hiragana, unicode.Katakana) ||
		r >= 0x3000 && r <= 0x303E || r >= 0xFF01 && r <= 0xFF60 || r >= 0x1F300 && r <= 0x1FAFF
}
