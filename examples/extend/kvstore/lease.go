package kvstore

import (
	"context"
	"time"

	"agenthost/pkg/session"
	"agenthost/pkg/store"
)

// AcquireLease implements [store.SessionBackend].
func (b *Sessions) AcquireLease(ctx context.Context, g *store.LeaseGrant) (holder string, err error) {
	var h *head
	err = b.updateRows(ctx, func(tx rows) error {
		holder = ""
		if h, err = tx.getHead(g.Key); err != nil {
			return err
		}
		if h.Until > g.Now.UnixNano() && h.Owner != g.Owner {
			holder = h.Owner
			return nil
		}
		h.grantLease(g)
		return tx.putHead(g.Key, h)
	})
	if err == nil {
		g.ID, g.Epoch = h.ID, h.Epoch
	}
	return holder, wrapDamage(g.Key, err)
}

// grantLease leases a session to the grant's owner.
func (h *head) grantLease(g *store.LeaseGrant) {
	h.Epoch++
	h.Owner, h.Until = g.Owner, g.Now.Add(g.Term).UnixNano()
}

// ReadLease implements [store.SessionBackend].
func (b *Sessions) ReadLease(ctx context.Context, key session.Key, now time.Time) (owner string, err error) {
	err = b.viewRows(ctx, func(tx rows) error {
		h, err := tx.getHead(key)
		if err == nil && h.Until > now.UnixNano() {
			owner = h.Owner
		}
		return err
	})
	return owner, wrapDamage(key, err)
}

// RenewLeases implements [store.SessionBackend].
func (b *Sessions) RenewLeases(ctx context.Context, all []*store.LeaseGrant) ([]*store.LeaseGrant, error) {
	return b.setLeaseEnds(ctx, all, func(g *store.LeaseGrant) time.Time { return g.Now.Add(g.Term) })
}

// ReleaseLeases implements [store.SessionBackend].
func (b *Sessions) ReleaseLeases(ctx context.Context, all []*store.LeaseGrant) error {
	_, err := b.setLeaseEnds(ctx, all, func(*store.LeaseGrant) time.Time { return time.Unix(0, 0) })
	return err
}

// setLeaseEnds sets when grants expire, and returns the lost ones.
func (b *Sessions) setLeaseEnds(ctx context.Context, all []*store.LeaseGrant, until func(*store.LeaseGrant) time.Time) (gone []*store.LeaseGrant, err error) {
	err = b.updateRows(ctx, func(tx rows) error {
		gone = nil
		for _, g := range all {
			h, err := tx.findHead(g.Key)
			if err != nil {
				return err
			}
			if h == nil || h.ID != g.ID || h.Epoch != g.Epoch {
				gone = append(gone, g)
				continue
			}
			h.Until = until(g).UnixNano()
			if err := tx.putHead(g.Key, h); err != nil {
				return err
			}
		}
		return nil
	})
	return gone, err
}
