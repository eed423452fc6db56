package memstore

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"strings"

	"agenthost/pkg/session"
	"agenthost/pkg/store"
	"agenthost/pkg/store/backend"
)

// setOutcome sets the outcome that the next event has. One that follows the last event begins a new
// one, and the last event's stays.
func (s *memSession) setOutcome(text []byte) {
	if len(s.outcome) > 0 && session.PreviousOutcome(text) == s.Version {
		s.past = append(s.past, bytes.Clone(s.outcome))
	}
	if s.outcome == nil {
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
		s := m.sessions[keys[i]]
		all[i] = &store.SessionOutcomes{Key: keys[i], ID: s.ID, Created: s.created, Feedback: slices.Clone(s.feedback)}
		for j := range all[i].Feedback {
			all[i].Feedback[j].Comment = ""
		}
		all[i].AddOutcome(s.outcome)
		for _, text := range slices.Backward(s.past) {
			all[i].AddOutcome(text)
		}
	}
	return all, nil
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
