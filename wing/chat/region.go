package chat

import (
	"fmt"
	"io"
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// A region is the bottom of the terminal, which is redrawn. Its rows are never wider than the
// terminal and never more than its height, so that the cursor finds the first row again.
type region struct {
	out io.Writer
	// rows are what the terminal shows, and width its width at that time; row is the cursor's.
	rows       []string
	width, row int
}

// A frame is what a region shows next.
type frame struct {
	// above is printed above the region: whole lines, which end with \n.
	above string
	rows  []string
	// row and column are the cursor's place.
	row, column int
	// width is the terminal's.
	width int
}

const (
	hideCursor = "\x1b[?25l"
	showCursor = "\x1b[?25h"
	// beginUpdate and endUpdate make a terminal that supports them show a frame at once.
	beginUpdate = "\x1b[?2026h"
	endUpdate   = "\x1b[?2026l"
	eraseLine   = "\x1b[K"
	eraseBelow  = "\x1b[J"
)

// drawFrame shows a frame in one write.
func (r *region) drawFrame(f *frame) error {
	var b strings.Builder
	b.WriteString(beginUpdate + hideCursor)
	b.WriteString("\r")
	moveUp(&b, r.rowsAboveCursor(f.width))
	// Each line erases what was after it, and the last row what was below: erasing all at once
	// flickers, and tmux keeps an erased screen in its history.
	redraw := f.above != "" || f.width != r.width
	if f.width != r.width && r.width > 0 {
		b.WriteString(eraseBelow) // also what the terminal has stored about wrapped lines
	}
	for above := range strings.Lines(f.above) {
		above = strings.TrimSuffix(above, "\n")
		b.WriteString(above)
		if width := ansi.StringWidth(above); width == 0 || f.width > 0 && width%f.width != 0 {
			b.WriteString(eraseLine)
		}
		b.WriteString("\r\n")
	}
	for i, row := range f.rows {
		if i > 0 {
			b.WriteString("\r\n")
		}
		last := i == len(f.rows)-1 && (redraw || len(r.rows) > len(f.rows))
		switch {
		case last:
			b.WriteString(eraseBelow)
		case !redraw && i < len(r.rows) && r.rows[i] == row:
			continue
		}
		b.WriteString(row)
		if !last && ansi.StringWidth(row) < f.width { // else the last character would be erased
			b.WriteString(eraseLine)
		}
	}
	b.WriteString("\r")
	moveUp(&b, len(f.rows)-1-f.row)
	if f.column > 0 {
		fmt.Fprintf(&b, "\x1b[%dC", f.column)
	}
	b.WriteString(showCursor + endUpdate)
	r.rows, r.row, r.width = f.rows, f.row, f.width
	_, err := io.WriteString(r.out, b.String())
	return err
}

// rowsAboveCursor returns how many rows of the terminal lie between the region's first row and the
// cursor. After the terminal became narrower, it has wrapped the rows.
func (r *region) rowsAboveCursor(width int) int {
	n := r.row
	if width >= r.width || width <= 0 {
		return n
	}
	for _, row := range r.rows[:r.row] {
		n += max(0, ansi.StringWidth(row)-1) / width
	}
	return n
}

func moveUp(b *strings.Builder, rows int) {
	if rows > 0 {
		fmt.Fprintf(b, "\x1b[%dA", rows)
	}
}
