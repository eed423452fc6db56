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
	most         int64
	hits, misses atomic.Int64

	mu    sync.Mutex
	bytes int64
	byKey map[session.Key]*list.Element
	order *list.List // of *entry, the latest in front
}

// An entry is a session's history up to a version.
type entry struct {
	key     session.Key
	id      int64 // of the head
	history *session.History
	// The cache guards these: its bytes, and whether it has the entry still.
	bytes   int64
	derived int64 // of bytes, those of what was derived from the history
	kept    bool

	mu      sync.Mutex
	version int64
	epoch   int64 // of the last lease under which was appended here; 0 is unknown
}

func newCache(most int64) *cache {
	return &cache{most: most, byKey: map[session.Key]*list.Element{}, order: list.New()}
}

// find returns the entry of a session, or nil.
func (c *cache) find(key session.Key) *entry {
	c.mu.Lock()
	defer c.mu.Unlock()
	el, ok := c.byKey[key]
	if !ok {
		return nil
	}
	c.order.MoveToFront(el)
	e := el.Value.(*entry)
	c.grow(e, 0)
	return e
}

// grow counts bytes of an entry, and what runs have derived from its history since
// it was used last. The caller holds the lock.
func (c *cache) grow(e *entry, bytes int64) {
	derived := e.history.DerivedBytes()
	bytes += derived - e.derived
	e.derived = derived
	e.bytes += bytes
	c.bytes += bytes
	c.shrink()
}

// put makes the entry of a session that was read whole. When another reader
// was faster, theirs is brought up to date and returned.
func (c *cache) put(key session.Key, s *snapshot) *entry {
	e, fresh := c.insert(key, s)
	if !fresh {
		c.extend(e, s.events)
	}
	return e
}

func (c *cache) insert(key session.Key, s *snapshot) (e *entry, fresh bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if el, ok := c.byKey[key]; ok && el.Value.(*entry).id == s.id {
		return el.Value.(*entry), false
	}
	c.remove(key)
	e = newEntry(key, s)
	c.byKey[key], e.kept = c.order.PushFront(e), true
	c.bytes += e.bytes
	c.shrink()
	return e, true
}

func newEntry(key session.Key, s *snapshot) *entry {
	e := &entry{key: key, id: s.id, version: s.version, bytes: entryBytes}
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
	c.remove(key)
}

// extend adds the events that an entry does not have yet.
func (c *cache) extend(e *entry, events []stored) {
	if len(events) == 0 {
		return
	}
	bytes := e.add(events)
	c.mu.Lock()
	defer c.mu.Unlock()
	if e.kept {
		c.grow(e, bytes)
	}
}

// shrink makes room. The caller holds the lock.
func (c *cache) shrink() {
	for c.bytes > c.most && c.order.Len() > 1 {
		c.remove(c.order.Back().Value.(*entry).key)
	}
}

func (c *cache) remove(key session.Key) {
	el, ok := c.byKey[key]
	if !ok {
		return
	}
	delete(c.byKey, key)
	e := c.order.Remove(el).(*entry)
	e.kept = false
	c.bytes -= e.bytes
}

// tip is the last event of the entry's history, by number and id.
func (e *entry) tip() (seq int64, id string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.version == 0 {
		return 0, ""
	}
	return e.version, e.history.Events()[e.version-1].ID
}

// lease returns the id of the head and the last epoch that is known.
func (e *entry) lease() (id, epoch int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.id, e.epoch
}

func (e *entry) leased(epoch int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.epoch = max(e.epoch, epoch)
}

// add appends the events that come right after those at hand, and returns
// their bytes.
func (e *entry) add(events []stored) int64 {
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
