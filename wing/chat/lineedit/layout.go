package lineedit

import (
	"fmt"
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// A Layout is a buffer's text in rows for a terminal.
type Layout struct {
	// Rows contain no control characters, and none is wider than the width.
	Rows []string
	// Row and Column are the cursor's place.
	Row, Column int
	// Above and Below count the rows that are left out.
	Above, Below int
}

// Layout wraps the text in rows of a width, at most maxRows around the cursor. The first row begins
// with the prompt, the others with as many spaces.
func (b *Buffer) Layout(prompt string, width, maxRows int) Layout {
	indent := ansi.StringWidth(prompt)
	if indent*2 > width {
		prompt, indent = "", 0
	}
	var l Layout
	row, column := strings.Builder{}, indent
	row.WriteString(prompt)
	endRow := func() {
		l.Rows = append(l.Rows, row.String())
		row.Reset()
		row.WriteString(strings.Repeat(" ", indent))
		column = indent
	}
	text := b.Text()
	for at := 0; ; {
		if at == b.cursor {
			if column >= width {
				endRow()
			}
			l.Row, l.Column = len(l.Rows), column
		}
		if text == "" {
			break
		}
		cluster, shown, n := nextCluster(text)
		text = text[len(cluster):]
		at += len([]rune(cluster))
		if cluster == "\n" {
			endRow()
			continue
		}
		if column+n > width {
			endRow()
		}
		row.WriteString(shown)
		column += n
	}
	endRow()
	l.limitRows(max(1, maxRows))
	return l
}

// nextCluster returns the first grapheme cluster, and how it is shown: tabs as spaces, and
// characters that change the text direction by their number.
func nextCluster(text string) (cluster, shown string, width int) {
	cluster, width = ansi.FirstGraphemeCluster(text, ansi.GraphemeWidth)
	shown = cluster
	for _, r := range cluster {
		switch {
		case r == '\t':
			shown = "    "
		case r >= '\u202a' && r <= '\u202e', r >= '\u2066' && r <= '\u2069', r == '\u200e', r == '\u200f':
			shown = fmt.Sprintf(`\u%04x`, r)
		default:
			continue
		}
		return cluster, shown, len(shown)
	}
	return cluster, shown, width
}

// limitRows keeps the rows around the cursor.
func (l *Layout) limitRows(limit int) {
	if len(l.Rows) <= limit {
		return
	}
	l.Above = min(max(0, l.Row-limit+1), len(l.Rows)-limit)
	l.Below = len(l.Rows) - limit - l.Above
	l.Rows = l.Rows[l.Above : l.Above+limit]
	l.Row -= l.Above
}
