package store

import (
	"sync/atomic"
	"time"
)

// Stats is what a store has done since it was opened, and what it does now.
type Stats struct {
	// CacheHits and CacheMisses count sessions that were read with their history
	// at hand, or not. CacheSessions and CacheBytes are what is at hand now.
	CacheHits, CacheMisses    int64
	CacheSessions, CacheBytes int64
	// Queue are waits behind other runs of this store, Lease those for sessions
	// that another store has.
	Queue, Lease Waits
	// Writes are carried out in Transactions, many in one when many come at once.
	// Queued wait now. All are 0 for sessions in memory.
	Writes, Transactions, Queued int64
}

// Waits are those for one thing.
type Waits struct {
	// Now is how many wait. Ended counts those that have ended, and Took is how
	// long those took together.
	Now, Ended int64
	Took       time.Duration
}

// A meter counts waits. Many goroutines may use it.
type meter struct{ now, ended, took atomic.Int64 }

// startWait counts a wait, until end is called.
func (m *meter) startWait() (end func()) {
	m.now.Add(1)
	began := time.Now()
	return func() {
		m.now.Add(-1)
		m.ended.Add(1)
		m.took.Add(int64(time.Since(began)))
	}
}

func (m *meter) readWaits() Waits {
	return Waits{Now: m.now.Load(), Ended: m.ended.Load(), Took: time.Duration(m.took.Load())}
}

// Stats returns what the store has done so far.
func (s *Store) Stats() Stats {
	all := s.Sessions
	st := Stats{
		CacheHits: all.cache.hits.Load(), CacheMisses: all.cache.misses.Load(),
		Queue: all.runs.waits.readWaits(), Lease: all.leases.waits.readWaits(),
	}
	st.CacheSessions, st.CacheBytes = all.cache.size()
	if b, ok := all.backend.(*sqlBackend); ok {
		for _, w := range b.writers {
			st.Writes += w.jobs.Load()
			st.Transactions += w.batches.Load()
			st.Queued += w.queueLength()
		}
	}
	return st
}

// size is how many sessions there are, and their bytes.
func (c *cache) size() (sessions, bytes int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return int64(c.order.Len()), c.bytes
}

func (w *writer) queueLength() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return int64(len(w.queue))
}
