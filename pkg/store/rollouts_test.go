package store_test

import (
	"errors"
	"testing"

	"agenthost/pkg/store"
	"agenthost/pkg/store/memstore"
)

// A store without a backend for rollouts reports it.
func TestNoRollouts(t *testing.T) {
	b := memstore.NewBackends()
	b.Rollouts = nil
	s := store.New(b, nil)
	defer s.Close()
	_, err := s.Rollouts.Get(t.Context(), "app")
	for _, err := range []error{err, s.Rollouts.Save(t.Context(), &store.Rollout{App: "app"})} {
		if !errors.Is(err, store.ErrNoRollouts) || err.Error() != "the session database does not support rollouts" {
			t.Errorf("without a backend: %v, want %v", err, store.ErrNoRollouts)
		}
	}
}
