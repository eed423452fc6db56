package terminal

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// testdata/answer.md has each element of Markdown; the golden files have it for 40 and 80 columns,
// and with styles, whose escape characters are ^[.
func TestRenderMarkdownGolden(t *testing.T) {
	source, err := os.ReadFile("testdata/answer.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		file   string
		width  int
		styles bool
	}{
		{"answer-40.txt", 40, false},
		{"answer-80.txt", 80, false},
		{"answer-styled.txt", 60, true},
	} {
		t.Run(c.file, func(t *testing.T) {
			got := strings.ReplaceAll(RenderMarkdown(string(source), c.width, NewStyles(c.styles)), "\x1b[", "^[")
			golden := filepath.Join("testdata", c.file)
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("rendered:\n%s\nwant:\n%s", got, want)
			}
		})
	}
}

func TestRenderMarkdown(t *testing.T) {
	for _, c := range []struct {
		name, in string
		width    int
		want     string
	}{
		{"an empty text", " \n\n", 40, ""},
		{"no newline at the end", "a", 40, "a\n"},
		{"without a limit", strings.Repeat("word ", 40), 0, strings.TrimSpace(strings.Repeat("word ", 40)) + "\n"},
		{"a word wider than the line", "abcdefghijklmnopqrstuvwxyz", 20, "abcdefghijklmnopqrst\nuvwxyz\n"},
		{"wide characters", "日本語日本語日本語日本語", 20, "日本語日本語日本語日\n本語\n"},
		{"code that is not closed", "```\na\n\n*b*", 40, "  a\n\n  *b*\n"},
		{"code between paragraphs", "a\n~~~\n`b`\n~~~~\nc", 40, "a\n\n  `b`\n\nc\n"},
		{"code in a list", "1. a\n   ```\n   b\n\n   c\n   ```\n2. d", 40, "1. a\n     b\n\n     c\n2. d\n"},
		{"a list continues after an empty line", "3. a\n\n4. b", 40, "3. a\n\n4. b\n"},
		{"an empty item", "- a\n-\n- b", 40, "• a\n•\n• b\n"},
		{"a table with more columns than fit", "| ab | cd | ef |\n|-|-|-|\n| one more word | 2 | 3 |\n| 4 | 5 |", 20, "ab: one more word\ncd: 2\nef: 3\n\nab: 4\ncd: 5\nef:\n"},
		{"a table without rows", "| ab | cd |\n|-|-|", 40, "ab │ cd\n───┼───\n"},
		{"quotes deeper than the terminal is wide", strings.Repeat(">", 500) + " a", 20, strings.Repeat("│ ", 4) + "a\n"},
		{"characters by reference", "&#27;[31m &#x202e; &lt;", 40, `\x1b[31m \u202e <` + "\n"},
		{"sequences", "a\x1b[31mb **\x1b]0;t\x07c**", 40, `ab **\x1b]…c**` + "\n"},
		{"an address in a label", "[https://good.test](https://evil.test)", 80, "https://good.test (https://evil.test)\n"},
		{"a line break in HTML", "a<br>b <i>c</i>", 40, "a\nb <i>c</i>\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := RenderMarkdown(c.in, c.width, NewStyles(false)); got != c.want {
				t.Errorf("rendered:\n%s\nwant:\n%s", got, c.want)
			}
		})
	}
}

// The output from a stream does not depend on its chunks, and at each point the finished lines with
// the tail are the whole text so far.
func TestMarkdownStreamChunks(t *testing.T) {
	b, err := os.ReadFile("testdata/answer.md")
	if err != nil {
		t.Fatal(err)
	}
	source := string(b)
	want := RenderMarkdown(source, 50, NewStyles(true))
	for _, size := range []int{1, 3, 17, 100} {
		m := NewMarkdown(50, NewStyles(true))
		finished, read := "", 0
		for rest := source; rest != ""; {
			n := min(size, len(rest))
			read += n
			finished += m.Append(rest[:n])
			rest = rest[n:]
			if !strings.HasPrefix(want, finished) {
				t.Fatalf("after %d bytes in chunks of %d the finished lines differ from the result:\n%s", read, size, finished)
			}
			if so := RenderMarkdown(strings.ToValidUTF8(source[:read], ""), 50, NewStyles(true)); size > 3 && finished+m.Tail() != so {
				t.Fatalf("after %d bytes in chunks of %d: %q, want %q", read, size, finished+m.Tail(), so)
			}
		}
		if got := finished + m.Finish(); got != want {
			t.Errorf("in chunks of %d:\n%s\nwant:\n%s", size, got, want)
		}
	}
}

// A stream of megabytes is parsed once, its tail is bounded, and so is what it keeps.
func TestMarkdownStreamWorkIsBounded(t *testing.T) {
	const size = 256 << 10
	for _, c := range []struct{ name, unit string }{
		{"one line", "word "},
		{"one paragraph", "a line without an empty one\n"},
		{"paragraphs", "a paragraph\n\n"},
		{"a list", "- item\n\n  more\n"},
		{"code", "```\n"},
		{"a table", "| a | b |\n|---|---|\n"},
		{"nested quotes", ">"},
		{"nested lists", "+ - 1. "},
		{"nested brackets", "["},
		{"emphasis", "*a _b "},
		{"backticks", "`` ` "},
		{"empty lines", "- a\n\n\n\n\n\n"},
		{"escape sequences", "\x1b[31mred"},
		{"control strings", "\x1b]0;"},
		{"HTML", "<a <!-- "},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := NewMarkdown(80, NewStyles(false))
			chunk, filtered := strings.Repeat(c.unit, 4096/len(c.unit)), 0
			for range size / len(chunk) {
				filtered += len(Clean(chunk))
				m.Append(chunk)
				if kept := len(m.block) + len(m.partial) + len(m.filter.rest); kept > 2*maxBlock {
					t.Fatalf("the stream keeps %d bytes, at most %d are allowed", kept, 2*maxBlock)
				}
			}
			m.Finish()
			if m.parsed > filtered+maxBlock {
				t.Errorf("parsed %d bytes for an answer with %d", m.parsed, filtered)
			}
			before := m.parsed
			m.Append(chunk)
			m.Tail()
			if tail := m.parsed - before; tail > 2*maxBlock {
				t.Errorf("the tail parsed %d bytes, at most %d are allowed", tail, 2*maxBlock)
			}
		})
	}
}

// A table that is longer than a block repeats its titles.
func TestMarkdownLongTable(t *testing.T) {
	source := "| n | text |\n|--:|---|\n" + strings.Repeat("| 1 | some text in a cell |\n", 2*maxBlock/27)
	got := RenderMarkdown(source, 80, NewStyles(false))
	if titles := strings.Count(got, "n │ text"); titles != 3 {
		t.Errorf("the table has its titles %d times, want 3", titles)
	}
	if rows := strings.Count(got, "1 │ some text in a cell"); rows != 2*maxBlock/27 {
		t.Errorf("the table has %d rows, want %d", rows, 2*maxBlock/27)
	}
}

// Whatever a model writes, no line is wider than the terminal, no sequence but a style is in the
// output, and the chunks make no difference.
func FuzzMarkdown(f *testing.F) {
	b, err := os.ReadFile("testdata/answer.md")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(b), 40, 7)
	f.Add("> - 1. ```\n&#27;[2J", 20, 3)
	f.Add("|a|b|\n|-|:-:|\n|`x|y`|日本|", 25, 2)
	f.Fuzz(func(t *testing.T, source string, width, cut int) {
		width = 20 + max(width, -width)%100
		want := RenderMarkdown(source, width, NewStyles(true))
		for l := range strings.Lines(want) {
			if columns := TextWidth(strings.TrimSuffix(Clean(l), "\n")); columns > width {
				t.Errorf("a line has %d columns, the terminal has %d: %q", columns, width, l)
			}
		}
		plain := Clean(want)
		if strings.IndexFunc(plain, func(r rune) bool { return unicode.IsControl(r) && r != '\n' }) >= 0 {
			t.Errorf("a control character in %q", plain)
		}
		if kept := string((&Filter{keepStyles: true}).Append(nil, []byte(want))); kept != want {
			t.Errorf("%q has sequences other than styles", want)
		}
		cut = max(cut, -cut) % (len(source) + 1)
		m := NewMarkdown(width, NewStyles(true))
		got := m.Append(source[:cut])
		m.Tail()
		if got += m.Append(source[cut:]) + m.Finish(); got != want {
			t.Errorf("in two chunks %q, whole %q", got, want)
		}
	})
}
