package memstore

import (
	"cmp"
	"context"
	"slices"
	"time"

	"agenthost/pkg/store"
)

// EarliestTime implements [store.SessionBackend].
func (m *Sessions) EarliestTime(_ context.Context, now time.Time) (time.Time, error) { return now, nil }

// FindExpired implements [store.SessionBackend]. It examines all sessions: in memory that costs
// less than an index at each append.
func (m *Sessions) FindExpired(_ context.Context, q store.ExpiryQuery) (*store.ExpiredPage, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.closed {
		return nil, store.ErrClosed
	}
	page := &store.ExpiredPage{}
	for key, s := range m.sessions {
		if key.App == q.App && q.IsExpired(s.created, s.Updated) {
			page.Sessions = append(page.Sessions, store.ExpiredSession{Key: key, ID: s.ID, Leased: s.lease.until.After(q.Now)})
		}
	}
	slices.SortFunc(page.Sessions, func(a, b store.ExpiredSession) int { return cmp.Compare(a.ID, b.ID) })
	return page, nil
}

// AcquireSweep implements [store.SessionBackend].
func (m *Sessions) AcquireSweep(_ context.Context, s store.Sweep) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return false, store.ErrClosed
	}
	if last, ok := m.sweeps[s.App]; ok && last.Owner != s.Owner && s.Now.Before(last.Now.Add(last.Term)) && !s.Now.Before(last.Now.Add(-s.Term)) {
		return false, nil
	}
	m.sweeps[s.App] = s
	return true, nil
}
