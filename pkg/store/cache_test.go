package store_test

import (
	"fmt"
	"strings"
	"testing"

	"agenthost/pkg/session"
	"agenthost/pkg/store"
)

// Values derived from the histories of cached sessions count towards the cache
// limit once a session is used again. The control case does not report its derived
// values and exceeds the limit.
func TestCacheCountsDerivedValues(t *testing.T) {
	const bound, sessions, each = 1 << 20, 64, 64 << 10
	for _, counted := range []bool{true, false} {
		t.Run(fmt.Sprint("counted ", counted), func(t *testing.T) {
			s := openStore(t, &store.Options{CacheBytes: bound})
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
			held := store.DerivedBytes(s.Sessions, "large")
			if exceeds := held > bound; exceeds == counted {
				t.Errorf("cached sessions hold %d derived bytes of at most %d", held, bound)
			}
			if bytes := s.Stats().CacheBytes; bytes > bound {
				t.Errorf("the cache counts %d bytes of at most %d", bytes, bound)
			}
		})
	}
}

// The cache gives up the sessions that were not used for longest, and what it
// gives up is read again.
func TestCacheByteLimit(t *testing.T) {
	s := openStore(t, &store.Options{CacheBytes: 3 * store.EntryBytes})
	for i := range 10 {
		key := session.Key{App: "app", User: "u", ID: fmt.Sprint(i)}
		appendEvent(t, s, createSession(t, s, key, nil), textEvent("user", key.ID))
	}
	if err := store.CheckCache(s.Sessions); err != nil {
		t.Error(err)
	}
	for i := range 10 {
		key := session.Key{App: "app", User: "u", ID: fmt.Sprint(i)}
		sess := getSession(t, s, key, nil)
		diff(t, "text", key.ID, sess.Events()[0].Text())
		appendEvent(t, s, sess, textEvent("agent", "yes"))
		diff(t, "events", 2, getSession(t, s, key, nil).History.Len())
	}
}
