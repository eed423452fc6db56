package provider

import (
	"container/list"
	"sync"

	"agenthost/pkg/model"
)

// maxCountedSessions limits the sessions with counters.
const maxCountedSessions = 1024

// An answerCounter counts the answers of each entry by session. The zero value is ready
// to use. It is safe for concurrent use.
type answerCounter struct {
	mu       sync.Mutex
	sessions map[counterKey]*list.Element // of *sessionTally
	recent   list.List                    // latest first
}

type counterKey struct{ app, user, session string }

type sessionCounts struct {
	key   counterKey
	count map[int]int
}

// countAnswer counts one answer of an entry and reports whether it is within the limit.
// A limit of 0 means no limit.
func (t *answerCounter) countAnswer(from model.Origin, entry, limit int) bool {
	if limit == 0 {
		return true
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.sessionCounts(counterKey{from.App, from.UserID, from.SessionID})
	if s.count[entry] >= limit {
		return false
	}
	s.count[entry]++
	return true
}

func (t *answerCounter) sessionCounts(key counterKey) *sessionCounts {
	if at, ok := t.sessions[key]; ok {
		t.recent.MoveToFront(at)
		return at.Value.(*sessionCounts)
	}
	if t.sessions == nil {
		t.sessions = map[counterKey]*list.Element{}
	}
	if len(t.sessions) >= maxCountedSessions {
		oldest := t.recent.Remove(t.recent.Back()).(*sessionCounts)
		delete(t.sessions, oldest.key)
	}
	s := &sessionCounts{key: key, count: map[int]int{}}
	t.sessions[key] = t.recent.PushFront(s)
	return s
}
