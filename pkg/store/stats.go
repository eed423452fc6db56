package store

import (
	"slices"
	"strings"
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

// A WriteCounter is a [SessionBackend] that counts its writes, see [Stats].
type WriteCounter interface {
	CountWrites() (writes, transactions, queued int64)
}

// Stats returns the statistics of the store.
func (s *Store) Stats() Stats {
	all := s.Sessions
	st := Stats{
		CacheHits: all.cache.hits.Load(), CacheMisses: all.cache.misses.Load(),
		Queue: all.runs.waits.readWaits(), Lease: all.leases.waits.readWaits(),
	}
	st.CacheSessions, st.CacheBytes = all.cache.size()
	if b, ok := all.backend.(WriteCounter); ok {
		st.Writes, st.Transactions, st.Queued = b.CountWrites()
	}
	return st
}

// Redacted returns a URL without user, password and parameters, for messages
// and logs. It accepts any string.
func Redacted(text string) string {
	scheme, rest, ok := strings.Cut(text, ":")
	if !ok {
		scheme, rest = "", text
	}
	slashes := ""
	if strings.HasPrefix(rest, "//") {
		slashes, rest = "//", rest[2:]
	}
	// A password may contain any character unescaped: the last @ ends it.
	if i := strings.LastIndex(rest, "@"); i >= 0 && !isFileURL(scheme, rest) {
		rest = "***@" + rest[i+1:]
	}
	if where, _, ok := strings.Cut(rest, "?"); ok {
		rest = where + "?…"
	}
	if ok {
		return scheme + ":" + slashes + rest
	}
	return rest
}

// isFileURL reports whether a URL names a file. Its path may contain an @.
func isFileURL(scheme, rest string) bool {
	return strings.HasPrefix(rest, "/") && slices.Contains([]string{"sqlite", "sqlite+aiosqlite", "dir"}, scheme)
}
