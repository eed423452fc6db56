package rollout

import (
	"slices"
	"time"
)

// A View is a rollout as people and clients see it.
type View struct {
	App string `json:"app"`
	// Status is none, running, paused, promoted, aborted or damaged.
	Status   Status   `json:"status"`
	Reason   string   `json:"reason,omitempty"`
	Stable   string   `json:"stable"`
	Revision string   `json:"revision,omitempty"`
	Rejected []string `json:"rejected,omitempty"`
	// Share is the new revision's share of the new sessions.
	Share float64    `json:"share"`
	Steps []stepView `json:"steps,omitempty"`
	// Next is the earliest time at which the step ends, and Missing how many sessions it lacks.
	Next    time.Time `json:"next,omitzero"`
	Missing int       `json:"missing,omitempty"`
	Ended   time.Time `json:"ended,omitzero"`

	Counted    counted         `json:"counted"`
	Conditions []conditionView `json:"conditions,omitempty"`
	Decider    string          `json:"decider,omitempty"`
	// Events are the latest, the latest last.
	Events []Event `json:"events,omitempty"`
}

type stepView struct {
	Share float64 `json:"share"`
	// For is a duration such as 1h0m0s; empty is none.
	For   string    `json:"for,omitempty"`
	Min   int       `json:"min"`
	Began time.Time `json:"began,omitzero"`
}

// A conditionView has what was counted for a condition: Hits of Sessions on each revision.
type conditionView struct {
	Condition string `json:"condition"`
	// Exceeded reports that it takes the change back.
	Exceeded       bool `json:"exceeded"`
	Hits           int  `json:"hits"`
	Sessions       int  `json:"sessions"`
	StableHits     int  `json:"stableHits,omitempty"`
	StableSessions int  `json:"stableSessions,omitempty"`
	// Percentile is the stable revision's 90th percentile that it compares with.
	Percentile float64 `json:"percentile,omitempty"`
}

// describeRollout returns the view of an app's rollout.
func (s *state) describeRollout(app string) *View {
	v := &View{App: app, Status: s.Status, Reason: s.Reason, Stable: s.Stable, Revision: s.Draft, Rejected: s.Rejected, Ended: s.Ended, Counted: s.Counted, Decider: s.Decider, Events: slices.Clone(s.Events)}
	if s.Plan == nil {
		return v
	}
	v.Share = s.currentShare()
	for i, one := range s.Plan.Steps {
		sv := stepView{Share: one.Share, Min: one.Min}
		if one.For > 0 {
			sv.For = one.For.String()
		}
		if i < len(s.Began) {
			sv.Began = s.Began[i]
		}
		v.Steps = append(v.Steps, sv)
	}
	if s.isActive() {
		at, current := s.currentStep()
		v.Next, v.Missing = s.Began[at].Add(current.For), max(0, current.Min-s.Counted.InStep)
	}
	for i, c := range s.Plan.Abort {
		t := s.Tests[i]
		cv := conditionView{Condition: c.Source, Exceeded: t.isExceeded()}
		if t.Ceiling != nil {
			cv.Hits, cv.Sessions = int(t.Ceiling.Seen.Hits), int(t.Ceiling.Seen.N)
		} else {
			cv.Hits, cv.Sessions = int(t.Comparison.New.Hits), int(t.Comparison.New.N)
			cv.StableHits, cv.StableSessions = int(t.Comparison.Old.Hits), int(t.Comparison.Old.N)
		}
		if c.Percentile {
			cv.Percentile = s.Percentiles[c.Measure]
		}
		v.Conditions = append(v.Conditions, cv)
	}
	return v
}
