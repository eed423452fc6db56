package store

import (
	"fmt"

	"agenthost/pkg/session"
)

// EntryBytes is what a cached session costs in memory without its events.
const EntryBytes = entryBytes

// QueuedSessions counts the sessions that are held or waited for.
func QueuedSessions(s *Sessions) int { return len(s.runs.waiting) }

// DerivedBytes is what the texts derived under a key really take.
func DerivedBytes(s *Sessions, key any) int {
	c := s.cache
	c.mu.Lock()
	defer c.mu.Unlock()
	held := 0
	for el := c.order.Front(); el != nil; el = el.Next() {
		el.Value.(*cacheEntry).history.Derive(key, func(last any, _ []*session.Event) (any, int64) {
			text, _ := last.(string)
			held += len(text)
			return last, 0
		})
	}
	return held
}

// CheckCache checks that the cache's parts agree.
func CheckCache(s *Sessions) error {
	c := s.cache
	if c.bytes > c.maxBytes || c.order.Len() != len(c.byKey) || c.order.Len() == 0 {
		return fmt.Errorf("cache has %d of %d bytes, %d and %d entries", c.bytes, c.maxBytes, c.order.Len(), len(c.byKey))
	}
	return nil
}
