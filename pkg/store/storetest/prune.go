package storetest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"agenthost/pkg/session"
	"agenthost/pkg/store"
)

// Old sessions go with all that is theirs, whatever their number; younger ones,
// those of other apps, those that are run, and what belongs to the user stay.
func (su *Suite) testPrune(t *testing.T) {
	const old = 2*50 + 7
	day := time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)
	now := day
	s := su.open(t, &store.Options{Clock: func() time.Time { return now }})
	key := func(i int) session.Key { return session.Key{App: "app", User: "u", ID: fmt.Sprint(i)} }
	for i := range old {
		createSession(t, s, key(i), map[string]any{"k": i, "user:k": i})
		saveText(t, s, key(i), "note.txt")
	}
	saveText(t, s, key(0), "user:note.txt")
	createSession(t, s, session.Key{App: "other", User: "u", ID: "x"}, nil)
	running, spoken := key(3), key(5)
	release := acquire(t, s.Sessions, running)
	now = day.Add(48 * time.Hour)
	appendEvent(t, s, getSession(t, s, spoken, nil), textEvent("user", "still here"))
	young := createSession(t, s, session.Key{App: "app", User: "u", ID: "young"}, nil)

	var reported []session.Key
	req := &store.PruneRequest{App: "app", Before: day.Add(24 * time.Hour), DryRun: true, Each: func(k session.Key) { reported = append(reported, k) }}
	wantPruned(t, s, req, old-2)
	if len(reported) != old-2 || slices.Contains(reported, running) {
		t.Errorf("reported %d sessions", len(reported))
	}
	req.DryRun = false
	wantPruned(t, s, req, old-2)
	wantPruned(t, s, req, 0)
	release()
	wantPruned(t, s, req, 1)

	list, err := s.Sessions.List(t.Context(), "app", "")
	if err != nil || len(list) != 2 || list[0].ID != spoken.ID || list[1].ID != young.ID {
		t.Errorf("%d sessions are left, %v", len(list), err)
	}
	for k, want := range map[session.Key]int{key(0): 1, spoken: 2} {
		if names, err := s.Artifacts.Keys(t.Context(), k); err != nil || len(names) != want {
			t.Errorf("artifacts of %s = %v, %v, want %d", k.ID, names, err, want)
		}
	}
}

func wantPruned(t *testing.T, s *testStore, req *store.PruneRequest, want int) {
	t.Helper()
	if n, err := s.Prune(t.Context(), req); err != nil || n != want {
		t.Errorf("Prune = %d, %v, want %d", n, err, want)
	}
}

func saveText(t *testing.T, s *testStore, key session.Key, name string) {
	t.Helper()
	if _, err := s.Artifacts.Save(t.Context(), key, name, textPart("text")); err != nil {
		t.Fatal(err)
	}
}
