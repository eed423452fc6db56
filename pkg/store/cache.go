package store

import (
	"container/list"
	"sync"
	"sync/atomic"

	"agenthost/pkg/session"
)

// entryBytes is what a cached session takes beside its events.
const entryBytes = 1024

// A cache holds the histories of recent sessions, bounded by bytes; the latest
// one stays whatever its size.
type cache struct {
	maxBytes     int64
	hits, misses atomic.Int64

	mu    sync.Mutex
	bytes int64
	byKey map[session.Key]*list.Element
	order *list.List // of *entry, the latest in front
}

// An entry is a session's history up to a version.
type cacheEntry struct {
	key     session.Key
	id      int64 // of the head
	history *session.History
	// The cache guards these: its bytes, and whether it has the entry still.
	bytes   int64
	derived int64 // of bytes, those of what was derived from the history
	cached  bool

	mu      sync.Mutex
	version int64
	epoch   int64 // of the last lease under which was appended here; 0 is unknown
}

func newCache(most int64) *cache {
	return &cache{maxBytes: most, byKey: map[session.Key]*list.Element{}, order: list.New()}
}

// get returns the entry of a session, or nil.
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

// addBytes counts bytes of an entry, and what runs have derived from its history since
// it was used last. The caller holds the lock.
func (c *cache) addBytes(e *cacheEntry, bytes int64) {
	derived := e.history.DerivedBytes()
	bytes += derived - e.derived
	e.derived = derived
	e.bytes += bytes
	c.bytes += bytes
	c.evictOldest()
}

// put makes the entry of a session that was read whole. When another reader
// was faster, theirs is brought up to date and returned.
func (c *cache) put(key session.Key, s *snapshot) *cacheEntry {
	e, fresh := c.insertEntry(key, s)
	if !fresh {
		c.appendNew(e, s.events)
	}
	return e
}

func (c *cache) insertEntry(key session.Key, s *snapshot) (e *cacheEntry, fresh bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if el, ok := c.byKey[key]; ok && el.Value.(*cacheEntry).id == s.id {
		return el.Value.(*cacheEntry), false
	}
	c.removeEntry(key)
	e = newCacheEntry(key, s)
	c.byKey[key], e.cached = c.order.PushFront(e), true
	c.bytes += e.bytes
	c.evictOldest()
	return e, true
}

func newCacheEntry(key session.Key, s *snapshot) *cacheEntry {
	e := &cacheEntry{key: key, id: s.id, version: s.version, bytes: entryBytes}
	events := make([]*session.Event, len(s.events))
	var text int64
	for i, st := range s.events {
		events[i] = st.event
		e.bytes += st.cost
		text += st.text
	}
	e.history = session.NewHistory(events)
	e.history.AddBytes(text)
	return e
}

// drop forgets a session.
func (c *cache) drop(key session.Key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.removeEntry(key)
}

// appendNew adds the events that an entry does not have yet.
func (c *cache) appendNew(e *cacheEntry, events []storedEvent) {
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

// evictOldest makes room. The caller holds the lock.
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

// lastEvent is the last event of the entry's history, by number and id.
func (e *cacheEntry) lastEvent() (seq int64, id string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.version == 0 {
		return 0, ""
	}
	return e.version, e.history.Events()[e.version-1].ID
}

// lastLease returns the id of the head and the last epoch that is known.
func (e *cacheEntry) lastLease() (id, epoch int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.id, e.epoch
}

func (e *cacheEntry) recordEpoch(epoch int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.epoch = max(e.epoch, epoch)
}

// appendEvents appends the events that come right after those at hand, and returns
// their bytes.
func (e *cacheEntry) appendEvents(events []storedEvent) int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	var bytes int64
	for _, st := range events {
		if st.event.Seq == e.version+1 {
			e.history.Append(st.event)
			e.history.AddBytes(st.text)
			e.version++
			bytes += st.cost
		}
	}
	return bytes
}
