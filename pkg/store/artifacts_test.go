package store

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/genai"

	"agenthost/pkg/session"
)

func textPart(s string) *genai.Part { return &genai.Part{Text: s} }

// eachShelf runs a test on empty artifacts of each backend. The folder is
// empty for those in memory.
func eachShelf(t *testing.T, o *Options, test func(t *testing.T, a *Artifacts, dir string)) {
	t.Run("memory", func(t *testing.T) { test(t, openStore(t, "memory:", o).Artifacts, "") })
	t.Run("dir", func(t *testing.T) {
		c := Options{}
		if o != nil {
			c = *o
		}
		dir := filepath.Join(t.TempDir(), "artifacts")
		c.Artifacts = "dir://" + dir
		test(t, openStore(t, "memory:", &c).Artifacts, dir)
	})
}

func save(t testing.TB, a *Artifacts, key session.Key, name string, part *genai.Part) int {
	t.Helper()
	n, err := a.Save(t.Context(), key, name, part)
	if err != nil {
		t.Fatalf("Save(%q) = %v", name, err)
	}
	return n
}

func load(t testing.TB, a *Artifacts, key session.Key, name string, version int) *genai.Part {
	t.Helper()
	p, err := a.Load(t.Context(), key, name, version)
	if err != nil {
		t.Fatalf("Load(%q, %d) = %v", name, version, err)
	}
	return p
}

func TestArtifactPartsSurvive(t *testing.T) {
	parts := map[string]*genai.Part{
		"text":       {Text: "héllo\x00"},
		"empty text": {},
		"bytes":      {InlineData: &genai.Blob{MIMEType: "image/png", Data: []byte{0, 1, 255}, DisplayName: "x.png"}},
		"video":      {InlineData: &genai.Blob{MIMEType: "video/mp4", Data: []byte("v")}, VideoMetadata: &genai.VideoMetadata{EndOffset: time.Second}},
		"reference":  {FileData: &genai.FileData{FileURI: "gs://b/o", MIMEType: "text/csv", DisplayName: "o"}},
		"thought":    {Text: "hm", Thought: true, ThoughtSignature: []byte("sig")},
	}
	eachShelf(t, nil, func(t *testing.T, a *Artifacts, _ string) {
		for name, part := range parts {
			save(t, a, alice, name, part)
			diff(t, name, part, load(t, a, alice, name, -1))
		}
	})
}

func TestArtifactVersions(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)
	eachShelf(t, &Options{Clock: func() time.Time { return now }}, func(t *testing.T, a *Artifacts, dir string) {
		for i := range 12 {
			if n := save(t, a, alice, "reports/may.txt", textPart(fmt.Sprint(i))); n != i {
				t.Errorf("version %d got the number %d", i, n)
			}
		}
		save(t, a, alice, "p.png", &genai.Part{InlineData: &genai.Blob{MIMEType: "image/png", Data: []byte("x")}})
		diff(t, "latest", "11", load(t, a, alice, "reports/may.txt", -1).Text)
		diff(t, "version 2", "2", load(t, a, alice, "reports/may.txt", 2).Text)
		_, err := a.Load(t.Context(), alice, "reports/may.txt", 12)
		wantErr(t, "Load of a version to come", err, session.ErrNotFound, "artifact not found: reports/may.txt version 12")

		all, err := a.Versions(t.Context(), alice, "reports/may.txt")
		if err != nil || len(all) != 12 {
			t.Fatalf("Versions = %d, %v", len(all), err)
		}
		for i, v := range all {
			if v.Version != i || !v.Created.Equal(now) || v.MIMEType != "" {
				t.Errorf("version %d = %+v", i, v)
			}
		}
		uri := "memory://apps/app/users/alice/sessions/s/artifacts/reports/may.txt/versions/11"
		if dir != "" {
			uri = "file://" + dir + "/app/alice/s/reports/may.txt/versions/11/content"
		}
		diff(t, "URI", uri, all[11].CanonicalURI)
		all, err = a.Versions(t.Context(), alice, "p.png")
		if err != nil || len(all) != 1 || all[0].MIMEType != "image/png" {
			t.Errorf("Versions of the picture = %+v, %v", all, err)
		}
		all, err = a.Versions(t.Context(), alice, "none")
		if err != nil || len(all) != 0 {
			t.Errorf("Versions of nothing = %+v, %v", all, err)
		}
	})
}

func TestArtifactScopes(t *testing.T) {
	eachShelf(t, nil, func(t *testing.T, a *Artifacts, _ string) {
		other := session.Key{App: "app", User: "alice", ID: "t"}
		save(t, a, alice, "b", textPart("session"))
		save(t, a, alice, "user:b", textPart("user"))
		save(t, a, alice, "a/c", textPart("folder"))
		save(t, a, alice, "a", textPart("name of the folder"))
		save(t, a, other, "user:z", textPart("z"))
		keys := func(key session.Key) []string {
			names, err := a.Keys(t.Context(), key)
			if err != nil {
				t.Fatal(err)
			}
			return names
		}
		diff(t, "keys of the session", []string{"a", "a/c", "b", "user:b", "user:z"}, keys(alice))
		diff(t, "keys of another session", []string{"user:b", "user:z"}, keys(other))
		diff(t, "keys of the user", []string{"user:b", "user:z"}, keys(session.Key{App: "app", User: "alice"}))
		diff(t, "keys of another user", []string{}, keys(session.Key{App: "app", User: "bob", ID: "s"}))
		diff(t, "user's", "user", load(t, a, other, "user:b", -1).Text)
		_, err := a.Load(t.Context(), other, "b", -1)
		wantErr(t, "Load from another session", err, session.ErrNotFound, "artifact not found: b")
		diff(t, "folder's name", "name of the folder", load(t, a, alice, "a", 0).Text)
	})
}

func TestArtifactDelete(t *testing.T) {
	eachShelf(t, nil, func(t *testing.T, a *Artifacts, dir string) {
		for _, name := range []string{"a", "a/b/c", "a/b/d"} {
			save(t, a, alice, name, textPart(name))
		}
		for _, name := range []string{"a", "a/b/c", "none", "user:none"} {
			if err := a.Delete(t.Context(), alice, name); err != nil {
				t.Errorf("Delete(%q) = %v", name, err)
			}
		}
		_, err := a.Load(t.Context(), alice, "a", -1)
		wantErr(t, "Load", err, session.ErrNotFound, "artifact not found: a")
		diff(t, "another", "a/b/d", load(t, a, alice, "a/b/d", -1).Text)
		if n := save(t, a, alice, "a", textPart("new")); n != 0 {
			t.Errorf("version after Delete = %d, want 0", n)
		}
		for _, name := range []string{"a", "a/b/d"} {
			if err := a.Delete(t.Context(), alice, name); err != nil {
				t.Error(err)
			}
		}
		if dir != "" {
			diff(t, "what is left", []string{"app", "app/alice", "app/alice/s"}, tree(t, dir))
		}
	})
}

// tree lists the folders and files below a folder.
func tree(t *testing.T, dir string) []string {
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

func TestArtifactsRefused(t *testing.T) {
	anyone := session.Key{App: "app", User: "alice"}
	tests := []struct {
		what string
		key  session.Key
		name string
		part *genai.Part
		want string
	}{
		{"no part", alice, "a", nil, `artifact "a": a part with inlineData, fileData or text is required`},
		{"a call", alice, "a", &genai.Part{FunctionCall: &genai.FunctionCall{}}, "is required"},
		{"a large one", alice, "a", textPart("123456789"), `artifact "a" has 9 bytes, more than the 8 allowed`},
		{"no user", session.Key{App: "a", ID: "s"}, "a", textPart("x"), "app and user are required"},
		{"no session", anyone, "a", textPart("x"), `artifact "a": session id is required`},
		{"a way up", alice, "../a", textPart("x"), `artifact name "../a" has an empty, . or .. part`},
		{"a way up for the user", alice, "user:../a", textPart("x"), "has an empty, . or .. part"},
		{"an absolute one", alice, "/etc/passwd", textPart("x"), "is absolute"},
		{"no name", alice, "", textPart("x"), "is empty"},
		{"not UTF-8", alice, "\xff", textPart("x"), "is not UTF-8"},
	}
	eachShelf(t, &Options{MaxArtifactBytes: 8}, func(t *testing.T, a *Artifacts, _ string) {
		for _, tt := range tests {
			_, err := a.Save(t.Context(), tt.key, tt.name, tt.part)
			wantErr(t, "Save of "+tt.what, err, session.ErrInvalid, tt.want)
		}
		save(t, a, alice, "a", textPart("12345678"))
		_, err := a.Keys(t.Context(), session.Key{})
		wantErr(t, "Keys of nobody", err, session.ErrInvalid, "app and user are required")
	})
}

// Ids and names that look like the layout, or like each other, stay apart and
// inside the folder.
func TestArtifactPlaces(t *testing.T) {
	ids := []string{"user", "User", "..", ".", "a", "A", "+a", "%2b", "a/b", "a%2fb", "versions", "~", strings.Repeat("x", 120), strings.Repeat("X", 120)}
	names := []string{"a", "A", "versions", "a/versions/0", "versions/0", "a.", ".new-x", ".old-x", "0", strings.Repeat("語", 80), "metadata.json"}
	eachShelf(t, nil, func(t *testing.T, a *Artifacts, dir string) {
		for _, app := range ids[:6] {
			for _, id := range ids {
				for _, name := range []string{"a", "user:a"} {
					key := session.Key{App: app, User: id, ID: id}
					if n := save(t, a, key, name, textPart(app+id+name)); n != 0 {
						t.Errorf("%v %s met another: version %d", key, name, n)
					}
				}
			}
		}
		for _, name := range names {
			if n := save(t, a, alice, name, textPart(name)); n != 0 {
				t.Errorf("%s met another: version %d", name, n)
			}
		}
		for _, name := range names {
			diff(t, name, name, load(t, a, alice, name, -1).Text)
		}
		got, err := a.Keys(t.Context(), alice)
		if err != nil || len(got) != len(names) {
			t.Errorf("Keys = %q, %v", got, err)
		}
		if dir != "" {
			diff(t, "beside the folder", []string{filepath.Base(dir)}, tree(t, filepath.Dir(dir))[:1])
		}
	})
}

func TestArtifactSavesAtOnce(t *testing.T) {
	eachShelf(t, nil, func(t *testing.T, a *Artifacts, _ string) {
		const writers, each = 8, 5
		var mu sync.Mutex
		seen := map[int]bool{}
		all(t, writers, func(i int) error {
			for range each {
				n, err := a.Save(t.Context(), alice, "a", textPart(fmt.Sprint(i)))
				if err != nil {
					return err
				}
				mu.Lock()
				seen[n] = true
				mu.Unlock()
			}
			return a.Delete(t.Context(), alice, "other/name")
		})
		versions, err := a.Versions(t.Context(), alice, "a")
		if err != nil || len(versions) != writers*each || len(seen) != writers*each {
			t.Errorf("%d versions, %d numbers, %v", len(versions), len(seen), err)
		}
	})
}

// A save that died half way is never seen.
func TestArtifactHalfSaved(t *testing.T) {
	dir := t.TempDir()
	a := openStore(t, "memory:", &Options{Artifacts: "dir://" + dir}).Artifacts
	save(t, a, alice, "a", textPart("x"))
	half := filepath.Join(dir, "app/alice/s/a/versions/.new-half")
	if err := os.MkdirAll(half, 0o700); err != nil {
		t.Fatal(err)
	}
	diff(t, "next version", 1, save(t, a, alice, "a", textPart("y")))
	versions, err := a.Versions(t.Context(), alice, "a")
	if err != nil || len(versions) != 2 {
		t.Errorf("%d versions, %v", len(versions), err)
	}
}

// A link in the folder is no way out of it.
func TestArtifactLinkOut(t *testing.T) {
	dir, secret := t.TempDir(), t.TempDir()
	a := openStore(t, "memory:", &Options{Artifacts: "dir://" + dir}).Artifacts
	if err := os.Symlink(secret, filepath.Join(dir, "app")); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Save(t.Context(), alice, "a", textPart("x")); err == nil {
		t.Error("Save followed a link out of the folder")
	}
	if got := tree(t, secret); len(got) != 0 {
		t.Errorf("outside: %v", got)
	}
}

func TestArtifactIsACopy(t *testing.T) {
	eachShelf(t, nil, func(t *testing.T, a *Artifacts, _ string) {
		b := []byte("abc")
		save(t, a, alice, "a", &genai.Part{InlineData: &genai.Blob{Data: b, MIMEType: "x/y"}})
		b[0] = 'X'
		load(t, a, alice, "a", -1).InlineData.Data[1] = 'X'
		diff(t, "bytes", "abc", string(load(t, a, alice, "a", -1).InlineData.Data))
	})
}
