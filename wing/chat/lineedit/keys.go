package lineedit

import "slices"

// HandleKey executes an editing key, named such as "ctrl+a" or "alt+left". It returns false if the
// key edits nothing: then the caller may give it another meaning, such as the history for "up" in
// the first line.
func (b *Buffer) HandleKey(key string) bool {
	switch key {
	case "left", "ctrl+b":
		b.moveTo(b.findLeft())
	case "right", "ctrl+f":
		b.moveTo(b.findRight())
	case "alt+b", "alt+left", "ctrl+left", "meta+b":
		b.moveTo(b.findWordLeft())
	case "alt+f", "alt+right", "ctrl+right", "meta+f":
		b.moveTo(b.findWordRight())
	case "home", "ctrl+a":
		b.moveTo(b.findLineStart())
	case "end", "ctrl+e":
		b.moveTo(b.findLineEnd())
	case "ctrl+home", "alt+<":
		b.moveTo(0)
	case "ctrl+end", "alt+>":
		b.moveTo(len(b.text))
	case "up":
		return b.moveLine(true)
	case "down":
		return b.moveLine(false)
	case "backspace", "ctrl+h", "shift+backspace":
		b.deleteTo(b.findLeft(), false)
	case "delete", "ctrl+d":
		if b.IsEmpty() {
			return false
		}
		b.deleteTo(b.findRight(), false)
	case "ctrl+w":
		b.deleteTo(b.findBlankLeft(), true)
	case "alt+backspace", "ctrl+backspace":
		b.deleteTo(b.findWordLeft(), true)
	case "alt+d", "alt+delete", "ctrl+delete":
		b.deleteTo(b.findWordRight(), true)
	case "ctrl+k":
		b.deleteTo(max(b.findLineEnd(), min(b.cursor+1, len(b.text))), true)
	case "ctrl+u":
		b.deleteTo(b.findLineStart(), true)
	case "ctrl+y":
		b.beginChange(false)
		b.text, b.cursor = slices.Insert(b.text, b.cursor, b.killed...), b.cursor+len(b.killed)
	case "ctrl+t":
		b.transposeLetters()
	case "ctrl+_", "ctrl+z", "ctrl+/":
		b.restoreFrom(&b.undo, &b.redo)
	case "alt+_", "alt+z", "ctrl+shift+z":
		b.restoreFrom(&b.redo, &b.undo)
	case "alt+enter", "ctrl+j", "shift+enter", "ctrl+enter":
		b.Insert("\n", false)
	default:
		return false
	}
	return true
}

func (b *Buffer) moveTo(position int) { b.cursor, b.typing = position, false }

// transposeLetters swaps the two characters around the cursor, or the last two of the text.
func (b *Buffer) transposeLetters() {
	at := min(b.cursor, len(b.text)-1)
	if at < 1 {
		return
	}
	b.beginChange(false)
	b.text[at-1], b.text[at] = b.text[at], b.text[at-1]
	b.cursor = at + 1
}
