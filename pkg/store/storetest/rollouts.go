package storetest

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"agenthost/pkg/session"
	"agenthost/pkg/store"
)

// A rollout comes back byte for byte, in each store on the database, with the version and the time
// of its last save.
func (su *Suite) testRolloutRoundTrip(t *testing.T) {
	now := time.Date(2026, 11, 27, 12, 0, 0, 123456789, time.UTC)
	all := su.openReplicas(t, 2, &store.Options{Clock: func() time.Time { return now }})
	_, err := all[0].Rollouts.Get(t.Context(), "app")
	wantErr(t, "Get before Save", err, wantedError{session.ErrNotFound, "rollout of app app is not stored"})
	r := &store.Rollout{App: "app", Data: []byte{0, 255, '\''}}
	for i, data := range [][]byte{{0, 255, '\''}, []byte(strings.Repeat("x", store.MaxRolloutBytes)), nil} {
		now = now.Add(-time.Hour)
		r.Data = data
		if err := all[i%2].Rollouts.Save(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		for _, s := range all {
			got, err := s.Rollouts.Get(t.Context(), "app")
			if err != nil {
				t.Fatal(err)
			}
			want := store.Rollout{App: "app", Version: int64(i + 1), Data: got.Data, Changed: now.Truncate(time.Microsecond)}
			diff(t, "rollout", want, *got)
			diff(t, "data", string(data), string(got.Data))
		}
		diff(t, "saved version", int64(i+1), r.Version)
		diff(t, "saved time", now.Truncate(time.Microsecond), r.Changed)
	}
	if err := all[1].Rollouts.Save(t.Context(), &store.Rollout{App: "App"}); err != nil {
		t.Errorf("Save of an app whose name differs in case = %v", err)
	}
}

// A save that names another version than the stored one changes nothing.
func (su *Suite) testRolloutStale(t *testing.T) {
	a, b := su.openPair(t)
	err := a.Rollouts.Save(t.Context(), &store.Rollout{App: "app", Version: 1, Data: []byte("lost")})
	wantErr(t, "Save of a missing one", err, wantedError{session.ErrStale, "rollout of app app changed since it was read: it was at version 1, now it is at 0"})
	r := &store.Rollout{App: "app", Data: []byte("kept")}
	for range 2 {
		if err := a.Rollouts.Save(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	for _, version := range []int64{0, 1, 3} {
		for _, s := range []*testStore{a, b} {
			late := &store.Rollout{App: "app", Version: version, Data: []byte("kept")}
			err := s.Rollouts.Save(t.Context(), late)
			wantErr(t, "stale Save", err, wantedError{session.ErrStale, fmt.Sprintf("it was at version %d, now it is at 2", version)})
			diff(t, "version after a stale Save", version, late.Version)
		}
	}
	got, err := b.Rollouts.Get(t.Context(), "app")
	if err != nil {
		t.Fatal(err)
	}
	diff(t, "rollout", store.Rollout{App: "app", Version: 2, Data: []byte("kept"), Changed: r.Changed}, *got)
}

// Of concurrent saves on one version exactly one succeeds, also if all store the same data.
func (su *Suite) testRolloutConcurrent(t *testing.T) {
	a, b := su.openPair(t)
	for version := range int64(4) {
		var saved atomic.Int64
		runConcurrently(t, 8, func(i int) error {
			s := []*testStore{a, b}[i%2]
			err := s.Rollouts.Save(t.Context(), &store.Rollout{App: "app", Version: version, Data: []byte("same")})
			switch {
			case err == nil:
				saved.Add(1)
			case !errors.Is(err, session.ErrStale):
				return err
			}
			return nil
		})
		diff(t, fmt.Sprint("saves of version ", version), int64(1), saved.Load())
	}
}

func (su *Suite) testRolloutInvalid(t *testing.T) {
	s := su.open(t, nil)
	for _, tt := range []struct {
		r    store.Rollout
		want string
	}{
		{store.Rollout{}, "app is required"},
		{store.Rollout{App: "a\x00b"}, `app "a\x00b" contains a NUL byte`},
		{store.Rollout{App: strings.Repeat("x", 129)}, "app exceeds the limit of 128 characters"},
		{store.Rollout{App: "app", Version: -1}, "version of a rollout must not be negative, got -1"},
		{store.Rollout{App: "app", Data: make([]byte, store.MaxRolloutBytes+1)}, "rollout of app app exceeds the limit of 64 KiB"},
	} {
		wantErr(t, "Save", s.Rollouts.Save(t.Context(), &tt.r), wantedError{session.ErrInvalid, tt.want})
	}
	_, err := s.Rollouts.Get(t.Context(), "")
	wantErr(t, "Get", err, wantedError{session.ErrInvalid, "app is required"})
}

func (su *Suite) testRolloutsClosed(t *testing.T) {
	s := su.open(t, nil)
	closeStore(t, s)
	_, err := s.Rollouts.Get(t.Context(), "app")
	for _, err := range []error{err, s.Rollouts.Save(t.Context(), &store.Rollout{App: "app"})} {
		if !errors.Is(err, store.ErrClosed) {
			t.Errorf("after Close: %v, want %v", err, store.ErrClosed)
		}
	}
}
