package terminal

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestClean(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"plain text", "plain\ttext\nñ 字 👋\n", "plain\ttext\nñ 字 👋\n"},
		{"carriage returns before newlines", "a\r\nb\r\n", "a\nb\n"},
		{"a lone carriage return", "pay 1\rpay 9\r", `pay 1\x0dpay 9\x0d`},
		{"C0 controls", "a\b\x7f\x00", `a\x08\x7f\x00`},
		{"C1 controls", "a\u0085b", `a\x85b`},
		{"styles", "\x1b[1;31mFAIL\x1b[0m ok", "FAIL ok"},
		{"cursor and screen", "pay 1\x1b[2K\x1b[1Gpay 9\x1b[2J\x1bc\x1b(B", "pay 1pay 9"},
		{"a title", "a\x1b]0;title\ab", `a\x1b]…b`},
		{"a hyperlink", "\x1b]8;;https://evil.test\x1b\\good.test\x1b]8;;\x1b\\", `\x1b]…good.test\x1b]…`},
		{"a device string with C1 characters", "a\u0090payload\u009cb", `a\x90…b`},
		{"a C1 control sequence", "\u009b31mred", "red"},
		{"bytes that are not UTF-8", "\x9b31m \xff", `\x9b31m \xff`},
		{"an unfinished control string ends with its line", "a\x1b]0;hidden\nshown", "a\\x1b]…\nshown"},
		{"a long control string", "\x1b]0;" + strings.Repeat("x", maxString) + "shown", `\x1b]…xxshown`},
		{"an unfinished control sequence", "a\x1b[31", `a\x1b[31`},
		{"a control character in a sequence", "\x1b[3\b1m", `\x1b[3\x081m`},
		{"an endless control sequence", "\x1b[" + strings.Repeat("1", maxSequence), `\x1b[` + strings.Repeat("1", maxSequence)},
		{"text direction", "\u202eevil\u202c \u2066a\u2069 \u200f", `\u202eevil\u202c \u2066a\u2069 \u200f`},
		{"invisible characters", "a\u200bb\u2060c\ufeff\u00ad\u3164", `a\u200bb\u2060c\ufeff\u00ad\u3164`},
		{"tags", "a\U000e0041", `a\U000e0041`},
		{"hidden variants", "a\ufe01\U000e0101", `a\ufe01\U000e0101`},
		{"emoji sequences", "👩\u200d💻 ❤\ufe0f 1\ufe0f⃣ 👍🏽 🇩🇪", "👩\u200d💻 ❤\ufe0f 1\ufe0f⃣ 👍🏽 🇩🇪"},
		{"joiners of scripts", "می\u200cخواهم क्\u200dष", "می\u200cخواهم क्\u200dष"},
		{"a joiner after ASCII", "a\u200db", `a\u200db`},
		{"two joiners", "字\u200d\u200d", "字\u200d" + `\u200d`},
		{"combining marks", "e\u0301" + strings.Repeat("\u0300", maxMarks), "e\u0301" + strings.Repeat("\u0300", maxMarks-1) + `\u0300`},
		{"separators", "a\u2028b\u2029", `a\u2028b\u2029`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := Clean(c.in); got != c.want {
				t.Errorf("Clean(%q) = %q, want %q", c.in, got, c.want)
			}
			for _, size := range []int{1, 2, 3, 5} {
				if got := cleanChunks(&Filter{}, c.in, size); got != c.want {
					t.Errorf("in chunks of %d bytes %q is %q, want %q", size, c.in, got, c.want)
				}
			}
		})
	}
}

// cleanChunks filters text in chunks of size bytes.
func cleanChunks(f *Filter, text string, size int) string {
	var out []byte
	for text != "" {
		n := min(size, len(text))
		out = f.Append(out, []byte(text[:n]))
		text = text[n:]
	}
	return string(f.Flush(out))
}

func TestCleanLine(t *testing.T) {
	if got, want := CleanLine("a\nb\tc\r\nd\x1b[2J"), "a b c d"; got != want {
		t.Errorf("CleanLine = %q, want %q", got, want)
	}
}

// A filter that keeps styles passes only those of this package.
func TestFilterKeepsOwnStyles(t *testing.T) {
	in := "\x1b[1;31mred\x1b[0m \x1b[8mhidden\x1b[m \x1b[38;5;0mblack \x1b[2J\x1b]0;t\a"
	want := "\x1b[1;31mred\x1b[0m hidden black " + `\x1b]…`
	for _, size := range []int{1, 3, len(in)} {
		if got := cleanChunks(&Filter{keepStyles: true}, in, size); got != want {
			t.Errorf("in chunks of %d bytes: %q, want %q", size, got, want)
		}
	}
}

// The filter keeps a bounded rest, whatever is written.
func TestFilterRestIsBounded(t *testing.T) {
	for _, in := range []string{"\x1b[", "\x1b]", "\x1b(", "\xf0\x9f", "\x1b]0;x\x1b"} {
		var f Filter
		for range 10 {
			f.Append(nil, []byte(in+strings.Repeat("1", 1000)))
			f.Append(nil, []byte(in))
			if len(f.rest) > maxSequence {
				t.Errorf("%q: the filter keeps %d bytes, at most %d are allowed", in, len(f.rest), maxSequence)
			}
		}
	}
}

// Whatever is written, in whatever chunks, no control or invisible character is in the output, and
// the chunks make no difference.
func FuzzFilter(f *testing.F) {
	f.Add([]byte("a\x1b[31m"), []byte("\xe2\x80"))
	f.Add([]byte("\x1b]0;t"), []byte("\x1b\\b\r"))
	f.Add([]byte("\u0090a"), []byte("\u009c\u202e\u200d"))
	f.Fuzz(func(t *testing.T, first, second []byte) {
		var filter Filter
		got := string(filter.Flush(filter.Append(filter.Append(nil, first), second)))
		if whole := Clean(string(first) + string(second)); whole != got {
			t.Errorf("in two chunks: %q, whole: %q", got, whole)
		}
		if !utf8.ValidString(got) {
			t.Errorf("%q is not UTF-8", got)
		}
		for _, r := range got {
			if unicode.IsControl(r) && r != '\n' && r != '\t' || unicode.Is(unicode.Bidi_Control, r) || r == '\u200b' || r == '\u2060' || r >= 0xe0000 && r <= 0xe007f {
				t.Errorf("%q has %U", got, r)
			}
		}
		if again := Clean(got); again != got {
			t.Errorf("cleaning %q again makes %q", got, again)
		}
	})
}
