//go:build linux || darwin

package loader

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestReadStateInPlace changes a file long after it was read: in place, with its size and its
// modification time kept, as rsync --inplace -t does. Only the change time shows it.
func TestReadStateInPlace(t *testing.T) {
	file := filepath.Join(t.TempDir(), "root_agent.yaml")
	write := func(text string, modified time.Time) os.FileInfo {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(file, modified, modified); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		return info
	}
	read := func(h *folderHasher, info os.FileInfo, now time.Time) fileState {
		t.Helper()
		state, err := h.readState(file, info, now)
		if err != nil {
			t.Fatal(err)
		}
		h.states = map[string]fileState{file: state}
		return state
	}
	h, modified, now := new(folderHasher), time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	before := write("instruction: one", modified)
	first := read(h, before, now)
	if again := read(h, before, now.Add(time.Minute)); !again.read.Equal(first.read) {
		t.Error("an unchanged file was read again")
	}
	after := write("instruction: two", modified)
	for changeTime(after).Equal(changeTime(before)) { // within one file system tick
		after = write("instruction: two", modified)
	}
	if changed := read(h, after, now.Add(time.Minute)); changed.sum == first.sum {
		t.Error("the change was not seen")
	}
}
