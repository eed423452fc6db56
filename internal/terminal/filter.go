package terminal

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The filter reads ECMA-48's grammar instead of a list of known sequences, because each terminal
// has more sequences than a list. A control sequence (ESC [ … final byte) and a short escape
// sequence have no readable content: they are removed whole. A control string (ESC ] … BEL, and
// the strings that ESC P, X, ^ and _ begin) may have content: it leaves a visible mark. Each other
// control character becomes visible, as \x08 or \u202e, and so do invisible characters, which can
// hide text from the reader that a model or a program still receives.
//
// Invariants: the output has no control character but newlines, tabs and, with keepStyles, this
// package's styles; it does not depend on where the input is cut into chunks; the filter
// keeps at most maxSequence bytes between chunks; and an unfinished control string hides at most
// maxString bytes of its line.

const (
	// maxSequence limits a control sequence's bytes. A longer one is text.
	maxSequence = 64
	// maxString limits a control string's bytes. Those after it are text.
	maxString = 1024
	// maxMarks limits the combining marks on a character: more of them cover other lines.
	maxMarks = 8
)

// A Filter makes text from outside harmless for a terminal, in chunks. The zero value is ready to
// use.
type Filter struct {
	// keepStyles keeps the styles that this package writes.
	keepStyles bool
	// rest begins a character or sequence that the last chunk has cut.
	rest []byte
	// skip is how many bytes the current control string may still have; 0 means none.
	skip int
	// last is the last character that was kept, marks the number of combining marks since the one
	// that they belong to.
	last  rune
	marks int
}

// Clean returns a string that is harmless for a terminal. It keeps newlines and tabs.
func Clean(text string) string {
	if isPlain(text) {
		return text
	}
	var f Filter
	return string(f.Flush(f.Append(nil, []byte(text))))
}

// CleanLine is [Clean] for text that must stay on its line: newlines and tabs become spaces.
func CleanLine(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return ' '
		}
		return r
	}, Clean(text))
}

// isPlain reports whether text has only printable ASCII, newlines and tabs.
func isPlain(text string) bool {
	for i := range len(text) {
		if c := text[i]; c < ' ' && c != '\n' && c != '\t' || c >= 0x7f {
			return false
		}
	}
	return true
}

// Append filters a chunk and appends the result to dst. It keeps the beginning of a character or
// sequence for the next call.
func (f *Filter) Append(dst, chunk []byte) []byte {
	text := chunk
	if len(f.rest) > 0 {
		text = append(f.rest, chunk...)
	}
	dst, text = f.filterText(dst, text)
	f.rest = append([]byte(nil), text...)
	return dst
}

// Flush appends what [Filter.Append] has kept, and resets the filter.
func (f *Filter) Flush(dst []byte) []byte {
	if f.skip == 0 {
		for _, c := range f.rest {
			dst = appendByte(dst, c)
		}
	}
	*f = Filter{keepStyles: f.keepStyles}
	return dst
}

// appendByte appends a byte that may be the beginning of a character or sequence.
func appendByte(dst []byte, c byte) []byte {
	if c < ' ' || c >= 0x7f {
		return fmt.Appendf(dst, `\x%02x`, c)
	}
	return append(dst, c)
}

// filterText filters text until its end or an unfinished sequence, which it returns.
func (f *Filter) filterText(dst, text []byte) (filtered, rest []byte) {
	for len(text) > 0 {
		if !utf8.FullRune(text) {
			return dst, text
		}
		r, size := utf8.DecodeRune(text)
		if f.skip > 0 {
			f.skip = max(f.skip-size, 0)
			switch r {
			case '\n', '\x1b':
				f.skip = 0 // the line or the next sequence ends it
				continue
			case '\a', '\x18', '\x1a', '\u009c':
				f.skip = 0
			}
			text = text[size:]
			continue
		}
		switch r {
		case '\r':
			if len(text) == 1 {
				return dst, text
			}
			if text[1] == '\n' {
				text = text[1:]
				continue
			}
		case '\x1b', '\u0090', '\u0098', '\u009b', '\u009d', '\u009e', '\u009f':
			kind, length := scanSequence(text, size)
			switch kind {
			case unfinishedSequence:
				return dst, text
			case controlSequence:
				if f.keepStyles && isStyle(text[:length]) {
					dst = append(dst, text[:length]...)
				}
				text = text[length:]
				continue
			case controlString:
				dst = fmt.Appendf(dst, `\x%02x`, r)
				dst = append(append(dst, text[size:length]...), "…"...)
				f.last, f.skip, text = 0, maxString, text[length:]
				continue
			}
		}
		dst = f.appendRune(dst, text[:size], r)
		text = text[size:]
	}
	return dst, nil
}

// A sequenceKind is what an introducer begins.
type sequenceKind int

const (
	noSequence         sequenceKind = iota // the introducer is a lone character
	unfinishedSequence                     // the text ends first
	controlSequence                        // a whole sequence without readable content
	controlString                          // the introducer of a string
)

// scanSequence returns the kind and the length of what the introducer begins, whose size is known.
func scanSequence(text []byte, size int) (kind sequenceKind, length int) {
	introducer := text[size-1]
	if introducer == '\x1b' {
		if len(text) == 1 {
			return unfinishedSequence, 0
		}
		size, introducer = 2, text[1]
	} else {
		introducer -= 0x40 // C1 characters are short for ESC and a letter
	}
	switch {
	case introducer == '[':
		for i := size; i < maxSequence; i++ {
			switch {
			case i == len(text):
				return unfinishedSequence, 0
			case text[i] >= '@' && text[i] <= '~':
				return controlSequence, i + 1
			case text[i] < ' ' || text[i] > '~':
				return noSequence, 0
			}
		}
	case strings.IndexByte("]PX^_", introducer) >= 0:
		return controlString, size
	case introducer >= ' ' && introducer <= '/':
		for i := size; i < maxSequence; i++ {
			switch {
			case i == len(text):
				return unfinishedSequence, 0
			case text[i] >= '0' && text[i] <= '~':
				return controlSequence, i + 1
			case text[i] < ' ' || text[i] > '~':
				return noSequence, 0
			}
		}
	case introducer >= '0' && introducer <= '~':
		return controlSequence, size
	}
	return noSequence, 0
}

// appendRune appends a character, or its code if it is a control character or invisible.
func (f *Filter) appendRune(dst, encoded []byte, r rune) []byte {
	switch {
	case r == utf8.RuneError && len(encoded) == 1:
		f.last = 0
		return fmt.Appendf(dst, `\x%02x`, encoded[0])
	case unicode.IsControl(r) && r != '\n' && r != '\t':
		f.last = 0
		return fmt.Appendf(dst, `\x%02x`, r)
	case !f.isVisible(r) && r > 0xffff:
		return fmt.Appendf(dst, `\U%08x`, r)
	case !f.isVisible(r):
		return fmt.Appendf(dst, `\u%04x`, r)
	}
	if unicode.In(r, unicode.Mn, unicode.Me) {
		f.marks++
	} else {
		f.marks = 0
	}
	f.last = r
	return append(dst, encoded...)
}

// isVisible reports whether a character appears after the last one, or changes how that one
// appears.
func (f *Filter) isVisible(r rune) bool {
	script := f.last > 0x7f && unicode.In(f.last, unicode.L, unicode.M, unicode.S) // may have joiners and variants
	switch {
	case r == '\u200c' || r == '\u200d':
		return script
	case r == '\ufe0e' || r == '\ufe0f':
		return !unicode.Is(unicode.Variation_Selector, f.last) && (script || unicode.In(f.last, unicode.S, unicode.Nd) || f.last == '#' || f.last == '*')
	case unicode.Is(unicode.Variation_Selector, r):
		return unicode.In(f.last, unicode.Han, unicode.Sm, unicode.Mongolian) && !unicode.Is(unicode.Variation_Selector, f.last)
	case unicode.In(r, unicode.Mn, unicode.Me) && f.marks >= maxMarks:
		return false
	case unicode.Is(unicode.Cf, r):
		return unicode.Is(unicode.Prepended_Concatenation_Mark, r)
	}
	return !unicode.In(r, unicode.Zl, unicode.Zp, unicode.Other_Default_Ignorable_Code_Point)
}
