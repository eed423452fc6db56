package session

import "slices"

// RevisionKey is the key of an event's custom metadata under which a host says
// which revision of the app made it. ADK has no field for it.
const RevisionKey = "agenthost.revision"

// Revision is the revision of the app that made the event; empty when nobody
// said.
func (e *Event) Revision() string {
	revision, _ := e.CustomMetadata[RevisionKey].(string)
	return revision
}

// RevisionOf is the revision that an invocation began with; empty when nobody
// said.
func RevisionOf(events []*Event, invocation string) string {
	for _, ev := range events {
		if ev.InvocationID == invocation && ev.Revision() != "" {
			return ev.Revision()
		}
	}
	return ""
}

// LastRevision is the revision that made the last event which says so; empty
// when none does.
func LastRevision(events []*Event) string {
	for _, ev := range slices.Backward(events) {
		if revision := ev.Revision(); revision != "" {
			return revision
		}
	}
	return ""
}
