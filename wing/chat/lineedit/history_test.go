package lineedit

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A history that is damaged or too long begins with the entries that can be read, and its file is
// made shorter.
func TestHistoryIsBounded(t *testing.T) {
	file := filepath.Join(t.TempDir(), "history.jsonl")
	var text strings.Builder
	text.WriteString(`{"text":"first"}` + "\nnot JSON\n")
	for text.Len() < maxHistoryBytes+1000 {
		text.WriteString(`{"text":"` + strings.Repeat("a", 1000) + `"}` + "\n" + `{"text":"b","pasted":true}` + "\n")
	}
	text.WriteString(`{"text":"cut`)
	if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	h, err := OpenHistory(file)
	if err != nil {
		t.Fatal(err)
	}
	if e, ok := h.Previous(""); !ok || e != (Entry{"b", true}) || len(h.entries) != maxEntries {
		t.Errorf("the last of %d entries is %v", len(h.entries), e)
	}
	info, err := os.Stat(file)
	if err != nil || info.Size() > maxHistoryBytes || info.Mode().Perm() != 0o600 {
		t.Errorf("the file has %d bytes and mode %v, %v", info.Size(), info.Mode(), err)
	}
	if err := h.Add(Entry{Text: strings.Repeat("x", maxEntryBytes+1)}); err != nil {
		t.Fatal(err)
	}
	if again, err := OpenHistory(file); err != nil || again.entries[len(again.entries)-1].Text != "b" {
		t.Errorf("a long entry was stored, %v", err)
	}
}

// A history whose file cannot be read or written reports it, and works in memory.
func TestHistoryFileUnusable(t *testing.T) {
	dir := t.TempDir()
	h, err := OpenHistory(dir)
	if err == nil || !strings.Contains(err.Error(), "is not a file") {
		t.Errorf("OpenHistory(a folder) = %v", err)
	}
	if err := h.Add(Entry{Text: "kept"}); err != nil {
		t.Error(err)
	}
	if e, _ := h.Previous(""); e.Text != "kept" {
		t.Errorf("Previous = %v", e)
	}
	saved := filepath.Join(dir, "file")
	if err := os.WriteFile(saved, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if h, err = OpenHistory(filepath.Join(saved, "history")); err == nil {
		err = h.Add(Entry{Text: "kept"})
	}
	if err == nil {
		t.Error("a file below a file was written")
	}
}

// TestMentions: words that begin with @ and were typed.
func TestMentions(t *testing.T) {
	for text, want := range map[string]string{
		"":                   "",
		"@a and @b/c.md, @a": "a|b/c.md,",
		"mail@example.com":   "",
		`@"my file.txt" x`:   "my file.txt",
		"\n@a\n@":            "a",
		`@"unfinished name`:  "unfinished name",
	} {
		var b Buffer
		b.Insert(text, false)
		if got := strings.Join(b.Mentions(), "|"); got != want {
			t.Errorf("Mentions(%q) = %s, want %s", text, got, want)
		}
		b.Reset()
		b.Insert(text, true)
		if got := b.Mentions(); len(got) != 0 {
			t.Errorf("Mentions(%q), pasted = %s", text, got)
		}
	}
}

// Whatever the keys are, the cursor stays within the text, and undo goes back to the beginning.
func FuzzKeys(f *testing.F) {
	names := []string{
		"left", "right", "alt+b", "alt+f", "home", "end", "ctrl+home", "ctrl+end", "up", "down", "backspace", "delete",
		"ctrl+w", "alt+backspace", "alt+d", "ctrl+k", "ctrl+u", "ctrl+y", "ctrl+t", "ctrl+_", "alt+_", "ctrl+j",
	}
	f.Add([]byte("ab \x80\x81\x82\x8f\x90\x91\x92\x93é日\U0001f469\u200d\U0001f680"))
	f.Fuzz(func(t *testing.T, input []byte) {
		var b Buffer
		for _, c := range string(input) {
			if i := int(c) - 0x80; i >= 0 && i < len(names) {
				b.HandleKey(names[i])
			} else {
				b.Insert(string(c), c%2 == 0)
			}
			if b.cursor < 0 || b.cursor > len(b.text) {
				t.Fatalf("the cursor is at %d of %d", b.cursor, len(b.text))
			}
			l := b.Layout("> ", 10, 4)
			if len(l.Rows) > 4 || l.Row < 0 || l.Row >= len(l.Rows) || l.Column < 0 || l.Column > 10 {
				t.Fatalf("the layout is %+v", l)
			}
		}
		for range len(input) + 1 {
			b.HandleKey("ctrl+_")
		}
		if len(b.undo) > 0 || !b.IsEmpty() {
			t.Errorf("after all undo steps the text is %q", b.Text())
		}
	})
}
