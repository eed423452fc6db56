package programs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"agenthost/pkg/model"
)

// makeNested nests folders more deeply than a path can be long.
func makeNested(t *testing.T, dir, name string, depth int) {
	t.Helper()
	at, err := unix.Open(dir, unix.O_DIRECTORY, 0)
	for range depth {
		next := -1
		if err == nil {
			err = unix.Mkdirat(at, name, 0o700)
		}
		if err == nil {
			next, err = unix.Openat(at, name, unix.O_DIRECTORY, 0)
		}
		unix.Close(at)
		at = next
	}
	unix.Close(at)
	if err != nil {
		t.Fatal(err)
	}
}

// TestNestedFolders expects folders that a program has nested to cost neither a walk's time nor a
// descriptor for each level.
func TestNestedFolders(t *testing.T) {
	f := newTestFolder(t)
	const depth = 3000
	makeNested(t, f.dir, strings.Repeat("x", 200), depth)
	err := errors.Join(
		os.MkdirAll(filepath.Join(f.dir, "a/b/c"), 0o700), os.WriteFile(filepath.Join(f.dir, "a/b/in.txt"), []byte("1"), 0o600),
		os.WriteFile(filepath.Join(f.dir, "a/b/c/out.txt"), []byte("2"), 0o600), unix.Mkfifo(filepath.Join(f.dir, "a/pipe"), 0o600),
		os.Mkdir(filepath.Join(f.dir, "closed"), 0), os.Symlink("/", filepath.Join(f.dir, "link")))
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	files, err := f.collectFiles([]string{"*/*/*.txt"}, nil)
	if err != nil || len(files) != 1 || files["a/b/in.txt"] == nil {
		t.Errorf("collected %q, %v", files, err)
	}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	fewer := limit
	fewer.Cur = 500
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &fewer); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Setrlimit(unix.RLIMIT_NOFILE, &limit) }()
	if err := removeTree(f.dir); err != nil {
		t.Errorf("deleting %d levels: %.200s", depth, err)
	}
	if _, err := os.Lstat(f.dir); err == nil {
		t.Error("the folder remains")
	}
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("collecting and deleting took %s", took)
	}
}

// TestFoldersOfManySessions expects sessions that run no program any more to make room for
// others.
func TestFoldersOfManySessions(t *testing.T) {
	a := newFolders(t.TempDir())
	first, err := a.acquireFolder("app", model.Origin{SessionID: "first"})
	if err != nil {
		t.Fatal(err)
	}
	for i := range maxFolders + 10 {
		f, err := a.acquireFolder("app", model.Origin{SessionID: fmt.Sprint(i)})
		if err != nil {
			t.Fatal(err)
		}
		f.releaseFolder()
	}
	a.removing.Wait()
	if entries, err := os.ReadDir(a.base); err != nil || len(entries) != maxFolders+1 { // with the lock
		t.Errorf("%d folders, %v", len(entries)-1, err)
	}
	if _, err := os.Lstat(first.dir); err != nil {
		t.Errorf("a folder in use was deleted: %v", err)
	}
	for range maxFolders - 1 {
		_, _ = a.acquireFolder("app", model.Origin{SessionID: fmt.Sprint(len(a.byKey), time.Now().UnixNano())})
	}
	if _, err := a.acquireFolder("app", model.Origin{SessionID: "more"}); err == nil || !strings.Contains(err.Error(), "1000 sessions run programs, which is the limit") {
		t.Errorf("error = %v", err)
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
}
