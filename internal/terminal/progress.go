package terminal

import (
	"fmt"
	"io"
	"strings"
	"sync"
)

// progressColumns is the bar's width.
const progressColumns = 24

// A Progress shows how far long work is, on a line that it replaces. A nil Progress shows nothing.
// It is safe for concurrent use.
type Progress struct {
	out    *Output
	styles Styles
	total  int

	mu    sync.Mutex
	drawn string // the line on the terminal
}

// NewProgress returns a bar for total steps, or nil if the stream is not a terminal, where each
// update would be another line.
func NewProgress(w io.Writer, total int) *Progress {
	o, ok := w.(*Output)
	if !ok || !o.settings.Terminal {
		return nil
	}
	return &Progress{out: o, styles: StylesOf(w), total: total}
}

// Update shows that done steps are complete, with a note from anywhere. It writes nothing if the
// line is the same. The caller decides how often it calls Update.
func (p *Progress) Update(done int, note string) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	filled := progressColumns
	if p.total > 0 {
		filled = progressColumns * min(max(done, 0), p.total) / p.total
	}
	count := fmt.Sprintf(" %d/%d", done, p.total)
	if note = CleanLine(note); note != "" {
		count += ", " + note
	}
	// The last column stays empty: a terminal wraps a line that fills it.
	room := WidthOf(p.out) - progressColumns - 2 - 1
	if WidthOf(p.out) > 0 {
		count = Truncate(count, max(room, 1))
	}
	line := "[" + p.styles.wrapLook(roleLooks[Good], strings.Repeat("#", filled)) + strings.Repeat("-", progressColumns-filled) + "]" + count
	if line == p.drawn {
		return
	}
	p.replaceLine(line)
}

// Clear removes the bar, before other output and at the end.
func (p *Progress) Clear() {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.drawn != "" {
		p.replaceLine("")
	}
}

// replaceLine replaces the line. Spaces cover the previous one, because a console without control
// sequences can move the cursor only to the line's start.
func (p *Progress) replaceLine(line string) {
	previous := TextWidth(Clean(p.drawn))
	padding := max(previous-TextWidth(Clean(line)), 0)
	end := ""
	if line == "" {
		end = "\r"
	}
	p.out.mu.Lock()
	defer p.out.mu.Unlock()
	fmt.Fprintf(p.out.out, "\r%s%s%s", line, strings.Repeat(" ", padding), end)
	p.drawn = line
}
