package rollout

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"agenthost/internal/statistics"
	"agenthost/pkg/loader"
)

// A Status is where an app's rollout is.
type Status string

const (
	// StatusNone is an app without a rollout so far: its revision is known, so that the next one begins
	// a rollout, also at a restart.
	StatusNone     Status = "none"
	statusRunning  Status = "running"
	statusPaused   Status = "paused"
	statusPromoted Status = "promoted"
	statusAborted  Status = "aborted"
)

// A state is an app's latest rollout, as it is stored.
type state struct {
	Status Status `json:"status"`
	// Reason explains the status to people.
	Reason string `json:"reason,omitempty"`
	// Stable is the revision that serves new sessions apart from the rollout, Draft the new one.
	Stable string `json:"stable"`
	Draft  string `json:"draft,omitempty"`
	Plan   *Plan  `json:"plan,omitempty"`
	// Salt makes the units' order differ from one rollout to the next.
	Salt string `json:"salt,omitempty"`
	// Began has the time at which each step began, so far. Ended is when the rollout ended.
	Began []time.Time `json:"began,omitempty"`
	Ended time.Time   `json:"ended,omitzero"`
	// Resumed is when a person resumed the rollout, the last time: patience with the step begins again.
	Resumed time.Time `json:"resumed,omitzero"`
	// Rejected are drafts that were taken back, the latest last: their files begin no rollout again.
	Rejected []string `json:"rejected,omitempty"`
	// Replaced are drafts for which another one came while they were rolled out. They wait until the
	// rollout ends, since a replica may still have their files.
	Replaced []string `json:"replaced,omitempty"`

	// Counted are the sessions after the head id First, the last one before the rollout, up to and including
	// Last. Started reports that First is known.
	Started bool    `json:"started,omitempty"`
	First   int64   `json:"first,omitempty"`
	Last    int64   `json:"last,omitempty"`
	Counted counted `json:"counted"`
	// Tests belong to the plan's conditions.
	Tests []test `json:"tests,omitempty"`
	// Percentiles are the stable revision's 90th percentiles at the start, by number.
	Percentiles map[string]float64 `json:"percentiles,omitempty"`

	// Events are the latest things that happened to this rollout and the ones before, the latest last.
	Events []Event `json:"events,omitempty"`

	// Decider is the host that decides, until Until.
	Decider string    `json:"decider,omitempty"`
	Until   time.Time `json:"until,omitzero"`
}

// counted counts sessions.
type counted struct {
	Stable int `json:"stable"`
	Draft  int `json:"draft"`
	// Selected are the draft's that an expression selected.
	Selected int `json:"selected,omitempty"`
	// InStep are the draft's that started in the current step.
	InStep int `json:"inStep"`
	// Uncompared started around the beginning of a step, or on another revision than chance gave them.
	Uncompared int `json:"uncompared,omitempty"`
}

// A test is a condition's sequential test: one of both.
type test struct {
	Ceiling    *statistics.Ceiling    `json:"ceiling,omitempty"`
	Comparison *statistics.Comparison `json:"comparison,omitempty"`
}

// An event is what happened to a rollout.
type Event struct {
	// Number counts the app's events, from 1.
	Number int       `json:"number"`
	Time   time.Time `json:"time"`
	// Kind is gate_passed, started, step, paused, resumed, promoted or aborted.
	Kind string `json:"kind"`
	// Revision is the new one, and Share its share of the new sessions afterwards.
	Revision string  `json:"revision"`
	Share    float64 `json:"share"`
	Reason   string  `json:"reason,omitempty"`
	// By is who decided: a person, or a host by the conditions.
	By string `json:"by,omitempty"`
}

const (
	// maxEvents limits Events, and maxEventReason the length of a reason in them.
	maxEvents      = 40
	maxEventReason = 400
)

// addEvent adds an event. Its By is set when the state is saved.
func (s *state) addEvent(kind, reason string, now time.Time) {
	number := 1
	if n := len(s.Events); n > 0 {
		number = s.Events[n-1].Number + 1
	}
	reason = strings.ToValidUTF8(fmt.Sprintf("%.*s", maxEventReason, reason), "")
	s.Events = append(slices.Clone(s.Events), Event{Number: number, Time: now, Kind: kind, Revision: s.Draft, Share: s.currentShare(), Reason: reason})
	s.Events = s.Events[max(0, len(s.Events)-maxEvents):]
}

// signEvents sets who decided the events without one.
func (s *state) signEvents(by string) {
	for i := range s.Events {
		if s.Events[i].By == "" {
			s.Events[i].By = by
		}
	}
}

// eventsAfter returns the events that another state does not have.
func (s *state) eventsAfter(old *state) []Event {
	last := 0
	if n := len(old.Events); n > 0 {
		last = old.Events[n-1].Number
	}
	at := slices.IndexFunc(s.Events, func(e Event) bool { return e.Number > last })
	if at < 0 {
		return nil
	}
	return s.Events[at:]
}

// maxRemembered limits Rejected and Replaced.
const maxRemembered = 50

// A candidate is a changed app's revision, with the gates that it has passed.
type candidate struct {
	revision string
	gates    []string
}

// beginRollout starts a rollout from the stable revision.
func (s *state) beginRollout(draft candidate, plan *Plan, salt string, now time.Time) {
	replaced := s.Replaced
	if s.isActive() {
		replaced = appendRevision(replaced, s.Draft)
	}
	*s = state{
		Status: statusRunning, Stable: s.Stable, Draft: draft.revision, Plan: plan, Salt: salt,
		Began: []time.Time{now}, Rejected: s.Rejected, Replaced: replaced, Events: s.Events,
	}
	for _, c := range plan.Abort {
		t, share := test{}, alpha/float64(len(plan.Abort))
		if c.Test == testAbove {
			t.Ceiling = &statistics.Ceiling{Limit: c.Limit, Alpha: share}
		} else {
			t.Comparison = &statistics.Comparison{Alpha: share, Margin: c.Limit}
		}
		s.Tests = append(s.Tests, t)
	}
	if len(draft.gates) > 0 {
		s.addEvent(loader.ReportGatePassed, strings.Join(draft.gates, ", "), now)
	}
	s.addEvent("started", "", now)
}

// endRollout ends the rollout. A draft that is taken back is remembered.
func (s *state) endRollout(how Status, reason string, now time.Time) {
	s.Status, s.Reason, s.Ended, s.Replaced = how, reason, now, nil
	s.Decider, s.Until = "", time.Time{}
	if how == statusPromoted {
		s.Stable = s.Draft
		s.Rejected = slices.DeleteFunc(s.Rejected, func(r string) bool { return r == s.Draft })
	} else {
		s.Rejected = appendRevision(s.Rejected, s.Draft)
	}
	s.addEvent(string(how), reason, now)
}

// An actionError is why an action does not fit the rollout.
type actionError string

func (e actionError) Error() string { return string(e) }

// The actions of a person.
const (
	ActionPause   = "pause"
	ActionResume  = "resume"
	ActionPromote = "promote"
	ActionAbort   = "abort"
)

var actions = []string{ActionPause, ActionResume, ActionPromote, ActionAbort}

// applyAction does what a person decides, whose name is by. A draft that was taken back can still be promoted. The error is an
// [actionError].
func (s *state) applyAction(action, by string, now time.Time) error {
	switch {
	case s.Draft == "":
		return actionError("no rollout has begun; a change to an app with rollout in its app.yaml begins one")
	case action == ActionPromote && s.Status != statusPromoted:
		s.endRollout(statusPromoted, "promoted by "+by, now)
	case !s.isActive():
		return actionError(fmt.Sprintf("the rollout of revision %s has ended: %s", s.Draft, s.Status))
	case action == ActionAbort:
		s.endRollout(statusAborted, "aborted by "+by, now)
	case action == ActionPause && s.Status == statusRunning:
		s.pauseRollout("paused by "+by, now)
	case action == ActionResume && s.Status == statusPaused:
		s.Status, s.Reason, s.Resumed = statusRunning, "", now
		s.addEvent("resumed", "", now)
	case action == ActionPause:
		return actionError("the rollout is paused already: " + s.Reason)
	case action == ActionResume:
		return actionError("the rollout is not paused")
	default:
		return actionError(fmt.Sprintf("unknown action %q: known are %s", action, strings.Join(actions, ", ")))
	}
	s.signEvents(by)
	return nil
}

// appendRevision appends a revision, and drops the oldest beyond the limit.
func appendRevision(all []string, revision string) []string {
	all = append(slices.DeleteFunc(slices.Clone(all), func(r string) bool { return r == revision }), revision)
	return all[max(0, len(all)-maxRemembered):]
}

// isActive reports whether the rollout has not ended.
func (s *state) isActive() bool { return s.Status == statusRunning || s.Status == statusPaused }

// currentStep returns the step's index and the step.
func (s *state) currentStep() (int, step) {
	i := len(s.Began) - 1
	return i, s.Plan.Steps[i]
}

// currentShare is the draft's share at present.
func (s *state) currentShare() float64 {
	switch s.Status {
	case statusPromoted:
		return 1
	case statusRunning, statusPaused:
		_, current := s.currentStep()
		return current.Share
	}
	return 0
}

// shareAt returns the draft's share of the sessions that started at a time, 0 before the rollout.
func (s *state) shareAt(at time.Time) float64 {
	share := 0.0
	for i, began := range s.Began {
		if !at.Before(began) {
			share = s.Plan.Steps[i].Share
		}
	}
	return share
}

// computeBucket returns a unit's place in the order, from 0 to 1: it is on the draft if its place is below the
// share. A unit is a session, or a user.
func computeBucket(app, salt, unit string) float64 {
	sum := sha256.Sum256([]byte(app + "\x00" + salt + "\x00" + unit))
	return float64(binary.BigEndian.Uint64(sum[:8])>>11) / (1 << 53)
}

// unitOf returns what is assigned by chance.
func (s *state) unitOf(user, session string) string {
	if s.Plan.By == "user" {
		return user
	}
	return user + "\x00" + session
}

// encodeState returns the stored form.
func (s *state) encodeState() ([]byte, error) { return json.Marshal(s) }

// errState is the error for a stored state that this program cannot use.
var errState = errors.New("cannot read the stored rollout")

// decodeState reads a stored state, and checks what the other functions rely on.
func decodeState(data []byte) (*state, error) {
	s := &state{}
	if err := json.Unmarshal(data, s); err != nil {
		return nil, fmt.Errorf("%w: %w", errState, err)
	}
	switch s.Status {
	case StatusNone:
		return s, nil
	case statusRunning, statusPaused, statusPromoted, statusAborted:
	default:
		return nil, fmt.Errorf("%w: unknown status %.20q, of a newer agenthost", errState, s.Status)
	}
	if s.Plan == nil || len(s.Began) == 0 || len(s.Began) > len(s.Plan.Steps) || len(s.Tests) != len(s.Plan.Abort) || s.Draft == "" || s.Stable == "" {
		return nil, fmt.Errorf("%w: steps, conditions or revisions are missing", errState)
	}
	for _, t := range s.Tests {
		if (t.Ceiling == nil) == (t.Comparison == nil) {
			return nil, fmt.Errorf("%w: a condition has no test", errState)
		}
	}
	return s, nil
}
