package store

import (
	"sync/atomic"
	"time"
)

// Stats are counters since the store was opened, and current values.
type Stats struct {
	// CacheHits and CacheMisses count session reads with and without a cached
	// history. CacheSessions and CacheBytes are the current contents of the
	// cache.
	CacheHits, CacheMisses    int64
	CacheSessions, CacheBytes int64
	// Queue counts waits for other runs in this store, Lease waits for sessions
	// leased to another store.
	Queue, Lease Waits
	// Writes are committed in Transactions, many in one transaction under load
	// (group commit). Queued is the current number of waiting writes. All are 0
	// for sessions in memory.
	Writes, Transactions, Queued int64
}

// Waits are counters of one kind of wait.
type Waits struct {
	// Now is the number of current waits. Ended counts finished waits, and Took
	// is their total duration.
	Now, Ended int64
	Took       time.Duration
}

// A meter counts waits. It is safe for concurrent use.
type meter struct{ now, ended, took atomic.Int64 }

// startWait counts a wait until end is called.
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

// Stats returns the statistics of the store.
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

// size returns the number of cached sessions and their bytes.
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
