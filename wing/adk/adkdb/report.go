package adkdb

import (
	"fmt"
	"maps"
	"slices"

	"agenthost/pkg/session"
)

// A Report is an import's result.
type Report struct {
	// Source is the program that wrote the source, Target the target's URL without its
	// password.
	Source   string `json:"source"`
	Target   string `json:"target"`
	DryRun   bool   `json:"dryRun"`
	Sessions Count  `json:"sessions"`
	Events   Count  `json:"events"`
	Keys     Count  `json:"stateKeys"`
	// The following exist in agenthost databases only. OutcomeDays have the outcomes of deleted sessions.
	Memories    Count `json:"memories"`
	Revisions   Count `json:"revisions"`
	Results     Count `json:"results"`
	Rollouts    Count `json:"rollouts"`
	OutcomeDays Count `json:"outcomeDays"`
	Feedback    Count `json:"feedback"`
	// LeftOut lists everything in the source that was not imported.
	LeftOut []Omission `json:"leftOut"`
	// Notes describe data that was imported with assumptions.
	Notes []string `json:"notes"`
}

// A Count counts the imported items with one type.
type Count struct {
	Read    int `json:"read"`
	Written int `json:"written"`
	// Present counts the items that the target already had.
	Present int `json:"present"`
	LeftOut int `json:"leftOut"`
}

// An Omission is something that was not imported, and the reason.
type Omission struct {
	What   string `json:"what"`
	Reason string `json:"reason"`
}

func (r *Report) addOmission(what, reason string) {
	r.LeftOut = append(r.LeftOut, Omission{what, reason})
}

func (r *Report) omitSession(key session.Key, events, keys int, reason string) {
	r.Sessions.LeftOut++
	r.Events.LeftOut += events
	r.Keys.LeftOut += keys
	r.addOmission("session "+key.String(), reason)
}

func (r *Report) omitEvent(key session.Key, id, reason string) {
	r.Events.Read++
	r.Events.LeftOut++
	r.addOmission("event "+id+" of session "+key.String(), reason)
}

// ownState returns the session-scoped keys of a session's state.
func (r *Report) ownState(key session.Key, state map[string]any) map[string]any {
	own := r.withoutNull(state)
	for _, k := range slices.Sorted(maps.Keys(own)) {
		if scope, _ := session.ScopeOf(k); scope != session.ScopeSession {
			r.Keys.LeftOut++
			r.addOmission("state key "+k+" of session "+key.String(), "session state cannot have keys with this prefix")
			delete(own, k)
		}
	}
	return own
}

// withoutNull drops keys with a null value; in agenthost such keys do not exist.
func (r *Report) withoutNull(state map[string]any) map[string]any {
	r.Keys.Read += len(state)
	kept := maps.Clone(state)
	maps.DeleteFunc(kept, func(_ string, v any) bool { return v == nil })
	r.Keys.Read -= len(state) - len(kept)
	return kept
}

func pluralize(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
