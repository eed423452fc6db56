package session

import (
	"strconv"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func eventsNamed(ids ...string) []*Event {
	var es []*Event
	for _, id := range ids {
		es = append(es, &Event{ID: id})
	}
	return es
}

func idsOf(es []*Event) []string {
	var ids []string
	for _, e := range es {
		ids = append(ids, e.ID)
	}
	return ids
}

func TestKeyString(t *testing.T) {
	if got := (Key{App: "desk", User: "u", ID: "s"}).String(); got != "desk/u/s" {
		t.Errorf("String() = %q, want desk/u/s", got)
	}
}

func TestEventsBy(t *testing.T) {
	s := &Session{History: NewHistory([]*Event{
		{ID: "1", Author: UserAuthor}, {ID: "2", Author: "root"}, {ID: "3", Author: UserAuthor},
	})}
	for author, want := range map[string][]string{"user": {"1", "3"}, "root": {"2"}, "other": nil} {
		if diff := cmp.Diff(want, idsOf(s.EventsBy(author))); diff != "" {
			t.Errorf("EventsBy(%q) (-want +got):\n%s", author, diff)
		}
	}
}

func TestHistoryAppend(t *testing.T) {
	h := NewHistory(eventsNamed("1"))
	before := h.Events()
	h.Append(&Event{ID: "2"})
	if diff := cmp.Diff([]string{"1"}, idsOf(before)); diff != "" {
		t.Errorf("the events from before (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"1", "2"}, idsOf(h.Events())); diff != "" {
		t.Errorf("Events() (-want +got):\n%s", diff)
	}
	if got := h.Len(); got != 2 {
		t.Errorf("Len() = %d, want 2", got)
	}
}

// Appending to the slice that Events returned does not write to the history's
// backing array.
func TestHistoryEventsAreClipped(t *testing.T) {
	h := NewHistory(append(make([]*Event, 0, 8), eventsNamed("1")...))
	mine := append(h.Events(), &Event{ID: "mine"})
	h.Append(&Event{ID: "2"})
	if diff := cmp.Diff([]string{"1", "mine"}, idsOf(mine)); diff != "" {
		t.Errorf("the longer copy (-want +got):\n%s", diff)
	}
}

func TestHistoryDerive(t *testing.T) {
	h := NewHistory(eventsNamed("1", "2"))
	var seen [][]string
	count := func(last any, events []*Event) (any, int64) {
		n, _ := last.(int)
		seen = append(seen, idsOf(events[n:]))
		return len(events), 8
	}
	h.Derive("count", count)
	h.Derive("count", count)
	h.Append(&Event{ID: "3"})
	if got := h.Derive("count", count); got != 3 {
		t.Errorf("Derive = %v, want 3", got)
	}
	if diff := cmp.Diff([][]string{{"1", "2"}, nil, {"3"}}, seen); diff != "" {
		t.Errorf("the events that were new each time (-want +got):\n%s", diff)
	}
	other := h.Derive("other", func(last any, _ []*Event) (any, int64) { return last, 0 })
	if other != nil {
		t.Errorf("Derive of another key starts with %v, want nil", other)
	}
}

func TestHistoryManyGoroutines(t *testing.T) {
	h := NewHistory(nil)
	type text struct{}
	join := func(last any, events []*Event) (any, int64) {
		done, _ := last.([]string)
		for _, e := range events[len(done):] {
			done = append(done, e.ID)
		}
		return done, 16 * int64(len(done))
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := range 200 {
			h.Append(&Event{ID: strconv.Itoa(i)})
		}
	})
	for range 3 {
		wg.Go(func() {
			for range 200 {
				n := h.Len()
				if got := len(h.Derive(text{}, join).([]string)); got < n {
					t.Errorf("%d events are derived, there were %d before", got, n)
				}
			}
		})
	}
	wg.Wait()
	if diff := cmp.Diff(idsOf(h.Events()), h.Derive(text{}, join)); diff != "" {
		t.Errorf("Derive (-want +got):\n%s", diff)
	}
}
