package terminal

import (
	"strings"

	"github.com/clipperhouse/displaywidth"
)

// A span is clean text with one look. Its only control character is the newline.
type span struct {
	text string
	look look
}

// A line is what a terminal shows in one row.
type line []span

// TextWidth returns the number of columns that clean text without newlines has.
func TextWidth(text string) int { return displaywidth.String(text) }

// Truncate shortens clean text to at most width columns, with … at the end of what it cuts; a
// width of 0 or less cuts nothing.
func Truncate(text string, width int) string {
	if width <= 0 || TextWidth(text) <= width {
		return text
	}
	return displaywidth.TruncateString(text, width, "…")
}

// appendSpan appends text to a line, to the last span if that has the same look.
func (l line) appendSpan(text string, look look) line {
	if n := len(l); n > 0 && l[n-1].look == look {
		l[n-1].text += text
		return l
	}
	return append(l, span{text, look})
}

// countColumns returns a line's width.
func (l line) countColumns() int {
	width := 0
	for _, s := range l {
		width += TextWidth(s.text)
	}
	return width
}

// A wrapper breaks spans into lines between words, and between the wide characters of East Asian
// scripts. A word that is wider than a line is broken between characters. It joins no more than one
// space between words.
type wrapper struct {
	width int
	lines []line

	current, word           line
	currentWidth, wordWidth int
	space                   bool // before the word
	spaceLook               look
}

// wrapSpans breaks spans into lines. The result has at least one line.
func wrapSpans(spans []span, width int) []line {
	if width <= 0 {
		return splitSpans(spans)
	}
	w := wrapper{width: width}
	for _, s := range spans {
		for g := displaywidth.StringGraphemes(s.text); g.Next(); {
			switch text, columns := g.Value(), g.Width(); {
			case text == "\n":
				w.endWord()
				w.endLine()
			case text == " " || text == "\t":
				w.endWord()
				w.space, w.spaceLook = true, s.look
			case columns >= 2:
				w.endWord()
				w.addToWord(text, s.look, columns)
				w.endWord()
			default:
				w.addToWord(text, s.look, columns)
			}
		}
	}
	w.endWord()
	if len(w.current) > 0 || len(w.lines) == 0 {
		w.endLine()
	}
	return w.lines
}

// splitSpans breaks spans at newlines only.
func splitSpans(spans []span) []line {
	lines := []line{nil}
	for _, s := range spans {
		for i, text := range strings.Split(s.text, "\n") {
			if i > 0 {
				lines = append(lines, nil)
			}
			if text != "" {
				lines[len(lines)-1] = append(lines[len(lines)-1], span{text, s.look})
			}
		}
	}
	if n := len(lines); n > 1 && lines[n-1] == nil {
		lines = lines[:n-1]
	}
	return lines
}

// addToWord appends a character to the word. It ends a word that fills a line.
func (w *wrapper) addToWord(text string, look look, columns int) {
	if w.wordWidth+columns > w.width {
		w.endWord()
	}
	w.word, w.wordWidth = w.word.appendSpan(text, look), w.wordWidth+columns
}

// endWord moves the word to the current line, or to the next one if it does not fit.
func (w *wrapper) endWord() {
	if len(w.word) == 0 {
		return
	}
	space := 0
	if w.space && len(w.current) > 0 {
		space = 1
	}
	if len(w.current) > 0 && w.currentWidth+space+w.wordWidth > w.width {
		w.endLine()
		space = 0
	}
	if space > 0 {
		w.current = w.current.appendSpan(" ", w.spaceLook)
	}
	for _, s := range w.word {
		w.current = w.current.appendSpan(s.text, s.look)
	}
	w.currentWidth += space + w.wordWidth
	w.word, w.wordWidth, w.space = nil, 0, false
}

func (w *wrapper) endLine() {
	w.lines = append(w.lines, w.current)
	w.current, w.currentWidth, w.space = nil, 0, false
}

// cutLine breaks clean text into lines of at most width columns and keeps its spaces, for code.
func cutLine(text string, width int, look look) []line {
	text = strings.ReplaceAll(text, "\t", "    ")
	if width <= 0 || TextWidth(text) <= width {
		return []line{{{text, look}}}
	}
	var lines []line
	start, columns, end := 0, 0, 0
	for g := displaywidth.StringGraphemes(text); g.Next(); {
		if columns+g.Width() > width && columns > 0 {
			lines = append(lines, line{{text[start:end], look}})
			start, columns = end, 0
		}
		columns, end = columns+g.Width(), end+len(g.Value())
	}
	return append(lines, line{{text[start:], look}})
}
