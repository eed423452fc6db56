package storetest

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/genai"

	"agenthost/pkg/session"
	"agenthost/pkg/store"
	"agenthost/pkg/store/memstore"
)

// An ArtifactSuite tests an artifact backend kind.
type ArtifactSuite struct {
	// Create creates an empty backend. Its clock and its limit come from the options, where it has
	// them.
	Create func(t testing.TB, o *store.Options) store.ArtifactBackend
	// Bucket allows bucket limits: some part fields are not stored, as in adk-python, metadata
	// values become strings, and the bucket's clock sets the creation time.
	Bucket bool
	// URI is the prefix for canonical URIs.
	URI string
}

// Run runs all tests as subtests.
func (su *ArtifactSuite) Run(t *testing.T) {
	for name, test := range map[string]func(*testing.T){
		"Parts": su.testParts, "Versions": su.testVersions, "Metadata": su.testMetadata, "Scopes": su.testScopes,
		"Delete": su.testDelete, "Rejected": su.testRejected, "DistinctKeys": su.testDistinctKeys, "ConcurrentSaves": su.testConcurrentSaves,
		"Copies": su.testCopies, "Absence": su.testAbsence, "Limits": su.testLimits, "Pages": su.testPages, "References": su.testReferences,
	} {
		t.Run(name, test)
	}
}

// testArtifacts wraps the artifacts under test.
type testArtifacts struct {
	*store.Artifacts
	t *testing.T
}

func (su *ArtifactSuite) openEmpty(t *testing.T, o *store.Options) testArtifacts {
	if o == nil {
		o = &store.Options{}
	}
	b := memstore.NewBackends()
	b.Artifacts = su.Create(t, o)
	s := store.New(b, o)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return testArtifacts{s.Artifacts, t}
}

func (a testArtifacts) mustSave(key session.Key, name string, part *genai.Part) int {
	a.t.Helper()
	n, err := a.Save(a.t.Context(), key, name, part)
	if err != nil {
		a.t.Fatalf("Save(%q) = %v", name, err)
	}
	return n
}

func (a testArtifacts) mustLoad(key session.Key, name string, version int) *genai.Part {
	a.t.Helper()
	p, err := a.Load(a.t.Context(), key, name, version)
	if err != nil {
		a.t.Fatalf("Load(%q, %d) = %v", name, version, err)
	}
	return p
}

func (a testArtifacts) mustListKeys(key session.Key) []string {
	a.t.Helper()
	names, err := a.Keys(a.t.Context(), key)
	if err != nil {
		a.t.Fatal(err)
	}
	return names
}

func (a testArtifacts) mustDelete(key session.Key, name string) {
	a.t.Helper()
	if err := a.Delete(a.t.Context(), key, name); err != nil {
		a.t.Errorf("Delete(%q) = %v", name, err)
	}
}

func (su *ArtifactSuite) testParts(t *testing.T) {
	parts := map[string]*genai.Part{
		"text":       {Text: "héllo\x00"},
		"empty text": {},
		"bytes":      {InlineData: &genai.Blob{MIMEType: "image/png", Data: []byte{0, 1, 255}, DisplayName: "ü x.png"}},
		"text bytes": {InlineData: &genai.Blob{MIMEType: "text/plain; charset=utf-8", Data: []byte("t")}},
		"reference":  {FileData: &genai.FileData{FileURI: "gs://b/o", MIMEType: "text/csv"}},
		"bare":       {FileData: &genai.FileData{FileURI: "gs://b/o"}},
	}
	if !su.Bucket {
		parts["named reference"] = &genai.Part{FileData: &genai.FileData{FileURI: "gs://b/o", DisplayName: "o"}}
		parts["video"] = &genai.Part{InlineData: &genai.Blob{MIMEType: "video/mp4", Data: []byte("v")}, VideoMetadata: &genai.VideoMetadata{EndOffset: time.Second}}
		parts["thought"] = &genai.Part{Text: "hm", Thought: true, ThoughtSignature: []byte("sig")}
	}
	a := su.openEmpty(t, nil)
	for name, part := range parts {
		a.mustSave(alice, name, part)
		wantEqual(t, name, part, a.mustLoad(alice, name, -1))
	}
}

func (su *ArtifactSuite) testVersions(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)
	a := su.openEmpty(t, &store.Options{Clock: func() time.Time { return now }})
	for i := range 12 {
		wantEqual(t, "number", i, a.mustSave(alice, "reports/may.txt", textPart(fmt.Sprint(i))))
	}
	wantEqual(t, "latest", "11", a.mustLoad(alice, "reports/may.txt", -1).Text)
	wantEqual(t, "version 2", "2", a.mustLoad(alice, "reports/may.txt", 2).Text)
	_, err := a.Load(t.Context(), alice, "reports/may.txt", 12)
	wantErr(t, "Load of an unknown version", err, wantedError{session.ErrNotFound, "artifact not found: reports/may.txt version 12"})

	all, err := a.Versions(t.Context(), alice, "reports/may.txt")
	if err != nil || len(all) != 12 {
		t.Fatalf("Versions = %d, %v", len(all), err)
	}
	for i, v := range all {
		if v.Version != i || su.Bucket == v.Created.Equal(now) || v.Created.IsZero() || v.MIMEType != "" && v.MIMEType != "text/plain" {
			t.Errorf("version %d = %+v", i, v)
		}
	}
	if uri := all[11].CanonicalURI; !strings.HasPrefix(uri, su.URI) || !strings.Contains(uri, "/reports/may.txt/") {
		t.Errorf("URI = %s", uri)
	}
	latest, err := a.Version(t.Context(), alice, "reports/may.txt", -1)
	if err != nil || latest.Version != 11 {
		t.Errorf("Version(-1) = %+v, %v", latest, err)
	}
	_, err = a.Version(t.Context(), alice, "reports/may.txt", 12)
	wantErr(t, "Version of an unknown version", err, wantedError{session.ErrNotFound, "artifact not found: reports/may.txt version 12"})
	all, err = a.Versions(t.Context(), alice, "none")
	if err != nil || len(all) != 0 {
		t.Errorf("Versions of an unknown artifact = %+v, %v", all, err)
	}
}

func (su *ArtifactSuite) testMetadata(t *testing.T) {
	a := su.openEmpty(t, nil)
	custom := map[string]any{"Source": "crawl ü", "pages": 3, "tags": []any{"a"}}
	want := map[string]any{"Source": "crawl ü", "pages": int64(3), "tags": []any{"a"}}
	if su.Bucket {
		want["pages"], want["tags"] = "3", `["a"]`
	}
	made, err := a.Create(t.Context(), alice, &store.NewArtifact{
		Name: "p.png", Part: &genai.Part{InlineData: &genai.Blob{MIMEType: "image/png", Data: []byte("x"), DisplayName: "d"}}, CustomMetadata: custom,
	})
	if err != nil {
		t.Fatal(err)
	}
	if made.Version != 0 || made.MIMEType != "image/png" || made.Created.IsZero() || !strings.HasPrefix(made.CanonicalURI, su.URI) {
		t.Errorf("Create = %+v", made)
	}
	got, err := a.Version(t.Context(), alice, "p.png", 0)
	if err != nil {
		t.Fatal(err)
	}
	wantEqual(t, "metadata", want, got.CustomMetadata)
	wantEqual(t, "type", "image/png", got.MIMEType)
	wantEqual(t, "URI", made.CanonicalURI, got.CanonicalURI)
	a.mustSave(alice, "p.png", textPart("plain"))
	if got, err := a.Version(t.Context(), alice, "p.png", 1); err != nil || len(got.CustomMetadata) != 0 {
		t.Errorf("Version without metadata = %+v, %v", got, err)
	}
}

func (su *ArtifactSuite) testScopes(t *testing.T) {
	a := su.openEmpty(t, nil)
	other := session.Key{App: "app", User: "alice", ID: "t"}
	a.mustSave(alice, "b", textPart("session"))
	a.mustSave(alice, "user:b", textPart("user"))
	a.mustSave(alice, "a/c", textPart("folder"))
	a.mustSave(alice, "a", textPart("folder name"))
	a.mustSave(other, "user:z", textPart("z"))
	wantEqual(t, "keys of the session", []string{"a", "a/c", "b", "user:b", "user:z"}, a.mustListKeys(alice))
	wantEqual(t, "keys of another session", []string{"user:b", "user:z"}, a.mustListKeys(other))
	wantEqual(t, "keys of the user", []string{"user:b", "user:z"}, a.mustListKeys(session.Key{App: "app", User: "alice"}))
	wantEqual(t, "keys of another user", []string{}, a.mustListKeys(session.Key{App: "app", User: "bob", ID: "s"}))
	wantEqual(t, "keys of another app", []string{}, a.mustListKeys(session.Key{App: "ap", User: "alice", ID: "s"}))
	wantEqual(t, "user scope", "user", a.mustLoad(other, "user:b", -1).Text)
	_, err := a.Load(t.Context(), other, "b", -1)
	wantErr(t, "Load from another session", err, wantedError{session.ErrNotFound, "artifact not found: b"})
	_, err = a.Load(t.Context(), session.Key{App: "app", User: "bob", ID: "s"}, "user:b", -1)
	wantErr(t, "Load of another user", err, wantedError{session.ErrNotFound, "artifact not found: user:b"})
	wantEqual(t, "folder name", "folder name", a.mustLoad(alice, "a", 0).Text)
}

func (su *ArtifactSuite) testDelete(t *testing.T) {
	a := su.openEmpty(t, nil)
	for _, name := range []string{"a", "a", "a/b/c", "a/b/d", "a.b", "user:a"} {
		a.mustSave(alice, name, textPart(name))
	}
	for _, name := range []string{"a", "a/b/c", "none", "user:none"} {
		a.mustDelete(alice, name)
	}
	_, err := a.Load(t.Context(), alice, "a", -1)
	wantErr(t, "Load", err, wantedError{session.ErrNotFound, "artifact not found: a"})
	wantEqual(t, "keys", []string{"a.b", "a/b/d", "user:a"}, a.mustListKeys(alice))
	wantEqual(t, "another", "a/b/d", a.mustLoad(alice, "a/b/d", -1).Text)
	wantEqual(t, "version after Delete", 0, a.mustSave(alice, "a", textPart("new")))
}

// testRejected: invalid parts, keys and names are rejected.
func (su *ArtifactSuite) testRejected(t *testing.T) {
	tests := []struct {
		what string
		key  session.Key
		name string
		part *genai.Part
		want string
	}{
		{"no part", alice, "a", nil, `artifact "a": a part with inlineData, fileData or text is required`},
		{"a call", alice, "a", &genai.Part{FunctionCall: &genai.FunctionCall{}}, "is required"},
		{"no user", session.Key{App: "a", ID: "s"}, "a", textPart("x"), "user is required"},
		{"no session", session.Key{App: "app", User: "alice"}, "a", textPart("x"), `artifact "a": session id is required`},
		{"a parent path", alice, "../a", textPart("x"), `artifact name "../a" contains an empty, . or .. element`},
		{"a parent path in the middle", alice, "a/../b", textPart("x"), "contains an empty, . or .. element"},
		{"a parent path in the user scope", alice, "user:../a", textPart("x"), "contains an empty, . or .. element"},
		{"an absolute path", alice, "/etc/passwd", textPart("x"), "must be relative"},
		{"an absolute path in the user scope", alice, "user:/etc/passwd", textPart("x"), "must be relative"},
		{"no name", alice, "", textPart("x"), "is empty"},
		{"not UTF-8", alice, "\xff", textPart("x"), "is not UTF-8"},
	}
	a := su.openEmpty(t, nil)
	for _, tt := range tests {
		_, err := a.Save(t.Context(), tt.key, tt.name, tt.part)
		wantErr(t, "Save of "+tt.what, err, wantedError{session.ErrInvalid, tt.want})
	}
	_, err := a.Keys(t.Context(), session.Key{})
	wantErr(t, "Keys without an app", err, wantedError{session.ErrInvalid, "app is required"})
	wantEqual(t, "keys", []string{}, a.mustListKeys(alice))
}

// testDistinctKeys: IDs and names that resemble the storage layout or each other stay
// distinct.
func (su *ArtifactSuite) testDistinctKeys(t *testing.T) {
	ids := []string{
		"user", "User", "..", ".", "a", "A", "+a", "%2b", "a/b", "a%2fb", "a%2Fb", "a%252Fb", "a%25b", "a%b", "versions", "~",
		"ü 語", "a.", "a..", "a+b", "a?b#c", strings.Repeat("x", 120), strings.Repeat("X", 120),
	}
	a := su.openEmpty(t, nil)
	for _, app := range ids[:4] {
		for _, id := range ids {
			for _, name := range []string{"a", "user:a"} {
				key := session.Key{App: app, User: id, ID: id}
				if n := a.mustSave(key, name, textPart(app+id+name)); n != 0 {
					t.Errorf("%v %s collides with another key: version %d", key, name, n)
				}
			}
			key := session.Key{App: app, User: id, ID: id}
			wantEqual(t, "keys of "+id, []string{"a", "user:a"}, a.mustListKeys(key))
			wantEqual(t, "text of "+id, app+id+"a", a.mustLoad(key, "a", 0).Text)
		}
	}
	// A slash in a user or session ID does not collide with another session.
	for _, key := range []session.Key{{App: "x", User: "u/s", ID: "t"}, {App: "x", User: "u", ID: "s/t"}, {App: "x/u", User: "s", ID: "t"}} {
		wantEqual(t, "version at "+key.String(), 0, a.mustSave(key, "f", textPart("f")))
		wantEqual(t, "keys", []string{"f"}, a.mustListKeys(key))
	}
	names := []string{
		"a", "A", "versions", "a/versions/0", "versions/0", "a.", "a..", ".new-x", ".old-x", "0", "a/0", "a/0/0", "a/1", "a/00", strings.Repeat("語", 80),
		"metadata.json", "50%", "a%2Fb", "a b", "a+b", "a?b#c", "ü", "u\u0308", "x\u00a0y", "q&=<>\"'",
	}
	for _, name := range names {
		wantEqual(t, "version of "+name, 0, a.mustSave(alice, name, textPart(name)))
	}
	for _, name := range names {
		wantEqual(t, name, name, a.mustLoad(alice, name, -1).Text)
	}
	if got := a.mustListKeys(alice); len(got) != len(names) {
		t.Errorf("Keys = %q", got)
	}
}

func (su *ArtifactSuite) testConcurrentSaves(t *testing.T) {
	a := su.openEmpty(t, nil)
	const writers, each = 8, 4
	var wg sync.WaitGroup
	var mu sync.Mutex
	seen := map[int]string{}
	for i := range writers {
		wg.Go(func() {
			for j := range each {
				content := fmt.Sprint(i, j)
				n, err := a.Save(t.Context(), alice, "a", textPart(content))
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				seen[n] = content
				mu.Unlock()
			}
			if err := a.Delete(t.Context(), alice, "other/name"); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	versions, err := a.Versions(t.Context(), alice, "a")
	if err != nil || len(versions) != writers*each || len(seen) != writers*each {
		t.Errorf("%d versions, %d numbers, %v", len(versions), len(seen), err)
	}
	for n, content := range seen {
		wantEqual(t, fmt.Sprint("version ", n), content, a.mustLoad(alice, "a", n).Text)
	}
}

func (su *ArtifactSuite) testCopies(t *testing.T) {
	a := su.openEmpty(t, nil)
	b, custom := []byte("abc"), map[string]any{"k": "v"}
	part := &genai.Part{InlineData: &genai.Blob{Data: b, MIMEType: "x/y"}}
	if _, err := a.Create(t.Context(), alice, &store.NewArtifact{Name: "a", Part: part, CustomMetadata: custom}); err != nil {
		t.Fatal(err)
	}
	b[0], custom["k"] = 'X', "X"
	a.mustLoad(alice, "a", -1).InlineData.Data[1] = 'X'
	wantEqual(t, "bytes", "abc", string(a.mustLoad(alice, "a", -1).InlineData.Data))
	for range 2 {
		v, err := a.Version(t.Context(), alice, "a", 0)
		if err != nil {
			t.Fatal(err)
		}
		wantEqual(t, "metadata", map[string]any{"k": "v"}, v.CustomMetadata)
		v.CustomMetadata["k"] = "X"
	}
}

// testAbsence: an absent version loads as not found, and older versions remain.
func (su *ArtifactSuite) testAbsence(t *testing.T) {
	a := su.openEmpty(t, nil)
	a.mustSave(alice, "f", textPart("x"))
	a.mustSave(alice, "f", store.Absence())
	_, err := a.Load(t.Context(), alice, "f", -1)
	wantErr(t, "the latest", err, wantedError{session.ErrNotFound, "artifact not found: f"})
	_, err = a.Load(t.Context(), alice, "f", 1)
	wantErr(t, "by its number", err, wantedError{session.ErrNotFound, "artifact not found: f version 1"})
	wantEqual(t, "before", "x", a.mustLoad(alice, "f", 0).Text)
}

func (su *ArtifactSuite) testLimits(t *testing.T) {
	a := su.openEmpty(t, &store.Options{MaxArtifactBytes: 8})
	a.mustSave(alice, "a", textPart("12345678"))
	_, err := a.Save(t.Context(), alice, "a", textPart("123456789"))
	wantErr(t, "Save of a large part", err, wantedError{session.ErrInvalid, `artifact "a" with 9 bytes exceeds the limit of 8 bytes`})
	wantEqual(t, "kept", "12345678", a.mustLoad(alice, "a", -1).Text)

	big := strings.Repeat("0123456789abcdef", 1<<16)
	b := su.openEmpty(t, nil)
	b.mustSave(alice, "big", &genai.Part{InlineData: &genai.Blob{MIMEType: "application/octet-stream", Data: []byte(big)}})
	if got := b.mustLoad(alice, "big", -1).InlineData.Data; string(got) != big {
		t.Errorf("Load returned %d other bytes, want 1 MiB unchanged", len(got))
	}
}

// testPages: a list longer than one page is complete.
func (su *ArtifactSuite) testPages(t *testing.T) {
	a := su.openEmpty(t, nil)
	var want []string
	for i := range 23 {
		name := fmt.Sprintf("n%02d", i)
		a.mustSave(alice, name, textPart("x"))
		want = append(want, name)
	}
	wantEqual(t, "keys", want, a.mustListKeys(alice))
}

// testReferences: a part that refers to another of the user's artifacts loads as that artifact.
func (su *ArtifactSuite) testReferences(t *testing.T) {
	a := su.openEmpty(t, nil)
	refer := func(name, uri string) {
		a.mustSave(alice, name, &genai.Part{FileData: &genai.FileData{FileURI: uri, MIMEType: "text/plain"}})
	}
	a.mustSave(alice, "dir/note", textPart("mine"))
	a.mustSave(alice, "user:note", textPart("the user's"))
	refer("session", "artifact://apps/app/users/alice/sessions/s/artifacts/dir/note/versions/0")
	refer("user", "artifact://apps/app/users/alice/artifacts/user:note/versions/0")
	refer("twice", "artifact://apps/app/users/alice/sessions/s/artifacts/session/versions/0")
	refer("gone", "artifact://apps/app/users/alice/sessions/s/artifacts/none/versions/0")
	refer("self", "artifact://apps/app/users/alice/sessions/s/artifacts/self/versions/0")
	refer("other user", "artifact://apps/app/users/bob/sessions/s/artifacts/dir/note/versions/0")
	refer("other session", "artifact://apps/app/users/alice/sessions/t/artifacts/dir/note/versions/0")
	refer("broken", "artifact://apps/app")
	wantEqual(t, "session", textPart("mine"), a.mustLoad(alice, "session", -1))
	wantEqual(t, "user", textPart("the user's"), a.mustLoad(alice, "user", -1))
	wantEqual(t, "twice", textPart("mine"), a.mustLoad(alice, "twice", -1))
	for name, want := range map[string]wantedError{
		"gone":          {session.ErrNotFound, "artifact not found: none version 0"},
		"self":          {session.ErrInvalid, `artifact "self": chain of references exceeds the limit of 5`},
		"other user":    {session.ErrInvalid, `artifact "other user": reference to another app or user not allowed`},
		"other session": {session.ErrInvalid, `artifact "other session": reference to another session not allowed`},
		"broken":        {session.ErrInvalid, `artifact "broken": invalid artifact reference "artifact://apps/app"`},
	} {
		_, err := a.Load(t.Context(), alice, name, -1)
		wantErr(t, "Load of "+name, err, want)
	}
}
