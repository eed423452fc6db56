package runtime

import (
	"slices"
	"strings"
	"time"

	"agenthost/pkg/model"
	"agenthost/pkg/session"
)

// A compactionRange is what one summary replaces: events, and an earlier
// summary if there is one.
type compactionRange struct {
	earlier *session.Compaction
	events  []*session.Event
}

// conversationText returns the conversation for the summarizing model, one
// line per text. (adk-python joins them with a backslash and an n.)
func (s compactionRange) conversationText() string {
	var lines []string
	if s.earlier != nil {
		lines = append(lines, summaryAuthor+": "+model.TextOf(s.earlier.CompactedContent))
	}
	for _, ev := range s.events {
		if ev.Content == nil {
			continue
		}
		for _, p := range ev.Content.Parts {
			if p.Text != "" && !p.Thought {
				lines = append(lines, ev.Author+": "+p.Text)
			}
		}
	}
	return strings.Join(lines, "\n")
}

// timeBounds returns the times of the first and the last event, in seconds.
func (s compactionRange) timeBounds() (start, end float64) {
	start, end = eventSeconds(s.events[0]), eventSeconds(s.events[0])
	for _, ev := range s.events {
		start, end = min(start, eventSeconds(ev)), max(end, eventSeconds(ev))
	}
	if s.earlier != nil {
		start = s.earlier.StartTimestamp
	}
	return start, end
}

// lastCompaction returns the compaction with the latest end, or nil.
func lastCompaction(events []*session.Event) *session.Compaction {
	var last *session.Compaction
	for _, ev := range events {
		if isCompaction(ev) && (last == nil || ev.Actions.Compaction.EndTimestamp >= last.EndTimestamp) {
			last = ev.Actions.Compaction
		}
	}
	return last
}

func compactionEnd(c *session.Compaction) float64 {
	if c == nil {
		return 0
	}
	return c.EndTimestamp
}

// slidingWindow returns the range of all invocations since the last summary if
// there are enough of them, and of earlier ones for the overlap.
func (c *compactor) slidingWindow(events []*session.Event) compactionRange {
	last := compactionEnd(lastCompaction(events))
	fresh := map[string]bool{}
	for _, ev := range events {
		if ev.Actions.Compaction == nil && eventSeconds(ev) > last {
			fresh[ev.InvocationID] = true
		}
	}
	if len(fresh) < c.Interval {
		return compactionRange{}
	}
	s := compactionRange{events: c.withOverlap(withoutCompactions(events), fresh)}
	s.events = s.events[:compactableCount(s.events, len(s.events))]
	if !slices.ContainsFunc(s.events, func(ev *session.Event) bool { return eventSeconds(ev) > last }) {
		return compactionRange{} // nothing new before what is pending
	}
	return s
}

// withOverlap returns the events from the first fresh invocation on, and those
// of the overlapping invocations before it.
func (c *compactor) withOverlap(events []*session.Event, fresh map[string]bool) []*session.Event {
	var starts []int
	known := map[string]bool{}
	for i, ev := range events {
		if known[ev.InvocationID] {
			continue
		}
		known[ev.InvocationID] = true
		starts = append(starts, i)
		if fresh[ev.InvocationID] {
			break
		}
	}
	return events[starts[max(0, len(starts)-1-c.Overlap)]:]
}

// thresholdRange returns the range for the token threshold: the last summary
// and all later events except the latest ones.
func thresholdRange(events []*session.Event, retain int) compactionRange {
	s := compactionRange{earlier: lastCompaction(events)}
	for _, ev := range withoutCompactions(events) {
		if eventSeconds(ev) > compactionEnd(s.earlier) {
			s.events = append(s.events, ev)
		}
	}
	s.events = s.events[:compactableCount(s.events, max(0, len(s.events)-retain))]
	return s
}

func withoutCompactions(events []*session.Event) []*session.Event {
	return slices.DeleteFunc(slices.Clone(events), func(ev *session.Event) bool { return ev.Actions.Compaction != nil })
}

// compactableCount returns the greatest number of events, at most n, that can
// be summarized: none of their calls is pending or answered only by later
// events, and all of them are older than the later ones.
func compactableCount(events []*session.Event, n int) int {
	n = min(n, firstPending(events))
	for {
		before := n
		n = beforeAnswered(events, n)
		n = beforeYounger(events, n)
		if n == before {
			return n
		}
	}
}

// firstPending returns the index of the first event with a pending call or
// request, or the number of events.
func firstPending(events []*session.Event) int {
	answered := map[string]int{}
	for i, ev := range events {
		for _, r := range ev.Responses() {
			answered[r.ID] = i
		}
	}
	waits := func(id string, i int) bool {
		at, ok := answered[id]
		return !ok || at <= i
	}
	for i, ev := range events {
		if ev.Provenance.Imported {
			continue // no one answers its calls
		}
		for _, c := range ev.Calls() {
			if waits(c.ID, i) {
				return i
			}
		}
		for id := range ev.Actions.RequestedToolConfirmations {
			if waits(id, i) {
				return i
			}
		}
		for id := range ev.Actions.RequestedAuthConfigs {
			if waits(id, i) {
				return i
			}
		}
	}
	return len(events)
}

// beforeAnswered moves n before every call that is answered after it.
func beforeAnswered(events []*session.Event, n int) int {
	callIndex := map[string]int{}
	for i, ev := range events {
		for _, c := range ev.Calls() {
			callIndex[c.ID] = i
		}
	}
	for i := len(events) - 1; i >= n; i-- {
		for _, r := range events[i].Responses() {
			if at, ok := callIndex[r.ID]; ok {
				n = min(n, at)
			}
		}
	}
	return n
}

// beforeYounger moves n before events that are not older than a later one,
// because a compaction identifies its events by time.
func beforeYounger(events []*session.Event, n int) int {
	var oldest time.Time
	for i := len(events) - 1; i >= 0; i-- {
		at := events[i].Timestamp
		if i < n && !oldest.IsZero() && !at.Before(oldest) {
			n = i
		}
		if i >= n && (oldest.IsZero() || at.Before(oldest)) {
			oldest = at
		}
	}
	return n
}
