package runtime

import (
	"slices"
	"time"

	"google.golang.org/genai"

	"agenthost/pkg/session"
)

// summaryAuthor is the author of summaries. It is not the name of an agent, so
// every agent sees summaries as context from others.
const summaryAuthor = "model"

// rewritesPast reports whether an event changes which earlier events are
// visible.
func rewritesPast(ev *session.Event) bool {
	return ev.Actions.RewindBeforeInvocationID != "" || isCompaction(ev)
}

func isCompaction(ev *session.Event) bool {
	return ev.Actions.Compaction != nil && ev.Actions.Compaction.CompactedContent != nil && !ev.Provenance.Imported
}

// eventSeconds returns the time of an event in seconds, as in compactions.
func eventSeconds(ev *session.Event) float64 { return float64(ev.Timestamp.UnixMicro()) / 1e6 }

// applyCompactions replaces events by their summaries (adk-python contents.py
// _process_compaction_events). A compaction covers only events before it; its
// summary is placed at the last of them. It also returns the covered events.
func applyCompactions(events []*session.Event) (seen, covered []*session.Event) {
	isCovered := make([]bool, len(events))
	summaries := map[int][]*session.Event{}
	for _, k := range currentCompactions(events) {
		c, at := events[k].Actions.Compaction, k
		for i, ev := range events[:k] {
			if t := eventSeconds(ev); !isCompaction(ev) && c.StartTimestamp <= t && t <= c.EndTimestamp {
				isCovered[i], at = true, i
			}
		}
		summaries[at] = append(summaries[at], summaryEvent(events[k]))
	}
	for i, ev := range events {
		switch {
		case isCovered[i]:
			covered = append(covered, ev)
		case !isCompaction(ev):
			seen = append(seen, ev)
		}
		seen = append(seen, summaries[i]...)
	}
	return seen, covered
}

// currentCompactions returns the indexes of the compactions in effect: one
// whose time range lies within another is omitted, of two with equal ranges
// the older.
func currentCompactions(events []*session.Event) []int {
	var all []int
	for i, ev := range events {
		if isCompaction(ev) {
			all = append(all, i)
		}
	}
	return slices.DeleteFunc(slices.Clone(all), func(i int) bool {
		c := events[i].Actions.Compaction
		return slices.ContainsFunc(all, func(j int) bool {
			other := events[j].Actions.Compaction
			within := other.StartTimestamp <= c.StartTimestamp && c.EndTimestamp <= other.EndTimestamp
			equal := other.StartTimestamp == c.StartTimestamp && c.EndTimestamp == other.EndTimestamp
			return i != j && within && (!equal || j > i)
		})
	})
}

func summaryEvent(ev *session.Event) *session.Event {
	c := ev.Actions.Compaction
	s := &session.Event{
		ID: ev.ID, InvocationID: ev.InvocationID, Author: summaryAuthor,
		Timestamp: time.UnixMicro(int64(c.EndTimestamp * 1e6)).UTC(),
	}
	s.Content = &genai.Content{Role: genai.RoleModel, Parts: c.CompactedContent.Parts}
	return s
}

type liveKey struct{}

// liveEvents returns the events that were not rewound, including compactions.
// It reads each event once.
func liveEvents(h *session.History) []*session.Event {
	type live struct {
		seen   int
		events []*session.Event
	}
	v := h.Derive(liveKey{}, func(last any, events []*session.Event) (any, int64) {
		l, _ := last.(live)
		for ; l.seen < len(events); l.seen++ {
			if events[l.seen].Actions.RewindBeforeInvocationID != "" {
				l.events = session.WithoutRewound(events[:l.seen+1])
			} else {
				l.events = append(l.events, events[l.seen])
			}
		}
		return l, pointerBytes * int64(len(l.events))
	})
	return slices.Clip(v.(live).events)
}
