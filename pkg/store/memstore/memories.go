package memstore

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"agenthost/pkg/session"
	"agenthost/pkg/store"
)

// Memories stores memories in process memory.
type Memories struct {
	mu     sync.RWMutex
	closed bool
	last   int64
	users  map[store.UserKey]*userMemories
}

// userMemories holds one user's memories.
type userMemories struct {
	all     map[int64]*memMemory
	numbers map[string]map[string]int64 // by session and id
	terms   map[string]map[int64]bool
}

type memMemory struct {
	*store.MemoryRecord
	number  int64
	session string
}

// NewMemories returns a backend without memories.
func NewMemories() *Memories { return &Memories{users: map[store.UserKey]*userMemories{}} }

// PutMemories implements [store.MemoryBackend].
func (m *Memories) PutMemories(_ context.Context, b *store.MemoryBatch) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return store.ErrClosed
	}
	mind := m.users[b.UserKey()]
	if mind == nil {
		mind = &userMemories{map[int64]*memMemory{}, map[string]map[string]int64{}, map[string]map[int64]bool{}}
		m.users[b.UserKey()] = mind
	}
	write, remove := b.DiffExisting(mind.findExisting(b))
	for _, id := range remove {
		mind.removeMemory(b.Key.ID, id)
	}
	for _, rec := range write {
		m.last++
		mind.addMemory(&memMemory{rec, m.last, b.Key.ID})
	}
	return nil
}

// findExisting returns the stored texts to compare a batch with, by id.
func (m *userMemories) findExisting(b *store.MemoryBatch) map[string]string {
	there, slot := map[string]string{}, m.numbers[b.Key.ID]
	if b.Prune {
		for id, number := range slot {
			there[id] = m.all[number].Text
		}
		return there
	}
	for _, rec := range b.Records {
		if number, ok := slot[rec.ID]; ok {
			there[rec.ID] = m.all[number].Text
		}
	}
	return there
}

func (m *userMemories) addMemory(mem *memMemory) {
	m.all[mem.number] = mem
	if m.numbers[mem.session] == nil {
		m.numbers[mem.session] = map[string]int64{}
	}
	m.numbers[mem.session][mem.ID] = mem.number
	for _, term := range mem.Terms {
		if m.terms[term] == nil {
			m.terms[term] = map[int64]bool{}
		}
		m.terms[term][mem.number] = true
	}
}

func (m *userMemories) removeMemory(sess, id string) {
	number := m.numbers[sess][id]
	for _, term := range m.all[number].Terms {
		if delete(m.terms[term], number); len(m.terms[term]) == 0 {
			delete(m.terms, term)
		}
	}
	delete(m.all, number)
	if delete(m.numbers[sess], id); len(m.numbers[sess]) == 0 {
		delete(m.numbers, sess)
	}
}

// DeleteUser implements [store.MemoryBackend].
func (m *Memories) DeleteUser(_ context.Context, who store.UserKey) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return store.ErrClosed
	}
	delete(m.users, who)
	return nil
}

// CountTerms implements [store.MemoryBackend].
func (m *Memories) CountTerms(_ context.Context, who store.UserKey, terms []string) (store.TermCounts, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.closed {
		return store.TermCounts{}, store.ErrClosed
	}
	t := store.TermCounts{ByTerm: map[string]int{}}
	if mind := m.users[who]; mind != nil {
		t.Total = len(mind.all)
		for _, term := range terms {
			t.ByTerm[term] = min(len(mind.terms[term]), store.ManyMemories+1)
		}
	}
	return t, nil
}

// SearchMemories implements [store.MemoryBackend].
func (m *Memories) SearchMemories(_ context.Context, s *store.MemorySearch) ([]*session.Memory, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.closed {
		return nil, store.ErrClosed
	}
	mind := m.users[s.Owner]
	if mind == nil {
		return nil, nil
	}
	points := map[int64]int64{}
	for _, w := range s.Weights {
		for number := range mind.terms[w.Term] {
			points[number] += w.Points
		}
	}
	var found []*memMemory
	for number := range points {
		if mem := mind.all[number]; s.NotSession == "" || mem.session != s.NotSession {
			found = append(found, mem)
		}
	}
	slices.SortFunc(found, func(a, b *memMemory) int {
		return cmp.Or(cmp.Compare(points[b.number], points[a.number]), cmp.Compare(b.Time, a.Time), cmp.Compare(b.number, a.number))
	})
	found = found[:min(len(found), s.Limit)]
	memories := make([]*session.Memory, len(found))
	for i, mem := range found {
		var err error
		if memories[i], err = store.DecodeMemory(mem.Text); err != nil {
			return nil, err
		}
	}
	return memories, nil
}

// Close closes the backend.
func (m *Memories) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	clear(m.users)
	return nil
}
