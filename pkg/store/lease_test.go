package store_test

import (
	"context"
	"testing"
	"time"

	"agenthost/pkg/store"
	"agenthost/pkg/store/memstore"
)

// A panickingBackend panics at its first renewal.
type panickingBackend struct {
	store.SessionBackend
	renewed chan int
	n       int
}

func (b *panickingBackend) RenewLeases(ctx context.Context, all []*store.LeaseGrant) ([]*store.LeaseGrant, error) {
	b.n++
	select {
	case b.renewed <- b.n:
	default:
	}
	if b.n == 1 {
		panic("nil map")
	}
	return b.SessionBackend.RenewLeases(ctx, all)
}

// TestLeaseRenewalPanics: leases are renewed on after a panic.
func TestLeaseRenewalPanics(t *testing.T) {
	backends := memstore.NewBackends()
	b := &panickingBackend{SessionBackend: backends.Sessions, renewed: make(chan int, 10)}
	backends.Sessions, backends.Unshared = b, false
	s := store.New(backends, &store.Options{Lease: 300 * time.Millisecond})
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	createSession(t, s, alice, nil)
	_, free, err := s.Sessions.Acquire(t.Context(), alice, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer free()
	for range 2 {
		select {
		case <-b.renewed:
		case <-time.After(10 * time.Second):
			t.Fatal("no lease is renewed after the panic")
		}
	}
}
