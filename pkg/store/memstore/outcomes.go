package memstore

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"agenthost/pkg/session"
	"agenthost/pkg/store"
	"agenthost/pkg/store/backend"
)

// setOutcome sets the outcome that the next event has. The outcomes that it follows stay: that of the event
// that it names, and those before.
func (s *memSession) setOutcome(text []byte) {
	previous := session.PreviousOutcome(text)
	for n := len(s.past); n > 0 && s.past[n-1].version > previous; n-- {
		s.spare, s.past = s.past[n-1].text, s.past[:n-1]
	}
	if len(s.outcome) > 0 && previous == s.Version {
		s.past = append(s.past, pastOutcome{s.Version, s.outcome})
		s.outcome, s.spare = s.spare, nil
	}
	if s.outcome == nil && len(s.past) == 0 {
		s.outcome = s.room[:0]
	}
	s.outcome = append(s.outcome[:0], text...)
}

// ListOutcomes implements [store.OutcomeBackend].
func (m *Sessions) ListOutcomes(_ context.Context, q store.OutcomeQuery) ([]*store.SessionOutcomes, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.closed {
		return nil, store.ErrClosed
	}
	var keys []session.Key
	for key, s := range m.sessions {
		if key.App == q.App && (q.User == "" || key.User == q.User) && (q.Before == 0 || s.ID < q.Before) && s.ID > q.After {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, func(a, b session.Key) int { return cmp.Compare(m.sessions[b].ID, m.sessions[a].ID) })
	if q.Ascending {
		slices.Reverse(keys)
	}
	all := make([]*store.SessionOutcomes, min(len(keys), q.Limit))
	for i := range all {
		all[i] = m.sessions[keys[i]].readOutcomes(keys[i])
	}
	return all, nil
}

// readOutcomes returns the session's outcomes, and its feedback without comments.
func (s *memSession) readOutcomes(key session.Key) *store.SessionOutcomes {
	one := &store.SessionOutcomes{Key: key, ID: s.ID, Created: s.created, Feedback: slices.Clone(s.feedback)}
	for i := range one.Feedback {
		one.Feedback[i].Comment = ""
	}
	one.AddOutcome(s.outcome)
	for _, past := range slices.Backward(s.past) {
		one.AddOutcome(past.text)
	}
	return one
}

// PutFeedback implements [store.OutcomeBackend].
func (m *Sessions) PutFeedback(_ context.Context, key session.Key, f store.Feedback, most int) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return store.ErrClosed
	}
	s, ok := m.sessions[key]
	if !ok {
		return backend.SessionNotFound(key.ID)
	}
	at, found := slices.BinarySearchFunc(s.feedback, f, func(a, b store.Feedback) int {
		return cmp.Or(strings.Compare(a.Invocation, b.Invocation), strings.Compare(a.Caller, b.Caller))
	})
	if found {
		s.feedback[at] = f
		return nil
	}
	callers := 0
	for _, other := range s.feedback {
		if other.Invocation == f.Invocation {
			callers++
		}
	}
	if callers >= most {
		return store.TooMuchFeedback(most)
	}
	s.feedback = slices.Insert(s.feedback, at, f)
	return nil
}

// ListFeedback implements [store.OutcomeBackend].
func (m *Sessions) ListFeedback(_ context.Context, key session.Key) ([]store.Feedback, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.closed {
		return nil, store.ErrClosed
	}
	s, ok := m.sessions[key]
	if !ok {
		return nil, backend.SessionNotFound(key.ID)
	}
	return slices.Clone(s.feedback), nil
}

// DeleteCounted implements [store.OutcomeBackend].
func (m *Sessions) DeleteCounted(_ context.Context, key session.Key, r store.OutcomeRetention) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return store.ErrClosed
	}
	s, ok := m.sessions[key]
	if !ok {
		return nil
	}
	for _, day := range s.readOutcomes(key).CountDays(r) {
		all := m.days[key.App]
		at, found := slices.BinarySearchFunc(all, day.Day, compareDays)
		if !found {
			all = slices.Insert(all, at, &store.OutcomeDay{Day: day.Day})
		}
		all[at].AddDay(day)
		m.days[key.App] = all
	}
	delete(m.sessions, key)
	return nil
}

func compareDays(d *store.OutcomeDay, day int64) int { return cmp.Compare(d.Day, day) }

// ListOutcomeDays implements [store.OutcomeBackend].
func (m *Sessions) ListOutcomeDays(_ context.Context, q store.OutcomeDayQuery) (page []*store.OutcomeDay, err error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.closed {
		return nil, store.ErrClosed
	}
	for _, d := range slices.Backward(m.days[q.App]) {
		if d.Day < q.From || len(page) == q.Limit {
			break
		}
		if d.Day < q.Before {
			c := &store.OutcomeDay{Day: d.Day} // a copy that later deletions do not change
			c.AddDay(d)
			page = append(page, c)
		}
	}
	return page, nil
}

// DeleteOutcomeDays implements [store.OutcomeBackend].
func (m *Sessions) DeleteOutcomeDays(_ context.Context, app string, before int64) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return 0, store.ErrClosed
	}
	n, _ := slices.BinarySearchFunc(m.days[app], before, compareDays)
	m.days[app] = slices.Delete(m.days[app], 0, n)
	return n, nil
}
