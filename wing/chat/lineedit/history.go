package lineedit

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Limits of a history: its entries, the file when it is rewritten, and one entry, which is not
// stored if it is longer.
const (
	maxEntries      = 1000
	maxHistoryBytes = 1 << 20
	maxEntryBytes   = 16 << 10
)

// A History has earlier messages, the newest last, and stores them in a file that several processes
// may append to. Only its owner can read the file. It is not safe for concurrent use.
type History struct {
	file    string
	entries []Entry
	// at is the entry that is shown; len(entries) is the draft.
	at    int
	draft string
}

// An Entry is an earlier message.
type Entry struct {
	Text string `json:"text"`
	// Pasted reports that some of it was pasted, so that its @words attach no files.
	Pasted bool `json:"pasted,omitempty"`
}

// OpenHistory reads a history. A file name of "" keeps it in memory. An error means that the file
// cannot be read; the history then begins empty, and is usable.
func OpenHistory(file string) (*History, error) {
	h := &History{file: file}
	if file == "" {
		return h, nil
	}
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return h, nil
	}
	if err != nil {
		h.file = ""
		return h, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		h.file = ""
		return h, errors.Join(err, errors.New(file+" is not a file"))
	}
	tail := max(0, info.Size()-2*maxHistoryBytes)
	text, err := io.ReadAll(io.LimitReader(io.NewSectionReader(f, tail, 2*maxHistoryBytes), 2*maxHistoryBytes))
	if err != nil {
		return h, err
	}
	for line := range bytes.Lines(text) {
		var e Entry
		if json.Unmarshal(line, &e) == nil && e.Text != "" { // skip lines that a crash has cut
			h.addEntry(e)
		}
	}
	if info.Size() > maxHistoryBytes {
		err = h.rewriteFile()
	}
	return h, err
}

// addEntry appends an entry, unless it repeats the last one.
func (h *History) addEntry(e Entry) bool {
	if n := len(h.entries); n > 0 && h.entries[n-1] == e {
		h.at = n
		return false
	}
	h.entries = append(h.entries, e)
	if drop := len(h.entries) - maxEntries; drop > 0 {
		h.entries = append([]Entry(nil), h.entries[drop:]...)
	}
	h.at = len(h.entries)
	return true
}

// Add appends a message. A message that begins with a space, or that is very long, is not stored.
func (h *History) Add(e Entry) error {
	if strings.TrimSpace(e.Text) == "" || strings.HasPrefix(e.Text, " ") || len(e.Text) > maxEntryBytes || !h.addEntry(e) {
		h.at = len(h.entries)
		return nil
	}
	if h.file == "" {
		return nil
	}
	line, err := json.Marshal(e)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(h.file), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(h.file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(append(line, '\n'))
	return errors.Join(err, f.Close())
}

// rewriteFile replaces the file by the newest entries, half of the limit in bytes.
func (h *History) rewriteFile() error {
	var lines [][]byte
	size := 0
	for i := len(h.entries) - 1; i >= 0 && size < maxHistoryBytes/2; i-- {
		line, err := json.Marshal(h.entries[i])
		if err != nil {
			return err
		}
		lines, size = append(lines, append(line, '\n')), size+len(line)+1
	}
	temp, err := os.CreateTemp(filepath.Dir(h.file), ".history-*") // readable by its owner only
	if err != nil {
		return err
	}
	defer os.Remove(temp.Name())
	for i := len(lines) - 1; i >= 0 && err == nil; i-- {
		_, err = temp.Write(lines[i])
	}
	if err = errors.Join(err, temp.Close()); err != nil {
		return err
	}
	return os.Rename(temp.Name(), h.file)
}

// Previous shows the entry before the one shown that begins with the draft's text; ok is false if
// there is none. text is what is shown now.
func (h *History) Previous(text string) (e Entry, ok bool) {
	if h.at == len(h.entries) {
		h.draft = text
	}
	for i := h.at - 1; i >= 0; i-- {
		if strings.HasPrefix(h.entries[i].Text, h.draft) && h.entries[i].Text != text {
			h.at = i
			return h.entries[i], true
		}
	}
	return Entry{}, false
}

// Next shows the entry after the one shown, at the end the draft; ok is false at the draft.
func (h *History) Next(text string) (e Entry, ok bool) {
	if h.at == len(h.entries) {
		return Entry{}, false
	}
	for i := h.at + 1; i < len(h.entries); i++ {
		if strings.HasPrefix(h.entries[i].Text, h.draft) && h.entries[i].Text != text {
			h.at = i
			return h.entries[i], true
		}
	}
	h.at = len(h.entries)
	return Entry{Text: h.draft}, true
}

// Rewind goes back to the draft's place without showing it.
func (h *History) Rewind() { h.at = len(h.entries) }

// Search returns up to limit entries that contain the text, the newest first, without duplicates.
func (h *History) Search(text string, limit int) []Entry {
	var found []Entry
	seen := map[string]bool{}
	for i := len(h.entries) - 1; i >= 0 && len(found) < limit; i-- {
		if e := h.entries[i]; strings.Contains(e.Text, text) && !seen[e.Text] {
			seen[e.Text] = true
			found = append(found, e)
		}
	}
	return found
}
