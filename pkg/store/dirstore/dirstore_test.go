package dirstore_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genai"

	"agenthost/pkg/session"
	"agenthost/pkg/store"
	"agenthost/pkg/store/dirstore"
	"agenthost/pkg/store/memstore"
	"agenthost/pkg/store/storetest"
)

func TestArtifacts(t *testing.T) {
	suite := &storetest.ArtifactSuite{URI: "dir://apps/app/"}
	suite.Create = func(t testing.TB, _ *store.Options) store.ArtifactBackend { return openFolder(t, t.TempDir()) }
	suite.Run(t)
}

func openFolder(t testing.TB, dir string) *dirstore.Artifacts {
	t.Helper()
	d, err := dirstore.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// openArtifacts opens a folder's artifacts. The test closes them.
func openArtifacts(t *testing.T, dir string) *store.Artifacts {
	t.Helper()
	b := memstore.NewBackends()
	b.Artifacts = openFolder(t, dir)
	s := store.New(b, nil)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s.Artifacts
}

var alice = session.Key{App: "app", User: "alice", ID: "s"}

func textPart(text string) *genai.Part { return &genai.Part{Text: text} }

func saveArtifact(t testing.TB, a *store.Artifacts, key session.Key, name string, part *genai.Part) int {
	t.Helper()
	n, err := a.Save(t.Context(), key, name, part)
	if err != nil {
		t.Fatalf("Save(%q) = %v", name, err)
	}
	return n
}

// listFiles lists the folders and files below a folder.
func listFiles(t *testing.T, dir string) []string {
	t.Helper()
	var all []string
	err := fs.WalkDir(os.DirFS(dir), ".", func(path string, _ fs.DirEntry, err error) error {
		if path != "." {
			all = append(all, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// A save that died half way is never seen.
func TestArtifactIncompleteVersion(t *testing.T) {
	dir := t.TempDir()
	a := openArtifacts(t, dir)
	saveArtifact(t, a, alice, "a", textPart("x"))
	half := filepath.Join(dir, "app/alice/s/a/versions/.new-half")
	if err := os.MkdirAll(half, 0o700); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(1, saveArtifact(t, a, alice, "a", textPart("y"))); d != "" {
		t.Errorf("next version"+" (-want +got):\n%s", d)
	}
	versions, err := a.Versions(t.Context(), alice, "a")
	if err != nil || len(versions) != 2 {
		t.Errorf("%d versions, %v", len(versions), err)
	}
}

// Symbolic links cannot escape the folder.
func TestArtifactSymlinkEscape(t *testing.T) {
	dir, secret := t.TempDir(), t.TempDir()
	a := openArtifacts(t, dir)
	if err := os.Symlink(secret, filepath.Join(dir, "app")); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Save(t.Context(), alice, "a", textPart("x")); err == nil {
		t.Error("Save followed a link out of the folder")
	}
	if got := listFiles(t, secret); len(got) != 0 {
		t.Errorf("outside: %v", got)
	}
}

// A deleted artifact leaves no files, and nothing is written outside the folder.
func TestArtifactFolders(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "artifacts")
	a := openArtifacts(t, dir)
	names := []string{"a", "a/b/c", "a/b/d", "versions/0", "user:x"}
	for _, name := range names {
		saveArtifact(t, a, session.Key{App: "..", User: "..", ID: ".."}, name, textPart(name))
		saveArtifact(t, a, alice, name, textPart(name))
	}
	if d := cmp.Diff([]string{filepath.Base(dir)}, listFiles(t, filepath.Dir(dir))[:1]); d != "" {
		t.Errorf("outside the folder"+" (-want +got):\n%s", d)
	}
	for _, name := range names {
		if err := a.Delete(t.Context(), alice, name); err != nil {
			t.Error(err)
		}
	}
	if d := cmp.Diff([]string{"app", "app/alice", "app/alice/s", "app/alice/user"}, listFiles(t, dir)[len(listFiles(t, dir))-4:]); d != "" {
		t.Errorf("what is left"+" (-want +got):\n%s", d)
	}
}
