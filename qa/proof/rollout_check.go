package main

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// countMargin is how far a session must be from a rollout's begin and end, so that it is counted for
// certain.
const countMargin = 200 * time.Millisecond

// A rolloutTally sums up all fleets' results.
type rolloutTally struct {
	kills, deciders, promoted, aborted int
	sessions, counted, turns, cut      int
	duration                           time.Duration
	problems                           []string
}

// String summarizes the results.
func (t *rolloutTally) String() string {
	return fmt.Sprintf("%d kills in %s, %d of them of a decider; %d changes promoted, %d faulty ones taken back; %d sessions, %d counted, %d turns, %d cut off: %d problems%s",
		t.kills, t.duration.Round(time.Second), t.deciders, t.promoted, t.aborted, t.sessions, t.counted, t.turns, t.cut,
		len(t.problems), formatTrouble(t.problems[:min(3, len(t.problems))]))
}

func (t *rolloutTally) isKept() bool {
	return len(t.problems) == 0 && t.deciders > 0 && t.promoted >= rolloutFleets && t.aborted >= rolloutFleets && t.counted > 0 && t.cut > 0
}

func (t *rolloutTally) addFleet(f *rolloutFleet) {
	t.kills += f.kills
	t.deciders += f.deciders
	for _, s := range f.staged {
		t.problems = append(t.problems, s.findProblems()...)
		for _, e := range s.ended {
			switch e.view.Status {
			case "promoted":
				t.promoted++
			case "aborted":
				t.aborted++
			}
			t.counted += e.view.Counted.Stable + e.view.Counted.Draft
		}
		for _, c := range s.clients {
			t.sessions += len(c.sessions)
			t.turns += c.turns
			t.cut += c.cut
		}
	}
}

// findProblems compares the app's changes, and the sessions, with what they must be.
func (s *stagedRun) findProblems() (all []string) {
	var sessions []*shopSession
	for _, c := range s.clients {
		sessions = append(sessions, c.sessions...)
		for _, err := range c.unexplained {
			all = append(all, err.Error())
		}
		if c.unanswered > 0 {
			all = append(all, fmt.Sprintf("%d turns unanswered", c.unanswered))
		}
	}
	stable := 0
	for _, e := range s.ended {
		all = append(all, e.compareEvents(s.app)...)
		all = append(all, e.compareCounts(sessions)...)
		if e.view.Status == "promoted" {
			stable = e.number
		}
	}
	for _, one := range sessions {
		all = append(all, one.compareAnswers()...)
	}
	for _, rule := range s.last {
		if want := fmt.Sprint("Rule ", stable); rule != want {
			all = append(all, fmt.Sprintf("after the last change a session is on %s, want %s", rule, want))
		}
	}
	for i, p := range all {
		all[i] = s.app.name + ": " + p
	}
	return all
}

// compareEvents compares the change's stored events with those without a kill, and their numbers with
// 1, 2, 3 and so on, or from a later one if the first are dropped.
func (e *endedRollout) compareEvents(app *stagedApp) (all []string) {
	var got []string
	for i, ev := range e.view.Events {
		if want := e.view.Events[0].Number + i; ev.Number != want || ev.By == "" {
			all = append(all, fmt.Sprintf("change %d: event %d by %q, want number %d", e.number, ev.Number, ev.By, want))
		}
		if ev.Revision == e.view.Revision {
			got = append(got, fmt.Sprint(ev.Kind, " ", ev.Share))
		}
	}
	if !slices.Equal(got, app.want) {
		all = append(all, fmt.Sprintf("change %d %s (%s): events %s, want %s", e.number, e.view.Status, e.view.Reason, strings.Join(got, ", "), strings.Join(app.want, ", ")))
	}
	return all
}

// compareCounts compares the counts with the sessions that began between the rollout's begin and the wait
// before its end. One whose first turn was cut off, or is near these times, may count or not.
func (e *endedRollout) compareCounts(sessions []*shopSession) (all []string) {
	began, until := e.view.Steps[0].Began, e.view.Ended.Add(-rolloutWait)
	for _, side := range []struct {
		name          string
		rule, counted int
	}{{"stable", e.stable, e.view.Counted.Stable}, {"new", e.number, e.view.Counted.Draft}} {
		least, most := 0, 0
		for _, s := range sessions {
			if s.rule != fmt.Sprint("Rule ", side.rule) {
				continue
			}
			if s.sent.Before(until) && s.answered.After(began) {
				most++
			}
			if !s.cut && s.sent.After(began.Add(countMargin)) && s.answered.Before(until.Add(-countMargin)) {
				least++
			}
		}
		if side.counted < least || side.counted > most {
			all = append(all, fmt.Sprintf("change %d: %d sessions counted on the %s revision, want from %d to %d", e.number, side.counted, side.name, least, most))
		}
	}
	return all
}

// compareAnswers compares the stored answers with the received ones. All have one rule.
func (s *shopSession) compareAnswers() (all []string) {
	for _, answer := range s.answers {
		if !slices.Contains(s.stored, answer) {
			all = append(all, fmt.Sprintf("session %s: answer %q lost", s.id, answer))
		}
	}
	for _, answer := range slices.Concat(s.answers, s.stored) {
		if ruleOf(answer) != s.rule {
			all = append(all, fmt.Sprintf("session %s began on %s: answer %q", s.id, s.rule, answer))
			break
		}
	}
	return all
}

// countTamperedFound alters the results in each way that the proof must detect, and counts those that it
// detects.
func countTamperedFound(f *rolloutFleet) (found, changed int) {
	good, faulty := f.staged[0], f.staged[1]
	first := good.ended[0]
	session := good.clients[0].sessions[0]
	events := func(of *endedRollout, from, to int) func() func() {
		return func() func() {
			old := of.view.Events
			of.view.Events = slices.Insert(slices.Clone(old), to, old[from])
			for i := range of.view.Events {
				of.view.Events[i].Number = old[0].Number + i // only the kinds differ
			}
			return func() { of.view.Events = old }
		}
	}
	count := func(n *int) func() func() {
		return func() func() {
			old := *n
			*n = 2*old + 1
			return func() { *n = old }
		}
	}
	answers := func(list *[]string, altered ...string) func() func() {
		return func() func() {
			old := *list
			*list = altered
			return func() { *list = old }
		}
	}
	for _, alter := range []func() func(){
		events(first, 1, 1),                                   // a step twice
		events(first, 2, 3),                                   // promoted twice
		events(faulty.ended[0], 1, 2),                         // taken back twice
		count(&first.view.Counted.Stable),                     // counted twice
		count(&first.view.Counted.Draft),                      // counted twice
		answers(&session.stored, session.stored[1:]...),       // lost
		answers(&session.stored, "message by Rule 99"),        // another revision
		answers(&session.answers, "message by "+session.rule), // never stored
		answers(&good.last, "Rule 99"),                        // the change did not reach all
	} {
		changed++
		restore := alter()
		if len(good.findProblems())+len(faulty.findProblems()) > 0 {
			found++
		}
		restore()
	}
	return found, changed
}
