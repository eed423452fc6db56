package storetest

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"agenthost/pkg/connection"
)

// A grant comes back as it was stored. A change requires the stored version, only one concurrent
// change succeeds, and only expired consents are deleted.
func (su *Suite) testGrants(t *testing.T) {
	s := su.open(t, nil)
	g := &connection.Grant{
		ID: "a", User: connection.User{App: "shop", UserID: "Ana"}, Connection: "crm", Version: 1,
		BusyUntil: time.UnixMicro(5).UTC(), Sealed: []byte("\x00sealed\xff"),
	}
	swap := func(g *connection.Grant, want bool) {
		t.Helper()
		if ok, err := s.Grants.SwapGrant(t.Context(), g); ok != want || err != nil {
			t.Errorf("SwapGrant(version %d) = %v, %v, want %v", g.Version, ok, err, want)
		}
	}
	swap(g, true)
	swap(g, false)
	got, err := s.Grants.GetGrant(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	diff(t, "grant", g, got)
	var won atomic.Int32
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() {
			next := *g
			next.Version, next.Sealed, next.BusyUntil = 2, []byte("next"), time.Time{}
			ok, err := s.Grants.SwapGrant(t.Context(), &next)
			if err != nil {
				t.Error(err)
			}
			if ok {
				won.Add(1)
			}
		})
	}
	wg.Wait()
	diff(t, "successful changes", int32(1), won.Load())
	swap(&connection.Grant{ID: "c", Version: 1, Expires: time.UnixMicro(9), Sealed: []byte("x")}, true)
	swap(&connection.Grant{ID: "d", Version: 1, Expires: time.UnixMicro(99), Sealed: []byte("x")}, true)
	if err := s.Grants.DeleteExpired(t.Context(), time.UnixMicro(50)); err != nil {
		t.Fatal(err)
	}
	for id, version := range map[string]int64{"a": 2, "c": 0, "d": 1} {
		got, err := s.Grants.GetGrant(t.Context(), id)
		if err != nil || (got == nil) != (version == 0) || got != nil && got.Version != version {
			t.Errorf("GetGrant(%s) = %+v, %v, want version %d", id, got, err, version)
		}
	}
	for _, tt := range []struct {
		version int64
		want    bool
	}{{1, false}, {2, true}, {2, false}} {
		if ok, err := s.Grants.DeleteGrant(t.Context(), "a", tt.version); ok != tt.want || err != nil {
			t.Errorf("DeleteGrant(version %d) = %v, %v, want %v", tt.version, ok, err, tt.want)
		}
	}
}
