package store

import (
	"fmt"
	"strings"
	"testing"

	"agenthost/pkg/session"
)

// Values derived from the histories of cached sessions count towards the cache
// limit once a session is used again. The control case does not report its derived
// values and exceeds the limit.
func TestCacheCountsDerivedValues(t *testing.T) {
	const bound, sessions, each = 1 << 20, 64, 64 << 10
	for _, be := range backends() {
		if be.name != "memory" && be.name != "sqlite" {
			continue
		}
		for _, counted := range []bool{true, false} {
			t.Run(fmt.Sprint(be.name, " counted ", counted), func(t *testing.T) {
				s := openStore(t, be.url(t), &Options{CacheBytes: bound})
				for i := range sessions {
					key := session.Key{App: "app", User: "alice", ID: fmt.Sprint(i)}
					sess := createSession(t, s, key, nil)
					sess.History.Derive("large", func(any, []*session.Event) (any, int64) {
						if counted {
							return strings.Repeat("x", each), each
						}
						return strings.Repeat("x", each), 0
					})
					appendEvent(t, s, sess, textEvent("user", "hi"))
				}
				held := derivedBytes(s.Sessions.cache, "large")
				if exceeds := held > bound; exceeds == counted {
					t.Errorf("cached sessions hold %d derived bytes of at most %d", held, bound)
				}
				if _, bytes := s.Sessions.cache.size(); bytes > bound {
					t.Errorf("the cache counts %d bytes of at most %d", bytes, bound)
				}
			})
		}
	}
}

// derivedBytes is what the texts derived under a key really take.
func derivedBytes(c *cache, key any) int {
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
