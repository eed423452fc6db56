package a2aserver

import (
	"testing"

	"agenthost/pkg/session"
)

// A follower that is late misses partial events, and is sent to the store by a complete one; others are not
// delayed. A feed that has ended has a closed queue.
func TestLateFollower(t *testing.T) {
	f := &feed{}
	late, quick := f.addFollower(), f.addFollower()
	received := 0
	partial := &session.Event{}
	partial.Partial = true
	for range queueSize + 10 {
		f.publishEvent(partial)
		<-quick
		received++
	}
	f.publishEvent(&session.Event{})
	if (<-quick).Partial {
		t.Error("the quick follower has no complete event")
	}
	for range late {
		received--
	}
	if received != 10 {
		t.Errorf("the late follower missed %d partial events, want 10", received)
	}
	f.removeFollower(quick)
	f.closeQueues()
	if _, ok := <-f.addFollower(); ok {
		t.Error("the queue of a feed that has ended is open")
	}
}
