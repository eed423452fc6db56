package rollout

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"agenthost/pkg/session"
	"agenthost/pkg/store"
)

const (
	// grace is the time around a step's beginning in which replicas may still use the share
	// before. Sessions from this time are not compared.
	grace = 30 * time.Second
	// minPercentile is how many sessions a percentile requires.
	minPercentile = 20
	// patience is how often a step's time passes before the rollout pauses without enough sessions.
	patience = 2
)

// addSession counts a session whose wait is over, if it is the first one of its unit. Sessions come ordered
// by their start.
func (s *state) addSession(app string, one *store.SessionOutcomes, isFirst bool) {
	if one.ID <= s.Last {
		return
	}
	s.Last = one.ID
	if isFirst && !one.Created.Before(s.Began[0]) {
		s.countSession(app, one)
	}
}

// countSession counts a session on the revision that it began on.
func (s *state) countSession(app string, one *store.SessionOutcomes) {
	if len(one.Outcomes) == 0 {
		return
	}
	first := &one.Outcomes[len(one.Outcomes)-1]
	isDraft := first.Revision == s.Draft
	if !isDraft && first.Revision != s.Stable {
		return
	}
	var scores []float64
	for _, f := range one.Feedback {
		if f.Revision == first.Revision {
			scores = append(scores, f.Score)
		}
	}
	m := measureSession(sumOutcomes(one.Outcomes, first.Revision), scores)
	share, selected := s.shareAt(one.Created), false
	for i := range one.Outcomes { // an older host drops the mark when it begins an outcome
		selected = selected || one.Outcomes[i].Selected
	}
	byChance := !selected && !s.isNearStep(one.Created) && isDraft == (computeBucket(app, s.Salt, s.unitOf(one.Key.User, one.Key.ID)) < share)
	switch {
	case isDraft:
		s.Counted.Draft++
		if !one.Created.Before(s.Began[len(s.Began)-1]) {
			s.Counted.InStep++
		}
		if selected {
			s.Counted.Selected++
		}
	default:
		s.Counted.Stable++
	}
	if !byChance && !selected {
		s.Counted.Uncompared++
	}
	for i, c := range s.Plan.Abort {
		hit, known := c.evaluateMeasure(&m, s.Percentiles)
		t := s.Tests[i]
		switch {
		case !known:
		case t.Ceiling != nil && isDraft:
			t.Ceiling.Observe(hit)
		case t.Comparison != nil && byChance && share > 0 && share < 1:
			t.Comparison.Observe(isDraft, share, hit)
		}
	}
}

// isNearStep reports whether replicas may have had different shares at a time.
func (s *state) isNearStep(at time.Time) bool {
	return slices.ContainsFunc(s.Began, func(began time.Time) bool { return at.Sub(began).Abs() < grace })
}

// sumOutcomes adds up the outcomes on a revision.
func sumOutcomes(all []session.Outcome, revision string) *session.Outcome {
	total := &session.Outcome{Revision: revision}
	for i := range all {
		if all[i].Revision == revision {
			total.Add(&all[i])
		}
	}
	return total
}

// setPercentiles computes the stable revision's 90th percentiles from its sessions, unless there are
// too few.
func (s *state) setPercentiles(all []*store.SessionOutcomes) {
	values := map[string][]float64{}
	for _, one := range all {
		if len(one.Outcomes) == 0 || one.Outcomes[len(one.Outcomes)-1].Revision != s.Stable {
			continue
		}
		m := measureSession(sumOutcomes(one.Outcomes, s.Stable), nil)
		for name, value := range m.numbers {
			values[name] = append(values[name], value)
		}
	}
	s.Percentiles = map[string]float64{}
	for name, of := range values {
		if len(of) < minPercentile {
			continue
		}
		slices.Sort(of)
		s.Percentiles[name] = of[(len(of)*9+9)/10-1]
	}
}

// needsPercentiles reports whether a condition compares with a percentile.
func (p *Plan) needsPercentiles() bool {
	return slices.ContainsFunc(p.Abort, func(c condition) bool { return c.Percentile })
}

// decideRollout takes what follows from the counted sessions: an abort, a pause, the next step, the end, or
// nothing. It reports whether the status or the step changed. A paused rollout can only be aborted, and so can one
// with sessions that are due and not counted yet.
func (s *state) decideRollout(now time.Time, complete bool) bool {
	if !s.isActive() {
		return false
	}
	for i := range s.Tests {
		if s.Tests[i].isExceeded() {
			s.endRollout(statusAborted, s.describeTest(i), now)
			return true
		}
	}
	if s.Status == statusPaused || !complete {
		return false
	}
	at, current := s.currentStep()
	elapsed := now.Sub(s.Began[at])
	waited := min(elapsed, now.Sub(s.Resumed))
	switch last := len(s.Plan.Steps) - 1; {
	case at == last:
		s.endRollout(statusPromoted, "all steps passed", now)
	case elapsed < current.For:
		return false
	case s.Counted.InStep >= current.Min:
		if missing := s.listUnjudged(); at+1 == last && len(missing) > 0 {
			s.pauseRollout("inconclusive: "+strings.Join(missing, "; "), now)
			return true
		}
		s.beginStep(now)
	case current.For > 0 && waited >= patience*current.For:
		s.pauseRollout(fmt.Sprintf("inconclusive: %d of %d sessions on the new revision after %s", s.Counted.InStep, current.Min, elapsed.Truncate(time.Second)), now)
	default:
		return false
	}
	return true
}

// beginStep begins the next step. The last one ends the rollout at once.
func (s *state) beginStep(now time.Time) {
	s.Began, s.Counted.InStep = append(s.Began, now), 0
	if len(s.Began) == len(s.Plan.Steps) {
		s.endRollout(statusPromoted, "all steps passed", now)
		return
	}
	s.addEvent("step", "", now)
}

func (s *state) pauseRollout(reason string, now time.Time) {
	s.Status, s.Reason = statusPaused, reason
	s.addEvent("paused", reason, now)
}

// listUnjudged lists the conditions that no session was counted for, with the reason.
func (s *state) listUnjudged() []string {
	var all []string
	for i, c := range s.Plan.Abort {
		t := s.Tests[i]
		if t.Ceiling != nil && t.Ceiling.Seen.N > 0 || t.Comparison != nil && t.Comparison.New.N > 0 && t.Comparison.Old.N > 0 {
			continue
		}
		why := "no session has " + c.Measure
		if _, has := s.Percentiles[c.Measure]; c.Percentile && !has {
			why = fmt.Sprintf("revision %s had fewer than %d sessions with %s before", s.Stable, minPercentile, c.Measure)
		} else if t.Comparison != nil {
			why = "too few sessions to compare"
		}
		all = append(all, c.Source+": "+why)
	}
	return all
}

// isExceeded reports whether the test aborts the rollout.
func (t *test) isExceeded() bool {
	if t.Ceiling != nil {
		return t.Ceiling.IsExceeded()
	}
	return t.Comparison.IsWorse()
}

// describeTest describes a condition with what was counted for it.
func (s *state) describeTest(i int) string {
	t, source := s.Tests[i], s.Plan.Abort[i].Source
	if t.Ceiling != nil {
		return fmt.Sprintf("%s: %.0f of %.0f sessions on the new revision", source, t.Ceiling.Seen.Hits, t.Ceiling.Seen.N)
	}
	c := t.Comparison
	return fmt.Sprintf("%s: %.0f of %.0f sessions on the new revision, %.0f of %.0f on the stable one", source, c.New.Hits, c.New.N, c.Old.Hits, c.Old.N)
}
