package provider

import (
	"container/list"
	"sync"

	"agenthost/pkg/model"
)

// maxTallied bounds the sessions whose counts are kept.
const maxTallied = 1024

// A tally counts, for each session, how often an entry answered. The zero tally
// is ready; many goroutines may use it.
type tally struct {
	mu       sync.Mutex
	sessions map[tallyKey]*list.Element // of *sessionTally
	recent   list.List                  // latest first
}

type tallyKey struct{ app, user, session string }

type sessionTally struct {
	key   tallyKey
	count map[int]int
}

// take counts one answer of an entry and says whether it is still within the
// limit. Zero is no limit.
func (t *tally) take(from model.Origin, entry, limit int) bool {
	if limit == 0 {
		return true
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.session(tallyKey{from.App, from.UserID, from.SessionID})
	if s.count[entry] >= limit {
		return false
	}
	s.count[entry]++
	return true
}

func (t *tally) session(key tallyKey) *sessionTally {
	if at, ok := t.sessions[key]; ok {
		t.recent.MoveToFront(at)
		return at.Value.(*sessionTally)
	}
	if t.sessions == nil {
		t.sessions = map[tallyKey]*list.Element{}
	}
	if len(t.sessions) >= maxTallied {
		oldest := t.recent.Remove(t.recent.Back()).(*sessionTally)
		delete(t.sessions, oldest.key)
	}
	s := &sessionTally{key: key, count: map[int]int{}}
	t.sessions[key] = t.recent.PushFront(s)
	return s
}
