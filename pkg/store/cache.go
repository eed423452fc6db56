package store

import (
	"container/list"
	"sync"
	"sync/atomic"

	"agenthost/pkg/session"
)

// The cache makes a turn cost the same in a short and in a long session: the backend reads the
// head, the state, and the events after the cached ones.
//
// An event never changes once it has its sequence number, so an entry is valid forever as a
// prefix. It only falls behind, when another store appends. Each read names the entry's version
// with the id of its last event, and the backend answers with the rest. If that id is not at that
// version, the database was restored from a backup, and the backend sends the whole session.
//
// Invariants:
//   - entry.history has exactly the events 1 … version, in order; appendEvents skips those that it
//     has, because two readers may bring the same ones.
//   - The head id belongs to one session for good. A session that was deleted and created again
//     has another id, and replaces the entry.
//   - Readers share the history, which only grows. Each has its own version and state. State is
//     never cached, since app: and user: keys change in other sessions.
//   - bytes is the sum of all entries, including what others derive from a history
//     (session.History.Derive), which is counted when the entry is used next.
//
// Two locks: cache.mu guards the order and the sizes and is held for moments; cacheEntry.mu guards
// one history. No code takes cache.mu while it has an entry's lock.

// entryBytes is what a cached session costs in memory without its events.
const entryBytes = 1024

// A cache is an LRU cache for session histories, limited by bytes. It keeps the most recent session
// whatever its size.
type cache struct {
	maxBytes     int64
	hits, misses atomic.Int64

	mu    sync.Mutex
	bytes int64
	byKey map[session.Key]*list.Element
	order *list.List // of *cacheEntry, most recently used first
}

// A cacheEntry is a session's history up to a version.
type cacheEntry struct {
	key     session.Key
	id      int64 // id of the session's head
	history *session.History
	// Guarded by cache.mu.
	bytes   int64
	derived int64 // part of bytes: the values derived from the history
	cached  bool

	mu      sync.Mutex
	version int64
	epoch   int64 // lease epoch of the last append by this store; 0 is unknown
}

func newCache(most int64) *cache {
	return &cache{maxBytes: most, byKey: map[session.Key]*list.Element{}, order: list.New()}
}

// get returns a session's entry, or nil.
func (c *cache) get(key session.Key) *cacheEntry {
	c.mu.Lock()
	defer c.mu.Unlock()
	el, ok := c.byKey[key]
	if !ok {
		return nil
	}
	c.order.MoveToFront(el)
	e := el.Value.(*cacheEntry)
	c.addBytes(e, 0)
	return e
}

// addBytes adds bytes to an entry, and accounts for values derived from its
// history since its last use. The caller holds the lock.
func (c *cache) addBytes(e *cacheEntry, bytes int64) {
	derived := e.history.DerivedBytes()
	bytes += derived - e.derived
	e.derived = derived
	e.bytes += bytes
	c.bytes += bytes
	c.evictOldest()
}

// put caches a session that was read completely. If another reader was faster,
// its entry is updated and returned.
func (c *cache) put(key session.Key, s *Snapshot) *cacheEntry {
	e, fresh := c.insertEntry(key, s)
	if !fresh {
		c.appendNew(e, s.Events)
	}
	return e
}

func (c *cache) insertEntry(key session.Key, s *Snapshot) (e *cacheEntry, fresh bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if el, ok := c.byKey[key]; ok && el.Value.(*cacheEntry).id == s.ID {
		return el.Value.(*cacheEntry), false
	}
	c.removeEntry(key)
	e = newCacheEntry(key, s)
	c.byKey[key], e.cached = c.order.PushFront(e), true
	c.bytes += e.bytes
	c.evictOldest()
	return e, true
}

func newCacheEntry(key session.Key, s *Snapshot) *cacheEntry {
	e := &cacheEntry{key: key, id: s.ID, version: s.Version, bytes: entryBytes}
	events := make([]*session.Event, len(s.Events))
	var text int64
	for i, st := range s.Events {
		events[i] = st.Event
		e.bytes += st.CacheBytes
		text += st.TextBytes
	}
	e.history = session.NewHistory(events)
	e.history.AddBytes(text)
	return e
}

// drop removes a session from the cache.
func (c *cache) drop(key session.Key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.removeEntry(key)
}

// appendNew adds the events that an entry does not have yet.
func (c *cache) appendNew(e *cacheEntry, events []StoredEvent) {
	if len(events) == 0 {
		return
	}
	bytes := e.appendEvents(events)
	c.mu.Lock()
	defer c.mu.Unlock()
	if e.cached {
		c.addBytes(e, bytes)
	}
}

// evictOldest evicts the least recently used entries until the cache is within
// its limit. The caller holds the lock.
func (c *cache) evictOldest() {
	for c.bytes > c.maxBytes && c.order.Len() > 1 {
		c.removeEntry(c.order.Back().Value.(*cacheEntry).key)
	}
}

func (c *cache) removeEntry(key session.Key) {
	el, ok := c.byKey[key]
	if !ok {
		return
	}
	delete(c.byKey, key)
	e := c.order.Remove(el).(*cacheEntry)
	e.cached = false
	c.bytes -= e.bytes
}

// lastEvent returns the number and the id of the last cached event.
func (e *cacheEntry) lastEvent() (seq int64, id string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.version == 0 {
		return 0, ""
	}
	return e.version, e.history.Events()[e.version-1].ID
}

// lastLease returns the head id and the last known lease epoch of a session; 0 is unknown.
func (c *cache) lastLease(key session.Key) (id, epoch int64) {
	e := c.get(key)
	if e == nil {
		return 0, 0
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.id, e.epoch
}

func (e *cacheEntry) recordEpoch(epoch int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.epoch = max(e.epoch, epoch)
}

// appendEvents appends the events that directly follow the cached ones, and
// returns their bytes.
func (e *cacheEntry) appendEvents(events []StoredEvent) int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	var bytes int64
	for _, st := range events {
		if st.Event.Seq == e.version+1 {
			e.history.Append(st.Event)
			e.history.AddBytes(st.TextBytes)
			e.version++
			bytes += st.CacheBytes
		}
	}
	return bytes
}

// size returns the number of cached sessions and their bytes.
func (c *cache) size() (sessions, bytes int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return int64(c.order.Len()), c.bytes
}
