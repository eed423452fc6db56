//go:build unix

package regular_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"agenthost/internal/regular"
)

// A pipe without a writer is rejected at once, and so are devices and folders; a link to a
// regular file is one.
func TestOpenRejectsIrregularFiles(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	err := errors.Join(
		os.WriteFile(path("file"), nil, 0o600), os.Symlink("file", path("link")), os.Symlink("/dev/zero", path("device")),
		os.Mkdir(path("folder"), 0o700), syscall.Mkfifo(path("pipe"), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"file": "", "link": "", "pipe": "pipe: not a regular file", "device": "device: not a regular file",
		"folder": "folder: is a directory", "none": "none: no such file or directory",
	} {
		f, err := regular.Open(os.OpenFile, path(name), os.O_RDONLY)
		if want == "" && err == nil {
			f.Close()
		} else if err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("error of %s = %v, want %q", name, err, want)
		}
	}
}
