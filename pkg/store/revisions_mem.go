package store

import (
	"context"
	"slices"
	"sync"
)

// memRevisions stores revisions in the memory of the process, by app in the
// order in which they served.
type memRevisions struct {
	sessions backend // closed when they are
	mu       sync.Mutex
	apps     map[string][]*packedRevision
}

func (m *memRevisions) putRevision(ctx context.Context, rev *packedRevision, keep int) error {
	if err := m.sessions.ping(ctx); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	all, newest := m.apps[rev.app], &packedRevision{}
	if n := len(all); n > 0 {
		newest = all[n-1]
	}
	if newest.id == rev.id {
		return nil
	}
	rev.served = nextServedTime(newest.served, rev.served)
	all = slices.DeleteFunc(all, func(old *packedRevision) bool { return old.id == rev.id })
	all = append(all, rev)
	m.apps[rev.app] = all[max(0, len(all)-keep):]
	return nil
}

func (m *memRevisions) getRevision(ctx context.Context, app, id string) (*packedRevision, error) {
	all, err := m.listRevisions(ctx, app)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(all, func(rev *packedRevision) bool { return rev.id == id })
	if i < 0 {
		return nil, errNoRevision(app, id)
	}
	return all[i], nil
}

func (m *memRevisions) listRevisions(ctx context.Context, app string) ([]*packedRevision, error) {
	if err := m.sessions.ping(ctx); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	all := slices.Clone(m.apps[app])
	slices.Reverse(all)
	return all, nil
}
