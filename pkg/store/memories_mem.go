package store

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"agenthost/pkg/session"
)

// memMemories stores memories in the memory of the process.
type memMemories struct {
	mu     sync.RWMutex
	closed bool
	last   int64
	users  map[userKey]*userMemories
}

// userMemories holds the memories of one user.
type userMemories struct {
	all     map[int64]*memMemory
	numbers map[string]map[string]int64 // by session and id
	terms   map[string]map[int64]bool
}

type memMemory struct {
	*memoryRecord
	number  int64
	session string
}

func newMemMemories() *memMemories { return &memMemories{users: map[userKey]*userMemories{}} }

func (m *memMemories) putMemories(_ context.Context, b *memoryBatch) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return errClosed
	}
	mind := m.users[b.userKey()]
	if mind == nil {
		mind = &userMemories{map[int64]*memMemory{}, map[string]map[string]int64{}, map[string]map[int64]bool{}}
		m.users[b.userKey()] = mind
	}
	write, remove := b.diffExisting(mind.findExisting(b))
	for _, id := range remove {
		mind.removeMemory(b.key.ID, id)
	}
	for _, rec := range write {
		m.last++
		mind.addMemory(&memMemory{rec, m.last, b.key.ID})
	}
	return nil
}

// findExisting returns the stored texts to compare a batch with, by id.
func (m *userMemories) findExisting(b *memoryBatch) map[string]string {
	there, slot := map[string]string{}, m.numbers[b.key.ID]
	if b.prune {
		for id, number := range slot {
			there[id] = m.all[number].text
		}
		return there
	}
	for _, rec := range b.records {
		if number, ok := slot[rec.id]; ok {
			there[rec.id] = m.all[number].text
		}
	}
	return there
}

func (m *userMemories) addMemory(mem *memMemory) {
	m.all[mem.number] = mem
	if m.numbers[mem.session] == nil {
		m.numbers[mem.session] = map[string]int64{}
	}
	m.numbers[mem.session][mem.id] = mem.number
	for _, term := range mem.terms {
		if m.terms[term] == nil {
			m.terms[term] = map[int64]bool{}
		}
		m.terms[term][mem.number] = true
	}
}

func (m *userMemories) removeMemory(sess, id string) {
	number := m.numbers[sess][id]
	for _, term := range m.all[number].terms {
		if delete(m.terms[term], number); len(m.terms[term]) == 0 {
			delete(m.terms, term)
		}
	}
	delete(m.all, number)
	if delete(m.numbers[sess], id); len(m.numbers[sess]) == 0 {
		delete(m.numbers, sess)
	}
}

func (m *memMemories) deleteUser(_ context.Context, who userKey) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return errClosed
	}
	delete(m.users, who)
	return nil
}

func (m *memMemories) countTerms(_ context.Context, who userKey, terms []string) (termCounts, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.closed {
		return termCounts{}, errClosed
	}
	t := termCounts{byTerm: map[string]int{}}
	if mind := m.users[who]; mind != nil {
		t.total = len(mind.all)
		for _, term := range terms {
			t.byTerm[term] = min(len(mind.terms[term]), manyMemories+1)
		}
	}
	return t, nil
}

func (m *memMemories) searchMemories(_ context.Context, s *memorySearch) ([]*session.Memory, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.closed {
		return nil, errClosed
	}
	mind := m.users[s.owner]
	if mind == nil {
		return nil, nil
	}
	points := map[int64]int64{}
	for _, w := range s.weights {
		for number := range mind.terms[w.term] {
			points[number] += w.points
		}
	}
	var found []*memMemory
	for number := range points {
		if mem := mind.all[number]; s.not == "" || mem.session != s.not {
			found = append(found, mem)
		}
	}
	slices.SortFunc(found, func(a, b *memMemory) int {
		return cmp.Or(cmp.Compare(points[b.number], points[a.number]), cmp.Compare(b.time, a.time), cmp.Compare(b.number, a.number))
	})
	found = found[:min(len(found), s.limit)]
	memories := make([]*session.Memory, len(found))
	for i, mem := range found {
		var err error
		if memories[i], err = decodeMemory(mem.text); err != nil {
			return nil, err
		}
	}
	return memories, nil
}

func (m *memMemories) close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	clear(m.users)
	return nil
}
