package dirstore_test

import (
	"errors"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"agenthost/pkg/session"
	"agenthost/pkg/spec"
	"agenthost/pkg/store"
)

// fillDisk makes this process's writes fail, as on a full disk, until the test ends or release is
// called.
func fillDisk(t *testing.T) (release func()) {
	t.Helper()
	signal.Ignore(syscall.SIGXFSZ) // a full disk returns an error and sends no signal
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
		t.Fatal(err)
	}
	release = func() {
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(release)
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 16, Max: before.Max}); err != nil {
		t.Fatal(err)
	}
	return release
}

// On a full disk, Save and Ping report an unavailable artifact store. The text for clients has no
// path; the one for the log has it. Nothing stays from the attempts, and saves succeed when there
// is space.
func TestArtifactFullDisk(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "marker-of-the-host")
	a := openArtifacts(t, dir)
	if err := a.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	release := fillDisk(t)
	_, saveErr := a.Save(t.Context(), alice, "report.md", textPart(strings.Repeat("x", 100)))
	for name, err := range map[string]error{"Save": saveErr, "Ping": a.Ping(t.Context())} {
		down := (*store.ArtifactsUnavailable)(nil)
		if !errors.Is(err, session.ErrUnavailable) || !errors.As(err, &down) {
			t.Fatalf("%s = %v, want an unavailable artifact store", name, err)
		}
		want := map[string]string{
			"Save": `saving artifact "report.md": artifact store unavailable: file too large`,
			"Ping": "writing to the artifact folder: artifact store unavailable: file too large",
		}[name]
		if got := spec.ClientText(err); got != want {
			t.Errorf("%s for clients = %q, want %q", name, got, want)
		}
		if !strings.Contains(err.Error(), "marker-of-the-host") {
			t.Errorf("%s for the log = %q, want the path", name, err)
		}
	}
	release()
	if files := strings.Join(listFiles(t, dir), " "); strings.Contains(files, ".new-") {
		t.Errorf("files of failed writes: %s", files)
	}
	if n := saveArtifact(t, a, alice, "report.md", textPart("x")); n != 0 || a.Ping(t.Context()) != nil {
		t.Errorf("after the disk has space: version %d, Ping = %v", n, a.Ping(t.Context()))
	}
}

// A folder that was removed, or is not writable, is an unavailable store; reads of what is
// missing are not.
func TestArtifactFolderUnusable(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "artifacts")
	a := openArtifacts(t, dir)
	saveArtifact(t, a, alice, "report.md", textPart("x"))
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := a.Ping(t.Context()); !errors.Is(err, session.ErrUnavailable) {
		t.Errorf("Ping of a removed folder = %v, want unavailable", err)
	}
	if _, err := a.Save(t.Context(), alice, "report.md", textPart("x")); !errors.Is(err, session.ErrUnavailable) {
		t.Errorf("Save to a removed folder = %v, want unavailable", err)
	}
	if _, err := a.Load(t.Context(), alice, "report.md", 0); !errors.Is(err, session.ErrNotFound) {
		t.Errorf("Load from a removed folder = %v, want not found", err)
	}
	for _, errno := range []syscall.Errno{syscall.ENOSPC, syscall.EDQUOT, syscall.EROFS, syscall.EACCES, syscall.EIO, syscall.ESTALE} {
		err := store.MarkFileError(&os.PathError{Op: "write", Path: dir, Err: errno})
		if want := "artifact store unavailable: " + errno.Error(); !errors.Is(err, session.ErrUnavailable) || spec.ClientText(err) != want {
			t.Errorf("%s: %v, want unavailable with the text %q", errno, spec.ClientText(err), want)
		}
	}
	if err := store.MarkFileError(&os.PathError{Op: "open", Path: dir, Err: syscall.ENAMETOOLONG}); errors.Is(err, session.ErrUnavailable) {
		t.Error("a name that is too long is an unavailable store")
	}
}
