package storetest

import (
	"strings"
	"testing"
	"time"

	"agenthost/pkg/session"
	"agenthost/pkg/store"
)

func storeRevision(t testing.TB, s *testStore, ref string, keep int) {
	t.Helper()
	app, id, _ := strings.Cut(ref, "/")
	rev := &store.Revision{App: app, ID: id, Files: map[string][]byte{"root_agent.yaml": []byte("name: " + id), "prompts/x.md": {0, 255}}}
	if err := s.Revisions.Put(t.Context(), rev, keep); err != nil {
		t.Fatalf("Put(%s) = %v", id, err)
	}
}

// revisionIDs are an app's revision ids, the newest first.
func revisionIDs(t testing.TB, s *testStore, app string) string {
	t.Helper()
	all, err := s.Revisions.List(t.Context(), app)
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, rev := range all {
		ids = append(ids, rev.ID)
	}
	return strings.Join(ids, " ")
}

// A revision comes back byte for byte, by its id or an id prefix.
func (su *Suite) testRevisionRoundTrip(t *testing.T) {
	clock := func() time.Time { return time.Date(2026, 11, 21, 12, 0, 0, 123456789, time.UTC) }
	s := su.open(t, &store.Options{Clock: clock})
	storeRevision(t, s, "app/abc1", 20)
	storeRevision(t, s, "app/abd2", 20)
	storeRevision(t, s, "other/abc1", 20)
	got, err := s.Revisions.Get(t.Context(), "app", "abc")
	if err != nil {
		t.Fatal(err)
	}
	diff(t, "revision", &store.Revision{
		App: "app", ID: "abc1", Served: clock().Truncate(time.Microsecond),
		Files: map[string][]byte{"root_agent.yaml": []byte("name: abc1"), "prompts/x.md": {0, 255}},
	}, got)
	_, err = s.Revisions.Get(t.Context(), "app", "ab")
	wantErr(t, "two that begin so", err, wantedError{session.ErrNotFound, "revision prefix is ambiguous: 2 revisions of app app begin with ab"})
	for _, id := range []string{"x", ""} {
		_, err = s.Revisions.Get(t.Context(), "app", id)
		wantErr(t, "none that begins so", err, wantedError{session.ErrNotFound, "revision " + id + " of app app is not stored"})
	}
	err = s.Revisions.Put(t.Context(), &store.Revision{App: "app"}, 1)
	wantErr(t, "no id", err, wantedError{session.ErrInvalid, "app and id of a revision are required"})
}

// Revisions are ordered by when they were last served, independent of the clock, and
// only the newest are kept.
func (su *Suite) testRevisionOrder(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	s := su.open(t, &store.Options{Clock: func() time.Time { now = now.Add(-time.Second); return now }})
	for _, id := range []string{"a", "b", "c"} {
		storeRevision(t, s, "app/"+id, 3)
	}
	diff(t, "three", "c b a", revisionIDs(t, s, "app"))
	storeRevision(t, s, "app/a", 3)
	storeRevision(t, s, "app/a", 3)
	diff(t, "the first again", "a c b", revisionIDs(t, s, "app"))
	storeRevision(t, s, "other/z", 1)
	storeRevision(t, s, "app/d", 3)
	diff(t, "one more than are kept", "d a c", revisionIDs(t, s, "app"))
	storeRevision(t, s, "app/e", 1)
	diff(t, "only one is kept", "e", revisionIDs(t, s, "app"))
	diff(t, "another app", "z", revisionIDs(t, s, "other"))
}

func (su *Suite) testRevisionsClosed(t *testing.T) {
	s := su.open(t, nil)
	closeStore(t, s)
	if err := s.Revisions.Put(t.Context(), &store.Revision{App: "app", ID: "a"}, 1); err == nil {
		t.Error("Put on a closed store = nil")
	}
	if _, err := s.Revisions.Get(t.Context(), "app", "a"); err == nil || !strings.Contains(err.Error(), "store is closed") {
		t.Errorf("Get on a closed store = %v", err)
	}
}
