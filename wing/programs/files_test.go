package programs

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agenthost/internal/limit"
	"agenthost/pkg/model"
	"agenthost/pkg/tool"
)

func newTestFolder(t *testing.T) *folder {
	t.Helper()
	a := newFolders(t.TempDir())
	t.Cleanup(func() { _ = a.Close() })
	f, err := a.acquireFolder("app", model.Origin{UserID: "u", SessionID: "s"})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestHostileFolder expects files to stay in a session's folder, whatever links its programs have
// created.
func TestHostileFolder(t *testing.T) {
	f := newTestFolder(t)
	outside := filepath.Join(f.all.parent, "outside")
	path := func(name string) string { return filepath.Join(f.dir, name) }
	err := errors.Join(
		os.Mkdir(outside, 0o700), os.WriteFile(filepath.Join(outside, "secret.txt"), []byte("canary"), 0o600),
		os.Symlink(outside, path("dir")), os.Symlink(filepath.Join(outside, "secret.txt"), path("link.txt")),
		os.WriteFile(path("own.txt"), []byte("own"), 0o600),
	)
	if err != nil {
		t.Fatal(err)
	}
	files, err := f.collectFiles([]string{"*.txt", "dir/*"}, nil)
	if err != nil || len(files) != 1 || string(files["own.txt"]) != "own" {
		t.Errorf("collected %q, %v", files, err)
	}
	if err := f.writeFiles(map[string][]byte{"dir/new": []byte("x")}); err == nil {
		t.Error("a file was written through a link")
	}
	if err := f.writeFiles(map[string][]byte{"link.txt": []byte("x")}); err != nil {
		t.Errorf("replacing a link: %v", err)
	}
	if b, err := os.ReadFile(filepath.Join(outside, "secret.txt")); err != nil || string(b) != "canary" {
		t.Errorf("the file outside has %q, %v", b, err)
	}
	for _, name := range []string{"../x", "/etc/x", ""} {
		if err := f.writeFiles(map[string][]byte{name: nil}); err == nil {
			t.Errorf("%q was written", name)
		}
	}
}

// TestCollectChanged expects only files that a run has changed.
func TestCollectChanged(t *testing.T) {
	f := newTestFolder(t)
	if err := f.writeFiles(map[string][]byte{"a/old.png": []byte("1"), "a/same.png": []byte("2")}); err != nil {
		t.Fatal(err)
	}
	before, err := f.listVersions([]string{"a/*.png"})
	if err != nil || len(before) != 2 {
		t.Fatalf("listVersions = %v, %v", before, err)
	}
	if err := f.writeFiles(map[string][]byte{"a/old.png": []byte("changed"), "a/new.png": []byte("3"), "a/new.txt": nil}); err != nil {
		t.Fatal(err)
	}
	files, err := f.collectFiles([]string{"a/*.png"}, before)
	if err != nil || len(files) != 2 || string(files["a/old.png"]) != "changed" || string(files["a/new.png"]) != "3" {
		t.Errorf("collected %q, %v", files, err)
	}
	if err := os.Truncate(filepath.Join(f.dir, "a/new.png"), int64(limit.ProgramFiles.Bytes)+1); err != nil {
		t.Fatal(err)
	}
	if _, err := f.collectFiles([]string{"a/*.png"}, nil); err == nil || !strings.Contains(err.Error(), "exceed the limit of 32 MiB") {
		t.Errorf("a large file: %v", err)
	}
}

// TestFoldersOfSessions expects each session, by user and app, to have its own folder, and none to
// remain when the host closes.
func TestFoldersOfSessions(t *testing.T) {
	a := newFolders(t.TempDir())
	dirs := map[string]bool{}
	for _, key := range [][3]string{{"a", "u", "s"}, {"b", "u", "s"}, {"a", "v", "s"}, {"a", "u", "t"}, {"a", "u\" \"s", ""}, {"a", "u", "../../x"}, {"a", "u", "s"}} {
		f, err := a.acquireFolder(key[0], model.Origin{UserID: key[1], SessionID: key[2]})
		if err != nil {
			t.Fatal(err)
		}
		dirs[f.dir] = true
		if filepath.Dir(f.dir) != a.base {
			t.Errorf("%q has the folder %s", key, f.dir)
		}
		f.releaseFolder()
	}
	if len(dirs) != 6 {
		t.Errorf("%d folders, want 6", len(dirs))
	}
	f, err := a.acquireFolder("a", model.Origin{})
	if err != nil {
		t.Fatal(err)
	}
	dir, err := a.newCopy(f, &tool.SkillContent{Name: "pdf", Files: map[string][]byte{"scripts/x.sh": []byte("x")}})
	if err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(filepath.Join(dir, "scripts/x.sh")); err != nil || string(b) != "x" {
		t.Errorf("the copy has %q, %v", b, err)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if left, _ := os.ReadDir(a.parent); len(left) > 0 {
		t.Errorf("folders remain: %v", left)
	}
}

// TestLowerLimits expects a run to lower its grant's limits, never to raise them.
func TestLowerLimits(t *testing.T) {
	for _, tt := range [][3]int64{{10, 0, 10}, {10, 5, 5}, {10, 20, 10}} {
		if got := lowerLimit(tt[0], tt[1]); got != tt[2] {
			t.Errorf("lowerLimit(%d, %d) = %d, want %d", tt[0], tt[1], got, tt[2])
		}
	}
	r := &runner{}
	run := &tool.ProgramRun{Args: []string{"/bin/ls"}, Limits: tool.ProgramLimits{Processes: 3}}
	_, err := r.runInFolder(t.Context(), run, nil, newTestFolder(t))
	if want := "the limits of /bin/ls require a grant with a sandbox: add sandbox: {} to it"; err == nil || err.Error() != want {
		t.Errorf("limits without a sandbox: %v, want %s", err, want)
	}
}
