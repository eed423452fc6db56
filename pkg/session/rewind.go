package session

import "slices"

// RewoundFrom returns the index of the first event removed by the rewind at
// events[i]; the rewind removes all events from there up to itself. It is i if
// the rewind names no earlier event. ok is false if events[i] is not a rewind.
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

// WithoutRewound returns the effective events, without rewinds and the events
// that they removed (adk-python flows/llm_flows/contents.py). It does not
// change its argument.
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
