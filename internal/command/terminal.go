package command

import (
	"fmt"
	"io"
	"os"
	"sync"
	"unicode"
	"unicode/utf8"
)

// IsTerminal reports whether a stream is a terminal.
func IsTerminal(stream any) bool {
	if _, guarded := stream.(*terminalGuard); guarded {
		return true
	}
	f, ok := stream.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// GuardTerminal returns a file, or a writer that protects it if it is a terminal: what
// models, tools and files contain must not move its cursor, set its title or hide text.
func GuardTerminal(f *os.File) io.Writer {
	if !IsTerminal(f) {
		return f
	}
	return &terminalGuard{out: f}
}

// UnguardTerminal returns the writer for text that controls the terminal itself, such as a progress
// line.
func UnguardTerminal(w io.Writer) io.Writer {
	if g, ok := w.(*terminalGuard); ok {
		return g.out
	}
	return w
}

// A terminalGuard writes control characters visibly, as \x1b or \u202e: all but newlines and tabs,
// and those that change the text direction. It is safe for concurrent use.
type terminalGuard struct {
	out io.Writer

	mu sync.Mutex
	// rest is the start of a character that the last call has cut, or a carriage return.
	rest []byte
}

// Write implements [io.Writer].
func (g *terminalGuard) Write(p []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	text := append(g.rest, p...)
	visible := make([]byte, 0, len(text))
	for len(text) > 0 && (utf8.FullRune(text) && (text[0] != '\r' || len(text) > 1)) {
		r, size := utf8.DecodeRune(text)
		visible = appendVisible(visible, text, r, size)
		text = text[size:]
	}
	g.rest = append([]byte(nil), text...)
	if _, err := g.out.Write(visible); err != nil {
		return 0, err
	}
	return len(p), nil
}

// appendVisible appends the first character of text.
func appendVisible(dst, text []byte, r rune, size int) []byte {
	switch {
	case r == utf8.RuneError && size == 1:
		return fmt.Appendf(dst, `\x%02x`, text[0])
	case r == '\n', r == '\t', r == '\r' && text[1] == '\n':
		return append(dst, text[0])
	case unicode.IsControl(r):
		return fmt.Appendf(dst, `\x%02x`, r)
	case r >= '\u202a' && r <= '\u202e', r >= '\u2066' && r <= '\u2069':
		return fmt.Appendf(dst, `\u%04x`, r)
	}
	return append(dst, text[:size]...)
}
