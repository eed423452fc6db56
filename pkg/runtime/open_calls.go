package runtime

import (
	"strings"
	"time"

	"agenthost/pkg/model"
	"agenthost/pkg/session"
)

// openCalls finds the events that no summary may replace: those with function calls that wait for a
// response or a decision. Such calls may wait forever, so a summary covers the events around them.
//
// An event belongs to the call that it answers, about which it asks a person, or whose sub-agent
// made it. Events about one call are open together, so that no call is separated from its
// responses. A call is open at the end of the events that were added: a summary's range decides
// which calls it covers, and later responses do not change that.
type openCalls struct {
	// count is how many events were added.
	count int
	// callers maps a call's ID to the last event that made it: models reuse IDs.
	callers map[string]int
	// waiting maps an open call's ID to the event that waits.
	waiting map[string]int
	// links leads from an event to another one about the same call.
	links map[int]int
}

// findOpenEvents returns the indexes of the events that belong to open calls.
func findOpenEvents(events []*session.Event) map[int]bool {
	var o openCalls
	return o.readEvents(events)
}

// readEvents adds the events that were not added yet, and returns the indexes of those that belong
// to open calls.
func (o *openCalls) readEvents(events []*session.Event) map[int]bool {
	if len(events) < o.count {
		*o = openCalls{}
	}
	for _, ev := range events[o.count:] {
		o.addEvent(ev)
	}
	return o.listOpenEvents()
}

func (o *openCalls) addEvent(ev *session.Event) {
	at := o.count
	o.count++
	for _, r := range ev.Responses() {
		if !model.IsInterim(r) {
			delete(o.waiting, r.ID)
		}
		o.linkToCaller(at, r.ID)
	}
	for _, c := range ev.Calls() {
		o.setWaiting(at, c.ID)
		o.callers[c.ID] = at
	}
	for id := range ev.Actions.RequestedToolConfirmations {
		o.setWaiting(at, id) // again: its response is preliminary
		o.linkToCaller(at, id)
	}
	for id := range ev.Actions.RequestedAuthConfigs {
		o.setWaiting(at, id)
		o.linkToCaller(at, id)
	}
	o.linkToCaller(at, ev.IsolationScope)
	if strings.Contains(ev.Branch, "@") {
		for _, segment := range strings.Split(ev.Branch, ".") {
			_, call, _ := strings.Cut(segment, "@")
			o.linkToCaller(at, call)
		}
	}
}

func (o *openCalls) setWaiting(at int, id string) {
	if o.waiting == nil {
		o.callers, o.waiting, o.links = map[string]int{}, map[string]int{}, map[int]int{}
	}
	o.waiting[id] = at
}

func (o *openCalls) linkToCaller(at int, id string) {
	caller, ok := o.callers[id]
	if !ok {
		return
	}
	if a, b := o.findRoot(at), o.findRoot(caller); a != b {
		o.links[a] = b
	}
}

// findRoot returns the event that represents all events linked to this one. It halves the way
// to it, so that chains of links stay short.
func (o *openCalls) findRoot(at int) int {
	for {
		next, ok := o.links[at]
		if !ok {
			return at
		}
		if after, ok := o.links[next]; ok {
			o.links[at] = after
		}
		at = next
	}
}

func (o *openCalls) listOpenEvents() map[int]bool {
	if len(o.waiting) == 0 {
		return nil
	}
	open := map[int]bool{}
	for _, at := range o.waiting {
		open[o.findRoot(at)] = true
	}
	for at := range o.links {
		if open[o.findRoot(at)] {
			open[at] = true
		}
	}
	return open
}

// compactableEvents returns how many of the first n events a summary may span, and which
// of these it leaves out because their calls are open. All later events are younger,
// because a summary identifies its events by time.
func compactableEvents(events []*session.Event, n int) (int, map[int]bool) {
	for {
		n = beforeYounger(events, n)
		open := findOpenEvents(events[:n])
		last := n
		for last > 0 && open[last-1] {
			last--
		}
		if last == n {
			return n, open
		}
		n = last
	}
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
