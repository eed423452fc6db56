package command

import (
	"bytes"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// Text from models and tools cannot control the terminal: control characters and those that change
// the text direction are visible, also when a write cuts a character. The control is the text
// itself.
func TestTerminalGuard(t *testing.T) {
	texts, control := 0, 0
	for in, want := range map[string]string{
		"plain\ttext\r\nñ 字 👋\n":         "plain\ttext\r\nñ 字 👋\n",
		"\x1b[2J\x1b]0;title\a":          `\x1b[2J\x1b]0;title\x07`,
		"pay 1\rpay 9\b\x7f\x00":         `pay 1\x0dpay 9\x08\x7f\x00`,
		"\u009b31m":                      `\x9b31m`,
		"\x9b31m \xff":                   `\x9b31m \xff`,
		"\u202eevil\u202c \u2066a\u2069": `\u202eevil\u202c \u2066a\u2069`,
	} {
		if texts++; in != want {
			control++
		}
		for _, size := range []int{1, 2, 3, len(in)} {
			var out bytes.Buffer
			g := &terminalGuard{out: &out}
			for rest := in; rest != ""; {
				n := min(size, len(rest))
				if written, err := g.Write([]byte(rest[:n])); written != n || err != nil {
					t.Fatalf("Write = %d, %v", written, err)
				}
				rest = rest[n:]
			}
			if got := out.String(); got != want {
				t.Errorf("%q in chunks of %d is %q, want %q", in, size, got, want)
			}
		}
	}
	t.Logf("shown: %d texts in chunks of each size: no control character; control, without the guard: %d have some", texts, control)
}

// Whatever is written, no control character reaches the terminal.
func FuzzTerminalGuard(f *testing.F) {
	f.Add([]byte("a\x1b[31m"), []byte("\xe2\x80"))
	f.Fuzz(func(t *testing.T, first, second []byte) {
		var out bytes.Buffer
		g := &terminalGuard{out: &out}
		_, _ = g.Write(first)
		_, _ = g.Write(second)
		got := out.String()
		if !utf8.ValidString(got) {
			t.Errorf("%q is not UTF-8", got)
		}
		got = strings.ReplaceAll(got, "\r\n", "\n")
		if i := strings.IndexFunc(got, func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' }); i >= 0 {
			t.Errorf("%q has a control character at %d", got, i)
		}
	})
}
