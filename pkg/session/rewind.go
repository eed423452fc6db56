package session

import "slices"

// RewoundFrom returns the index of the first event that the rewind at events[i]
// takes back; everything from there up to the rewind itself is taken back. It
// is i when the rewind names nothing that stands before it. ok is false when
// events[i] is no rewind.
func RewoundFrom(events []*Event, i int) (first int, ok bool) {
	target := events[i].Actions.RewindBeforeInvocationID
	if target == "" || events[i].Provenance.Imported {
		return i, false
	}
	if id := events[i].Provenance.RewindAfter; id != "" {
		if last := slices.IndexFunc(events[:i], func(ev *Event) bool { return ev.ID == id }); last >= 0 {
			return last + 1, true
		}
		return i, true
	}
	first = slices.IndexFunc(events[:i], func(ev *Event) bool { return ev.InvocationID == target })
	if first < 0 {
		first = i
	}
	return first, true
}

// WithoutRewound returns the events that count: rewinds and what they took back
// are left out (adk-python flows/llm_flows/contents.py). The list given stays
// as it is.
func WithoutRewound(events []*Event) []*Event {
	var kept []*Event
	for i := len(events) - 1; i >= 0; i-- {
		first, ok := RewoundFrom(events, i)
		if !ok {
			kept = append(kept, events[i])
		}
		i = first
	}
	slices.Reverse(kept)
	return kept
}
