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
	partial := &session.Event{}
	partial.Partial = true
	for range queueSize + 10 {
		f.publishEvent(partial)
		<-quick.changed
		if events, isOpen := quick.drainEvents(); len(events) != 1 || !isOpen {
			t.Fatalf("the quick follower has %d events, open: %t", len(events), isOpen)
		}
	}
	f.publishEvent(&session.Event{})
	if events, isOpen := quick.drainEvents(); len(events) != 1 || events[0].Partial || !isOpen {
		t.Error("the quick follower has no complete event")
	}
	if events, isOpen := late.drainEvents(); len(events) != queueSize || isOpen {
		t.Errorf("the late follower has %d events, open: %t, want %d and closed", len(events), isOpen, queueSize)
	}
	f.removeFollower(quick)
	f.closeQueues()
	if _, isOpen := f.addFollower().drainEvents(); isOpen {
		t.Error("the queue of a feed that has ended is open")
	}
}
