// Package lineedit edits one message of several lines: text, cursor, undo, a layout for a terminal's
// width, and the history of earlier messages. It reads no keys and writes to no terminal.
package lineedit

import (
	"slices"
	"strings"
	"unicode"

	"github.com/charmbracelet/x/ansi"
)

// MaxRunes limits a message.
const MaxRunes = 1 << 20

// maxUndoRunes limits the text that all undo steps hold.
const maxUndoRunes = 4 << 20

// A letter is a character of the text. A pasted one was not typed: see [Buffer.Mentions].
type letter struct {
	r      rune
	pasted bool
}

// A Buffer is a message while it is edited. The cursor lies between two grapheme clusters: what a
// person sees as one character moves and is deleted as one. It is not safe for concurrent use.
type Buffer struct {
	text   []letter
	cursor int
	// killed is what ctrl+k and its kin have removed, for ctrl+y.
	killed []letter
	// undo and redo have earlier and later states, the nearest last.
	undo, redo []snapshot
	// typing reports that the last change inserted a letter, which the next one joins in one step.
	typing bool
}

type snapshot struct {
	text   []letter
	cursor int
}

// Text returns the text.
func (b *Buffer) Text() string {
	var s strings.Builder
	for _, l := range b.text {
		s.WriteRune(l.r)
	}
	return s.String()
}

// IsEmpty reports whether there is no text.
func (b *Buffer) IsEmpty() bool { return len(b.text) == 0 }

// BeforeCursor returns the text before the cursor.
func (b *Buffer) BeforeCursor() string {
	return (&Buffer{text: b.text[:b.cursor]}).Text()
}

// SetText replaces the text and puts the cursor at its end. Undo brings the former text back.
func (b *Buffer) SetText(text string) {
	b.beginChange(false)
	b.text, b.cursor = nil, 0
	b.insertText(text, false)
}

// Reset empties the buffer, with its undo steps.
func (b *Buffer) Reset() { *b = Buffer{killed: b.killed} }

// Insert inserts text at the cursor. Line ends become \n, other control characters but tabs are
// dropped. It returns false if it dropped what exceeds [MaxRunes].
func (b *Buffer) Insert(text string, pasted bool) bool {
	single := !pasted && len([]rune(text)) == 1 && !unicode.IsSpace([]rune(text)[0])
	b.beginChange(single)
	return b.insertText(text, pasted)
}

func (b *Buffer) insertText(text string, pasted bool) bool {
	text = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(text)
	var added []letter
	for _, r := range text {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			continue
		}
		if len(b.text)+len(added) >= MaxRunes {
			b.text, b.cursor = slices.Insert(b.text, b.cursor, added...), b.cursor+len(added)
			return false
		}
		added = append(added, letter{r, pasted})
	}
	b.text, b.cursor = slices.Insert(b.text, b.cursor, added...), b.cursor+len(added)
	return true
}

// ReplaceBefore replaces the n characters before the cursor.
func (b *Buffer) ReplaceBefore(n int, text string) {
	b.beginChange(false)
	start := max(0, b.cursor-n)
	b.text, b.cursor = slices.Delete(b.text, start, b.cursor), start
	b.insertText(text, false)
}

// Mentions returns the words that begin with @ and were typed, without the @ and without
// duplicates: a pasted text attaches no files. A word with spaces is quoted, as in @"my file".
func (b *Buffer) Mentions() []string {
	var found []string
	for i := 0; i < len(b.text); i++ {
		if b.text[i].r != '@' || b.text[i].pasted || i > 0 && !unicode.IsSpace(b.text[i-1].r) {
			continue
		}
		start, isEnd := i+1, unicode.IsSpace
		if start < len(b.text) && b.text[start].r == '"' {
			start, isEnd = start+1, func(r rune) bool { return r == '"' }
		}
		end := start
		for end < len(b.text) && !b.text[end].pasted && !isEnd(b.text[end].r) {
			end++
		}
		word := (&Buffer{text: b.text[start:end]}).Text()
		if word != "" && !slices.Contains(found, word) {
			found = append(found, word)
		}
		i = end
	}
	return found
}

// HasPasted reports whether some of the text was pasted.
func (b *Buffer) HasPasted() bool {
	return slices.ContainsFunc(b.text, func(l letter) bool { return l.pasted })
}

// beginChange stores the state for undo, unless the change joins the last one.
func (b *Buffer) beginChange(joins bool) {
	if joins && b.typing {
		return
	}
	b.typing, b.redo = joins, nil
	b.undo = append(b.undo, snapshot{slices.Clone(b.text), b.cursor})
	held := 0
	for i := len(b.undo) - 1; i >= 0; i-- {
		if held += len(b.undo[i].text) + 1; held > maxUndoRunes {
			b.undo = slices.Delete(b.undo, 0, i+1)
			break
		}
	}
}

// restoreFrom goes to the last state in from, and stores the current one in to.
func (b *Buffer) restoreFrom(from, to *[]snapshot) {
	n := len(*from)
	if n == 0 {
		return
	}
	*to = append(*to, snapshot{slices.Clone(b.text), b.cursor})
	s := (*from)[n-1]
	*from, b.text, b.cursor, b.typing = (*from)[:n-1], s.text, s.cursor, false
}

// deleteTo deletes between the cursor and a position; kill keeps it for ctrl+y.
func (b *Buffer) deleteTo(position int, kill bool) {
	start, end := min(b.cursor, position), max(b.cursor, position)
	if start == end {
		return
	}
	b.beginChange(false)
	if kill {
		b.killed = slices.Clone(b.text[start:end])
	}
	b.text, b.cursor = slices.Delete(b.text, start, end), start
}

// clusterReach is how far back a grapheme cluster is looked for.
const clusterReach = 64

// findLeft returns the position one cluster to the left.
func (b *Buffer) findLeft() int {
	start := max(0, b.cursor-clusterReach)
	for start < b.cursor {
		n := b.clusterLength(start)
		if start+n >= b.cursor {
			break
		}
		start += n
	}
	return start
}

// findRight returns the position one cluster to the right.
func (b *Buffer) findRight() int {
	if b.cursor == len(b.text) {
		return b.cursor
	}
	return b.cursor + b.clusterLength(b.cursor)
}

// clusterLength returns how many characters the cluster at a position has.
func (b *Buffer) clusterLength(at int) int {
	text := (&Buffer{text: b.text[at:min(len(b.text), at+clusterReach)]}).Text()
	cluster, _ := ansi.FirstGraphemeCluster(text, ansi.GraphemeWidth)
	return max(1, len([]rune(cluster)))
}

func isWord(l letter) bool { return unicode.IsLetter(l.r) || unicode.IsDigit(l.r) || l.r == '_' }

// findWordLeft returns where the word to the left begins.
func (b *Buffer) findWordLeft() int {
	i := b.cursor
	for i > 0 && !isWord(b.text[i-1]) {
		i--
	}
	for i > 0 && isWord(b.text[i-1]) {
		i--
	}
	return i
}

// findBlankLeft returns where the text between white space to the left begins.
func (b *Buffer) findBlankLeft() int {
	i := b.cursor
	for i > 0 && unicode.IsSpace(b.text[i-1].r) {
		i--
	}
	for i > 0 && !unicode.IsSpace(b.text[i-1].r) {
		i--
	}
	return i
}

// findWordRight returns where the word to the right ends.
func (b *Buffer) findWordRight() int {
	i := b.cursor
	for i < len(b.text) && !isWord(b.text[i]) {
		i++
	}
	for i < len(b.text) && isWord(b.text[i]) {
		i++
	}
	return i
}

// findLineStart returns where the cursor's line begins.
func (b *Buffer) findLineStart() int {
	i := b.cursor
	for i > 0 && b.text[i-1].r != '\n' {
		i--
	}
	return i
}

// findLineEnd returns where the cursor's line ends.
func (b *Buffer) findLineEnd() int {
	i := b.cursor
	for i < len(b.text) && b.text[i].r != '\n' {
		i++
	}
	return i
}

// moveLine moves the cursor one line up or down in the same column. It returns false if there is
// none.
func (b *Buffer) moveLine(up bool) bool {
	column := b.cursor - b.findLineStart()
	if up {
		start := b.findLineStart()
		if start == 0 {
			return false
		}
		b.cursor = start - 1
		b.cursor = min(b.findLineStart()+column, start-1)
	} else {
		end := b.findLineEnd()
		if end == len(b.text) {
			return false
		}
		b.cursor = end + 1
		b.cursor = min(b.cursor+column, b.findLineEnd())
	}
	b.typing = false
	return true
}
