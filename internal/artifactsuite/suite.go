// Package artifactsuite is what every backend of artifacts must do. Tests run it
// over each of them.
package artifactsuite

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genai"

	"agenthost/pkg/session"
	"agenthost/pkg/store"
)

// A Suite opens empty artifacts for each of its tests.
type Suite struct {
	// Open opens artifacts that nobody has used, with these options; the test
	// ends them.
	Open func(t *testing.T, o *store.Options) *store.Artifacts
	// Bucket says that what only a whole part can tell is not kept, as in
	// adk-python, that values of metadata become texts, and that the bucket's
	// clock counts.
	Bucket bool
	// URI begins the canonical URIs.
	URI string
}

func alice() session.Key { return session.Key{App: "app", User: "alice", ID: "s"} }

// Run runs all tests.
func (s *Suite) Run(t *testing.T) {
	for name, test := range map[string]func(*testing.T){
		"PartsSurvive": s.partsSurvive, "Versions": s.versions, "Metadata": s.metadata, "Scopes": s.scopes,
		"Delete": s.remove, "Refused": s.refused, "Places": s.places, "SavesAtOnce": s.savesAtOnce,
		"Copies": s.copies, "Absence": s.absence, "Limits": s.limits, "Many": s.many, "References": s.references,
	} {
		t.Run(name, test)
	}
}

// A shelf is artifacts under test.
type shelf struct {
	*store.Artifacts
	t *testing.T
}

func (s *Suite) open(t *testing.T, o *store.Options) shelf { return shelf{s.Open(t, o), t} }

func (a shelf) save(key session.Key, name string, part *genai.Part) int {
	a.t.Helper()
	n, err := a.Save(a.t.Context(), key, name, part)
	if err != nil {
		a.t.Fatalf("Save(%q) = %v", name, err)
	}
	return n
}

func (a shelf) load(key session.Key, name string, version int) *genai.Part {
	a.t.Helper()
	p, err := a.Load(a.t.Context(), key, name, version)
	if err != nil {
		a.t.Fatalf("Load(%q, %d) = %v", name, version, err)
	}
	return p
}

func (a shelf) keys(key session.Key) []string {
	a.t.Helper()
	names, err := a.Keys(a.t.Context(), key)
	if err != nil {
		a.t.Fatal(err)
	}
	return names
}

func (a shelf) remove(key session.Key, name string) {
	a.t.Helper()
	if err := a.Delete(a.t.Context(), key, name); err != nil {
		a.t.Errorf("Delete(%q) = %v", name, err)
	}
}

func diff(t testing.TB, what string, want, got any) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("%s (-want +got):\n%s", what, d)
	}
}

// wanted is an error that a test asks for.
type wanted struct {
	is   error
	text string
}

func wantErr(t testing.TB, what string, err error, want wanted) {
	t.Helper()
	if !errors.Is(err, want.is) || !strings.Contains(err.Error(), want.text) {
		t.Errorf("%s = %v, want %v with %q", what, err, want.is, want.text)
	}
}

func text(s string) *genai.Part { return &genai.Part{Text: s} }

func (s *Suite) partsSurvive(t *testing.T) {
	parts := map[string]*genai.Part{
		"text":       {Text: "héllo\x00"},
		"empty text": {},
		"bytes":      {InlineData: &genai.Blob{MIMEType: "image/png", Data: []byte{0, 1, 255}, DisplayName: "ü x.png"}},
		"text bytes": {InlineData: &genai.Blob{MIMEType: "text/plain; charset=utf-8", Data: []byte("t")}},
		"reference":  {FileData: &genai.FileData{FileURI: "gs://b/o", MIMEType: "text/csv"}},
		"bare":       {FileData: &genai.FileData{FileURI: "gs://b/o"}},
	}
	if !s.Bucket {
		parts["named reference"] = &genai.Part{FileData: &genai.FileData{FileURI: "gs://b/o", DisplayName: "o"}}
		parts["video"] = &genai.Part{InlineData: &genai.Blob{MIMEType: "video/mp4", Data: []byte("v")}, VideoMetadata: &genai.VideoMetadata{EndOffset: time.Second}}
		parts["thought"] = &genai.Part{Text: "hm", Thought: true, ThoughtSignature: []byte("sig")}
	}
	a := s.open(t, nil)
	for name, part := range parts {
		a.save(alice(), name, part)
		diff(t, name, part, a.load(alice(), name, -1))
	}
}

func (s *Suite) versions(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)
	a := s.open(t, &store.Options{Clock: func() time.Time { return now }})
	for i := range 12 {
		diff(t, "number", i, a.save(alice(), "reports/may.txt", text(fmt.Sprint(i))))
	}
	diff(t, "latest", "11", a.load(alice(), "reports/may.txt", -1).Text)
	diff(t, "version 2", "2", a.load(alice(), "reports/may.txt", 2).Text)
	_, err := a.Load(t.Context(), alice(), "reports/may.txt", 12)
	wantErr(t, "Load of a version to come", err, wanted{session.ErrNotFound, "artifact not found: reports/may.txt version 12"})

	all, err := a.Versions(t.Context(), alice(), "reports/may.txt")
	if err != nil || len(all) != 12 {
		t.Fatalf("Versions = %d, %v", len(all), err)
	}
	for i, v := range all {
		if v.Version != i || s.Bucket == v.Created.Equal(now) || v.Created.IsZero() || v.MIMEType != "" && v.MIMEType != "text/plain" {
			t.Errorf("version %d = %+v", i, v)
		}
	}
	if uri := all[11].CanonicalURI; !strings.HasPrefix(uri, s.URI) || !strings.Contains(uri, "/reports/may.txt/") {
		t.Errorf("URI = %s", uri)
	}
	latest, err := a.Version(t.Context(), alice(), "reports/may.txt", -1)
	if err != nil || latest.Version != 11 {
		t.Errorf("Version(-1) = %+v, %v", latest, err)
	}
	_, err = a.Version(t.Context(), alice(), "reports/may.txt", 12)
	wantErr(t, "Version to come", err, wanted{session.ErrNotFound, "artifact not found: reports/may.txt version 12"})
	all, err = a.Versions(t.Context(), alice(), "none")
	if err != nil || len(all) != 0 {
		t.Errorf("Versions of nothing = %+v, %v", all, err)
	}
}

func (s *Suite) metadata(t *testing.T) {
	a := s.open(t, nil)
	custom := map[string]any{"Source": "crawl ü", "pages": 3, "tags": []any{"a"}}
	want := map[string]any{"Source": "crawl ü", "pages": int64(3), "tags": []any{"a"}}
	if s.Bucket {
		want["pages"], want["tags"] = "3", `["a"]`
	}
	made, err := a.Create(t.Context(), alice(), &store.NewArtifact{
		Name: "p.png", Part: &genai.Part{InlineData: &genai.Blob{MIMEType: "image/png", Data: []byte("x"), DisplayName: "d"}}, CustomMetadata: custom,
	})
	if err != nil {
		t.Fatal(err)
	}
	if made.Version != 0 || made.MIMEType != "image/png" || made.Created.IsZero() || !strings.HasPrefix(made.CanonicalURI, s.URI) {
		t.Errorf("Create = %+v", made)
	}
	got, err := a.Version(t.Context(), alice(), "p.png", 0)
	if err != nil {
		t.Fatal(err)
	}
	diff(t, "metadata", want, got.CustomMetadata)
	diff(t, "type", "image/png", got.MIMEType)
	diff(t, "URI", made.CanonicalURI, got.CanonicalURI)
	a.save(alice(), "p.png", text("plain"))
	if got, err := a.Version(t.Context(), alice(), "p.png", 1); err != nil || len(got.CustomMetadata) != 0 {
		t.Errorf("Version without metadata = %+v, %v", got, err)
	}
}

func (s *Suite) scopes(t *testing.T) {
	a := s.open(t, nil)
	other := session.Key{App: "app", User: "alice", ID: "t"}
	a.save(alice(), "b", text("session"))
	a.save(alice(), "user:b", text("user"))
	a.save(alice(), "a/c", text("folder"))
	a.save(alice(), "a", text("name of the folder"))
	a.save(other, "user:z", text("z"))
	diff(t, "keys of the session", []string{"a", "a/c", "b", "user:b", "user:z"}, a.keys(alice()))
	diff(t, "keys of another session", []string{"user:b", "user:z"}, a.keys(other))
	diff(t, "keys of the user", []string{"user:b", "user:z"}, a.keys(session.Key{App: "app", User: "alice"}))
	diff(t, "keys of another user", []string{}, a.keys(session.Key{App: "app", User: "bob", ID: "s"}))
	diff(t, "keys of another app", []string{}, a.keys(session.Key{App: "ap", User: "alice", ID: "s"}))
	diff(t, "user's", "user", a.load(other, "user:b", -1).Text)
	_, err := a.Load(t.Context(), other, "b", -1)
	wantErr(t, "Load from another session", err, wanted{session.ErrNotFound, "artifact not found: b"})
	_, err = a.Load(t.Context(), session.Key{App: "app", User: "bob", ID: "s"}, "user:b", -1)
	wantErr(t, "Load of another user", err, wanted{session.ErrNotFound, "artifact not found: user:b"})
	diff(t, "folder's name", "name of the folder", a.load(alice(), "a", 0).Text)
}

func (s *Suite) remove(t *testing.T) {
	a := s.open(t, nil)
	for _, name := range []string{"a", "a", "a/b/c", "a/b/d", "a.b", "user:a"} {
		a.save(alice(), name, text(name))
	}
	for _, name := range []string{"a", "a/b/c", "none", "user:none"} {
		a.remove(alice(), name)
	}
	_, err := a.Load(t.Context(), alice(), "a", -1)
	wantErr(t, "Load", err, wanted{session.ErrNotFound, "artifact not found: a"})
	diff(t, "keys", []string{"a.b", "a/b/d", "user:a"}, a.keys(alice()))
	diff(t, "another", "a/b/d", a.load(alice(), "a/b/d", -1).Text)
	diff(t, "version after Delete", 0, a.save(alice(), "a", text("new")))
}

func (s *Suite) refused(t *testing.T) {
	tests := []struct {
		what string
		key  session.Key
		name string
		part *genai.Part
		want string
	}{
		{"no part", alice(), "a", nil, `artifact "a": a part with inlineData, fileData or text is required`},
		{"a call", alice(), "a", &genai.Part{FunctionCall: &genai.FunctionCall{}}, "is required"},
		{"no user", session.Key{App: "a", ID: "s"}, "a", text("x"), "app and user are required"},
		{"no session", session.Key{App: "app", User: "alice"}, "a", text("x"), `artifact "a": session id is required`},
		{"a way up", alice(), "../a", text("x"), `artifact name "../a" contains an empty, . or .. element`},
		{"a way up in the middle", alice(), "a/../b", text("x"), "contains an empty, . or .. element"},
		{"a way up for the user", alice(), "user:../a", text("x"), "contains an empty, . or .. element"},
		{"an absolute one", alice(), "/etc/passwd", text("x"), "must be relative"},
		{"an absolute one for the user", alice(), "user:/etc/passwd", text("x"), "must be relative"},
		{"no name", alice(), "", text("x"), "is empty"},
		{"not UTF-8", alice(), "\xff", text("x"), "is not UTF-8"},
	}
	a := s.open(t, nil)
	for _, tt := range tests {
		_, err := a.Save(t.Context(), tt.key, tt.name, tt.part)
		wantErr(t, "Save of "+tt.what, err, wanted{session.ErrInvalid, tt.want})
	}
	_, err := a.Keys(t.Context(), session.Key{})
	wantErr(t, "Keys of nobody", err, wanted{session.ErrInvalid, "app and user are required"})
	diff(t, "keys", []string{}, a.keys(alice()))
}

// places: ids and names that look like the layout, or like each other, stay
// apart.
func (s *Suite) places(t *testing.T) {
	ids := []string{
		"user", "User", "..", ".", "a", "A", "+a", "%2b", "a/b", "a%2fb", "a%2Fb", "a%252Fb", "a%25b", "a%b", "versions", "~",
		"ü 語", "a.", "a..", "a+b", "a?b#c", strings.Repeat("x", 120), strings.Repeat("X", 120),
	}
	a := s.open(t, nil)
	for _, app := range ids[:4] {
		for _, id := range ids {
			for _, name := range []string{"a", "user:a"} {
				key := session.Key{App: app, User: id, ID: id}
				if n := a.save(key, name, text(app+id+name)); n != 0 {
					t.Errorf("%v %s met another: version %d", key, name, n)
				}
			}
			key := session.Key{App: app, User: id, ID: id}
			diff(t, "keys of "+id, []string{"a", "user:a"}, a.keys(key))
			diff(t, "text of "+id, app+id+"a", a.load(key, "a", 0).Text)
		}
	}
	// One user's folders do not become another's session.
	for _, key := range []session.Key{{App: "x", User: "u/s", ID: "t"}, {App: "x", User: "u", ID: "s/t"}, {App: "x/u", User: "s", ID: "t"}} {
		diff(t, "version at "+key.String(), 0, a.save(key, "f", text("f")))
		diff(t, "keys", []string{"f"}, a.keys(key))
	}
	names := []string{
		"a", "A", "versions", "a/versions/0", "versions/0", "a.", "a..", ".new-x", ".old-x", "0", "a/0", "a/0/0", "a/1", "a/00", strings.Repeat("語", 80),
		"metadata.json", "50%", "a%2Fb", "a b", "a+b", "a?b#c", "ü", "u\u0308", "x\u00a0y", "q&=<>\"'",
	}
	for _, name := range names {
		diff(t, "version of "+name, 0, a.save(alice(), name, text(name)))
	}
	for _, name := range names {
		diff(t, name, name, a.load(alice(), name, -1).Text)
	}
	if got := a.keys(alice()); len(got) != len(names) {
		t.Errorf("Keys = %q", got)
	}
}

func (s *Suite) savesAtOnce(t *testing.T) {
	a := s.open(t, nil)
	const writers, each = 8, 4
	var wg sync.WaitGroup
	var mu sync.Mutex
	seen := map[int]string{}
	for i := range writers {
		wg.Go(func() {
			for j := range each {
				content := fmt.Sprint(i, j)
				n, err := a.Save(t.Context(), alice(), "a", text(content))
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				seen[n] = content
				mu.Unlock()
			}
			if err := a.Delete(t.Context(), alice(), "other/name"); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	versions, err := a.Versions(t.Context(), alice(), "a")
	if err != nil || len(versions) != writers*each || len(seen) != writers*each {
		t.Errorf("%d versions, %d numbers, %v", len(versions), len(seen), err)
	}
	for n, content := range seen {
		diff(t, fmt.Sprint("version ", n), content, a.load(alice(), "a", n).Text)
	}
}

func (s *Suite) copies(t *testing.T) {
	a := s.open(t, nil)
	b, custom := []byte("abc"), map[string]any{"k": "v"}
	part := &genai.Part{InlineData: &genai.Blob{Data: b, MIMEType: "x/y"}}
	if _, err := a.Create(t.Context(), alice(), &store.NewArtifact{Name: "a", Part: part, CustomMetadata: custom}); err != nil {
		t.Fatal(err)
	}
	b[0], custom["k"] = 'X', "X"
	a.load(alice(), "a", -1).InlineData.Data[1] = 'X'
	diff(t, "bytes", "abc", string(a.load(alice(), "a", -1).InlineData.Data))
	for range 2 {
		v, err := a.Version(t.Context(), alice(), "a", 0)
		if err != nil {
			t.Fatal(err)
		}
		diff(t, "metadata", map[string]any{"k": "v"}, v.CustomMetadata)
		v.CustomMetadata["k"] = "X"
	}
}

// absence is a version that loads as missing; what was there before it is there
// still.
func (s *Suite) absence(t *testing.T) {
	a := s.open(t, nil)
	a.save(alice(), "f", text("x"))
	a.save(alice(), "f", store.Absence())
	_, err := a.Load(t.Context(), alice(), "f", -1)
	wantErr(t, "the latest", err, wanted{session.ErrNotFound, "artifact not found: f"})
	_, err = a.Load(t.Context(), alice(), "f", 1)
	wantErr(t, "by its number", err, wanted{session.ErrNotFound, "artifact not found: f version 1"})
	diff(t, "before", "x", a.load(alice(), "f", 0).Text)
}

func (s *Suite) limits(t *testing.T) {
	a := s.open(t, &store.Options{MaxArtifactBytes: 8})
	a.save(alice(), "a", text("12345678"))
	_, err := a.Save(t.Context(), alice(), "a", text("123456789"))
	wantErr(t, "Save of a large one", err, wanted{session.ErrInvalid, `artifact "a" with 9 bytes exceeds the limit of 8 bytes`})
	diff(t, "kept", "12345678", a.load(alice(), "a", -1).Text)

	big := strings.Repeat("0123456789abcdef", 1<<16)
	b := s.open(t, nil)
	b.save(alice(), "big", &genai.Part{InlineData: &genai.Blob{MIMEType: "application/octet-stream", Data: []byte(big)}})
	if got := b.load(alice(), "big", -1).InlineData.Data; string(got) != big {
		t.Errorf("a megabyte came back as %d other bytes", len(got))
	}
}

// many: lists longer than a page are whole.
func (s *Suite) many(t *testing.T) {
	a := s.open(t, nil)
	var want []string
	for i := range 23 {
		name := fmt.Sprintf("n%02d", i)
		a.save(alice(), name, text("x"))
		want = append(want, name)
	}
	diff(t, "keys", want, a.keys(alice()))
}

// references: a part that names another artifact of the user loads as that one.
func (s *Suite) references(t *testing.T) {
	a := s.open(t, nil)
	refer := func(name, uri string) {
		a.save(alice(), name, &genai.Part{FileData: &genai.FileData{FileURI: uri, MIMEType: "text/plain"}})
	}
	a.save(alice(), "dir/note", text("mine"))
	a.save(alice(), "user:note", text("the user's"))
	refer("session", "artifact://apps/app/users/alice/sessions/s/artifacts/dir/note/versions/0")
	refer("user", "artifact://apps/app/users/alice/artifacts/user:note/versions/0")
	refer("twice", "artifact://apps/app/users/alice/sessions/s/artifacts/session/versions/0")
	refer("gone", "artifact://apps/app/users/alice/sessions/s/artifacts/none/versions/0")
	refer("self", "artifact://apps/app/users/alice/sessions/s/artifacts/self/versions/0")
	refer("other user", "artifact://apps/app/users/bob/sessions/s/artifacts/dir/note/versions/0")
	refer("other session", "artifact://apps/app/users/alice/sessions/t/artifacts/dir/note/versions/0")
	refer("broken", "artifact://apps/app")
	diff(t, "session", text("mine"), a.load(alice(), "session", -1))
	diff(t, "user", text("the user's"), a.load(alice(), "user", -1))
	diff(t, "twice", text("mine"), a.load(alice(), "twice", -1))
	for name, want := range map[string]wanted{
		"gone":          {session.ErrNotFound, "artifact not found: none version 0"},
		"self":          {session.ErrInvalid, `artifact "self": chain of references exceeds the limit of 5`},
		"other user":    {session.ErrInvalid, `artifact "other user": reference to another app or user not allowed`},
		"other session": {session.ErrInvalid, `artifact "other session": reference to another session not allowed`},
		"broken":        {session.ErrInvalid, `artifact "broken": invalid artifact reference "artifact://apps/app"`},
	} {
		_, err := a.Load(t.Context(), alice(), name, -1)
		wantErr(t, "Load of "+name, err, want)
	}
}
