package store_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"agenthost/pkg/session"
	"agenthost/pkg/store"
	"agenthost/pkg/store/memstore"
)

// stuckArtifacts cannot list one session's artifacts.
type stuckArtifacts struct {
	store.ArtifactBackend
	id string
}

func (a stuckArtifacts) ListNames(ctx context.Context, app, user, id string) ([]string, error) {
	if id == a.id {
		return nil, errors.New("permission denied")
	}
	return a.ArtifactBackend.ListNames(ctx, app, user, id)
}

// TestPruneFailingSession: sessions that cannot be deleted do not stop the others, which may
// be on later pages, and the error names the first one.
func TestPruneFailingSession(t *testing.T) {
	now := time.Date(2020, 11, 21, 0, 0, 0, 0, time.UTC)
	backends := memstore.NewBackends()
	backends.Artifacts = stuckArtifacts{backends.Artifacts, "s1"}
	s := store.New(backends, &store.Options{Clock: func() time.Time { return now }})
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	const sessions = 250
	for i := range sessions {
		createSession(t, s, session.Key{App: "app", User: "u", ID: fmt.Sprint("s", i)}, nil)
	}
	now = now.Add(48 * time.Hour)
	for _, want := range []int{sessions - 1, 0} {
		n, err := s.Prune(t.Context(), &store.PruneRequest{App: "app", Age: 24 * time.Hour})
		if n != want || err == nil || err.Error() != "deleting session app/u/s1: permission denied" {
			t.Errorf("Prune = %d, %v, want %d", n, err, want)
		}
	}
}
