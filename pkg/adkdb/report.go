package adkdb

import (
	"fmt"
	"maps"
	"slices"

	"agenthost/pkg/session"
)

// A Report says what an import did.
type Report struct {
	// Source says which program wrote the source, Target is the URL of the
	// target without its password.
	Source   string `json:"source"`
	Target   string `json:"target"`
	DryRun   bool   `json:"dryRun"`
	Sessions Count  `json:"sessions"`
	Events   Count  `json:"events"`
	Keys     Count  `json:"stateKeys"`
	// Memories and Revisions are in databases of agenthost only.
	Memories  Count `json:"memories"`
	Revisions Count `json:"revisions"`
	// LeftOut is everything that the source has and the target has not got.
	LeftOut []Omission `json:"leftOut"`
	// Notes are what is not left out, but was read in a way worth knowing.
	Notes []string `json:"notes"`
}

// A Count says what became of what was read.
type Count struct {
	Read    int `json:"read"`
	Written int `json:"written"`
	// Present were there already.
	Present int `json:"present"`
	LeftOut int `json:"leftOut"`
}

// A Omission is something left out, and why.
type Omission struct {
	What   string `json:"what"`
	Reason string `json:"reason"`
}

func (r *Report) addOmission(what, reason string) { r.LeftOut = append(r.LeftOut, Omission{what, reason}) }

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

// ownState are the keys of a session's state that belong to it alone.
func (r *Report) ownState(key session.Key, state map[string]any) map[string]any {
	own := r.withoutNull(state)
	for _, k := range slices.Sorted(maps.Keys(own)) {
		if scope, _ := session.ScopeOf(k); scope != session.ScopeSession {
			r.Keys.LeftOut++
			r.addOmission("state key "+k+" of session "+key.String(), "a session's own state has no keys with this prefix")
			delete(own, k)
		}
	}
	return own
}

// withoutNull drops keys without a value: here, they are absent.
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
