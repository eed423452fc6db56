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

// A user's streams are bounded, and another user's are not counted.
func TestStreamLimit(t *testing.T) {
	h := &handlers{streams: map[string]int{}}
	for range maxUserStreams {
		if _, err := h.openStream("u"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := h.openStream("u"); err == nil || err.Error() != "too many open streams" {
		t.Errorf("one stream too many: %v", err)
	}
	release, err := h.openStream("v")
	if err != nil {
		t.Fatal(err)
	}
	if release(); h.streams["v"] != 0 {
		t.Error("a released stream is counted")
	}
}
