package rollout

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"agenthost/pkg/session"
	"agenthost/pkg/store"
)

var start = time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)

// newPlan returns a plan that counts sessions at once.
func newPlan(t testing.TB, steps []step, abort ...string) *Plan {
	t.Helper()
	p := &Plan{By: "session", Steps: steps, Then: "keep"}
	for _, source := range abort {
		c, err := parseCondition(source)
		if err != nil {
			t.Fatal(err)
		}
		p.Abort = append(p.Abort, c)
	}
	return p
}

// newState returns a rollout that began at start.
func newState(plan *Plan) *state {
	s := &state{Status: StatusNone, Stable: "old"}
	s.beginRollout(candidate{revision: "new"}, plan, "salt", start)
	return s
}

// A traffic creates sessions one after another, and decides after each.
type traffic struct {
	state   *state
	failing map[string]float64 // rate by revision
	random  *rand.Rand
	now     time.Time
	count   int64
}

// addSession runs a session of one turn, which fails at its revision's rate.
func (f *traffic) addSession() {
	f.count++
	f.now = f.now.Add(time.Minute)
	id := strconv.FormatInt(f.count, 10)
	revision := f.state.Stable
	if computeBucket("app", f.state.Salt, f.state.unitOf("u"+id, id)) < f.state.currentShare() {
		revision = f.state.Draft
	}
	o := session.Outcome{Revision: revision, Turns: 1, Millis: 1000}
	if f.random.Float64() < f.failing[revision] {
		o.Failures = []session.CodeCount{{Code: "X", Turns: 1}}
	}
	f.state.addSession("app", &store.SessionOutcomes{
		Key: session.Key{App: "app", User: "u" + id, ID: id}, ID: f.count, Created: f.now, Outcomes: []session.Outcome{o},
	}, true)
	f.state.decideRollout(f.now, true)
}

// Over whole rollouts with two conditions, a revision that is as good as the stable one is taken back
// in at most 5 %, and a bad one always.
func TestRolloutCharacteristics(t *testing.T) {
	for _, share := range []float64{0.05, 0.2, 0.5} {
		for _, tt := range []struct {
			newRate      float64
			least, most  int
			rollouts, of int
		}{{0.05, 0, 50, 1000, 600}, {0.6, 100, 100, 100, 3000}} {
			aborted := 0
			for i := range tt.rollouts {
				steps := []step{{share, time.Hour, 10}, {min(2*share, 0.9), time.Hour, 10}, {1, 0, 1}}
				f := &traffic{
					state: newState(newPlan(t, steps, "above(failed, 0.15)", "worse(failed, 0)")), now: start.Add(time.Minute),
					random: rand.New(rand.NewPCG(7, uint64(i))), failing: map[string]float64{"old": 0.05, "new": tt.newRate},
				}
				f.state.Salt = strconv.Itoa(i)
				for range tt.of {
					if f.state.isActive() {
						f.addSession()
					}
				}
				if f.state.Status == statusAborted {
					aborted++
				}
			}
			if aborted < tt.least || aborted > tt.most {
				t.Errorf("share %v, failures 5 %% and %.0f %%: %d of %d rollouts were taken back, want %d to %d", share, 100*tt.newRate, aborted, tt.rollouts, tt.least, tt.most)
			}
		}
	}
}

// A rollout that continues from its stored form after each session ends as one that is never stored.
func TestRolloutStored(t *testing.T) {
	run := func(stored bool) string {
		f := &traffic{
			state: newState(newPlan(t, []step{{0.2, 24 * time.Hour, 5}, {1, 0, 1}}, "above(failed, 0.2)", "worse(failed, 0.02)")), now: start,
			random: rand.New(rand.NewPCG(1, 1)), failing: map[string]float64{"old": 0.05, "new": 0.4},
		}
		for range 300 {
			if stored {
				data, err := f.state.encodeState()
				if err != nil {
					t.Fatal(err)
				}
				if f.state, err = decodeState(data); err != nil {
					t.Fatal(err)
				}
			}
			if f.state.isActive() {
				f.addSession()
			}
		}
		return fmt.Sprintf("%s after %d: %s", f.state.Status, f.count, f.state.Reason)
	}
	got, want := run(true), run(false)
	if got != want || !strings.HasPrefix(got, "aborted") {
		t.Errorf("stored: %s\nnever stored: %s", got, want)
	}
}

// The steps of a rollout follow time and sessions, and end it.
func TestDecide(t *testing.T) {
	steps := []step{{0.1, time.Hour, 3}, {1, 0, 1}}
	for _, tt := range []struct {
		name    string
		after   time.Duration
		inStep  int
		compare bool // sessions were compared
		want    string
	}{
		{"time", 59 * time.Minute, 5, true, "running step 0"},
		{"sessions", time.Hour, 2, true, "running step 0"},
		{"patience", 2 * time.Hour, 2, true, "paused step 0 inconclusive: 2 of 3 sessions on the new revision after 2h0m0s"},
		{"unjudged", time.Hour, 3, false, "paused step 0 inconclusive: worse(failed, 0.02): too few sessions to compare"},
		{"end", time.Hour, 3, true, "promoted step 1 all steps passed"},
	} {
		s := newState(newPlan(t, steps, "worse(failed, 0.02)"))
		s.Counted.InStep = tt.inStep
		if c := s.Tests[0].Comparison; tt.compare {
			c.Old.N, c.New.N = 30, 3
		}
		changed := s.decideRollout(start.Add(tt.after), true)
		got := strings.TrimSpace(fmt.Sprintf("%s step %d %s", s.Status, len(s.Began)-1, s.Reason))
		if got != tt.want || changed != (tt.want != "running step 0") {
			t.Errorf("%s: %s (changed %v), want %s", tt.name, got, changed, tt.want)
		}
		if s.Status == statusPromoted && s.Stable != "new" {
			t.Errorf("%s: stable is %s after the promotion", tt.name, s.Stable)
		}
	}
}

// A session is counted once, on the revision that it began on, and none from before the rollout.
func TestCountSessions(t *testing.T) {
	s := newState(newPlan(t, []step{{0.5, time.Hour, 3}, {1, 0, 1}}, "above(failed, 0.5)"))
	add := func(id int64, minutes int, revisions ...string) {
		so := &store.SessionOutcomes{Key: session.Key{App: "app", User: "u", ID: strconv.FormatInt(id, 10)}, ID: id, Created: start.Add(time.Duration(minutes) * time.Minute)}
		for _, r := range revisions {
			so.Outcomes = append(so.Outcomes, session.Outcome{Revision: r, Turns: 1})
		}
		s.addSession("app", so, true)
	}
	for range 2 {
		add(2, -5, "new")
		add(5, 3)
		add(6, 4, "new")
		add(7, 5, "other")
		add(8, 5, "new", "old")
	}
	if got := s.Counted; got.Draft != 1 || got.Stable != 1 || s.Last != 8 {
		t.Errorf("counted %+v up to %d, want one of the new and one of the stable revision up to 8", got, s.Last)
	}
}

// All new sessions of a user are one unit.
func TestUserUnit(t *testing.T) {
	s := newState(newPlan(t, []step{{1, 0, 1}}, "above(failed, 0.5)"))
	s.Plan.By = "user"
	if s.unitOf("a", "1") != s.unitOf("a", "2") {
		t.Error("two sessions of a user are two units")
	}
}

// While sessions are due and not counted, a rollout can be aborted and does not advance.
func TestDecideIncomplete(t *testing.T) {
	s := newState(newPlan(t, []step{{0.5, time.Hour, 1}, {1, 0, 1}}, "above(failed, 0.3)"))
	s.Counted.InStep, s.Tests[0].Ceiling.Seen.N = 5, 5
	if s.decideRollout(start.Add(2*time.Hour), false) || s.Status != statusRunning {
		t.Errorf("it advanced: %s", s.Status)
	}
	s.Tests[0].Ceiling.Seen.Hits = 5
	if !s.decideRollout(start.Add(2*time.Hour), false) || s.Status != statusAborted {
		t.Errorf("five failures of five: %s", s.Status)
	}
}

// A share that grows only adds units, and the units of a rollout are not those of another one.
func TestBucket(t *testing.T) {
	inBoth, inFirst, inSecond := 0, 0, 0
	for i := range 20_000 {
		id := strconv.Itoa(i)
		first, second := computeBucket("app", "salt 1", id) < 0.1, computeBucket("app", "salt 2", id) < 0.1
		if first {
			inFirst++
		}
		if second {
			inSecond++
		}
		if first && second {
			inBoth++
		}
	}
	for name, tt := range map[string][3]int{"first": {inFirst, 1850, 2150}, "second": {inSecond, 1850, 2150}, "both": {inBoth, 140, 260}} {
		if tt[0] < tt[1] || tt[0] > tt[2] {
			t.Errorf("%s: %d of 20000 units at a share of 10 %%, want %d to %d", name, tt[0], tt[1], tt[2])
		}
	}
}

// The measures of a session, and what a condition finds without them.
func TestConditions(t *testing.T) {
	total := &session.Outcome{Turns: 2, Millis: 6000, Rejected: 1, Agents: []session.AgentOutcome{{Agent: "a", Calls: 2, Priced: 2, Input: 90, Output: 10, NanoUSD: 5e7, ToolErrors: 1}}}
	m := measureSession(total, []float64{-1, 0})
	for source, want := range map[string][2]bool{
		"above(failed, 0.1)":     {false, true},
		"above(tool_error, 0.1)": {true, true}, "above(rejected, 0.1)": {true, true},
		"above(seconds > 2.5, 0.1)": {true, true}, "above(seconds >= 3.5, 0.1)": {false, true},
		"above(tokens <= 100, 0.1)": {true, true}, "above(score < 0, 0.1)": {true, true},
		"worse(usd > stable.p90.usd, 0.1)": {true, true}, "worse(turns > stable.p90.turns, 0)": {true, false},
	} {
		c, err := parseCondition(source)
		if err != nil {
			t.Fatal(err)
		}
		hit, known := c.evaluateMeasure(&m, map[string]float64{"usd": 0.04})
		if known != want[1] || known && hit != want[0] {
			t.Errorf("%s: %v, known %v, want %v", source, hit, known, want)
		}
	}
	unpriced := measureSession(&session.Outcome{Turns: 1, Agents: []session.AgentOutcome{{Calls: 2, Priced: 1}}}, nil)
	for _, name := range []string{"usd", "score"} {
		if _, known := unpriced.numbers[name]; known {
			t.Errorf("%s is known", name)
		}
	}
	for source, want := range map[string]string{
		"failed":                               `"failed" is not a condition`,
		"below(failed, 0.1)":                   `unknown test "below": known are above and worse`,
		"above(crashed, 0.1)":                  `unknown measure "crashed": known are failed, tool_error, rejected`,
		"above(usd, 0.1)":                      "usd is a number: compare it, such as usd > 10",
		"above(failed > 1, 0.1)":               "failed is true or false: write it without >",
		"above(price > 1, 0.1)":                `unknown measure "price": known are seconds, tokens, usd, turns, score`,
		"worse(usd > stable.p90.seconds, 0.1)": "usd is compared with seconds: write stable.p90.usd",
		"worse(score < stable.p90.score, 0.1)": "score has no percentile: compare it with a number from -1 to 1, such as score < 0",
		"above(failed, 0)":                     "the limit of above is a share above 0 and below 1, got 0",
		"worse(failed, 1)":                     "the limit of worse is a share above 0 and below 1, got 1",
		"above(usd > 1.2.3, 0.1)":              `"above(usd > 1.2.3, 0.1)" has a malformed number`,
	} {
		if _, err := parseCondition(source); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", source, err, want)
		}
	}
}

// A percentile requires 20 sessions of the stable revision.
func TestPercentiles(t *testing.T) {
	s := newState(newPlan(t, []step{{1, 0, 1}}, "worse(seconds > stable.p90.seconds, 0.1)"))
	var all []*store.SessionOutcomes
	for i := range 40 {
		all = append(all, &store.SessionOutcomes{Outcomes: []session.Outcome{{Revision: []string{"old", "other"}[i%2], Turns: 1, Millis: int64(i) * 1000}}})
	}
	s.setPercentiles(all[:38])
	if len(s.Percentiles) != 0 {
		t.Errorf("percentiles of 19 sessions: %v", s.Percentiles)
	}
	s.setPercentiles(all)
	if got := s.Percentiles["seconds"]; got != 34 {
		t.Errorf("90th percentile of 0, 2, …, 38 = %v, want 34", got)
	}
}

// A stored state that cannot be used is an error, and a newer program's one is named.
func TestDecodeState(t *testing.T) {
	for data, want := range map[string]string{
		`{`:                    "cannot read the stored rollout: unexpected end of JSON input",
		`{"status":"waiting"}`: `cannot read the stored rollout: unknown status "waiting", of a newer agenthost`,
		`{"status":"running"}`: "cannot read the stored rollout: steps, conditions or revisions are missing",
		`{"status":"running","stable":"s","draft":"d","plan":{"steps":[{}],"abort":[{}]},"began":["2026-01-01T00:00:00Z"],"tests":[{}]}`: "cannot read the stored rollout: a condition has no test",
	} {
		if _, err := decodeState([]byte(data)); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", data, err, want)
		}
	}
}

// The estimate for a comparison is near the sessions that the simulated tests need.
func TestEstimate(t *testing.T) {
	for share, want := range map[float64]float64{0.05: 586, 0.2: 169, 0.5: 103} {
		p := newPlan(t, []step{{share, time.Hour, 10}, {1, 0, 1}}, "worse(failed, 0)")
		if got := p.estimateComparison(); got < 0.7*want || got > 1.4*want {
			t.Errorf("share %v: %.0f sessions, want about %.0f", share, got, want)
		}
	}
	p := newPlan(t, []step{{0.05, time.Hour, 30}, {0.5, 6 * time.Hour, 200}, {1, 0, 1}}, "above(failed, 0.1)", "worse(failed, 0.02)")
	for perDay, want := range map[float64]string{
		0:      "rollout: no session began in the last days; the rollout pauses without sessions, and a person decides",
		100:    "rollout: 5 % for 6 days, 50 % for 4 days, then all; about 10 days at 100 new sessions a day",
		100000: "rollout: 5 % for 1h00m, 50 % for 6h00m, then all; about 7h00m at 100000 new sessions a day",
	} {
		if got := strings.Join(p.estimateSteps(perDay), "\n"); got != want {
			t.Errorf("%v sessions a day: %s\nwant %s", perDay, got, want)
		}
	}
	short := newPlan(t, []step{{0.05, time.Hour, 1}, {1, 0, 1}}, "worse(failed, 0)")
	if got := short.estimateSteps(100); len(got) != 2 || !strings.Contains(got[1], "worse(failed, 0) compares about 20 sessions, and finds 30 % instead of 10 % after about") {
		t.Errorf("few sessions: %q", got)
	}
}

// Each action of a person fits some states only.
func TestActions(t *testing.T) {
	begin := func() *state {
		return newState(newPlan(t, []step{{0.5, time.Hour, 3}, {1, 0, 1}}, "above(failed, 0.5)"))
	}
	for _, tt := range []struct {
		actions string
		want    string
	}{
		{"pause", "paused: paused by ana; stable old"},
		{"pause pause", "the rollout is paused already: paused by ana"},
		{"resume", "the rollout is not paused"},
		{"pause resume", "running: ; stable old"},
		{"abort", "aborted: aborted by ana; stable old"},
		{"abort abort", "the rollout of revision new has ended: aborted"},
		{"promote pause", "the rollout of revision new has ended: promoted"},
		{"promote promote", "the rollout of revision new has ended: promoted"},
		{"abort promote", "promoted: promoted by ana; stable new"},
		{"explode", `unknown action "explode": known are pause, resume, promote, abort`},
	} {
		s, got := begin(), ""
		for action := range strings.FieldsSeq(tt.actions) {
			if err := s.applyAction(action, "ana", start.Add(time.Minute)); err != nil {
				got = err.Error()
			} else {
				got = fmt.Sprintf("%s: %s; stable %s", s.Status, s.Reason, s.Stable)
			}
		}
		if got != tt.want {
			t.Errorf("%s: %s, want %s", tt.actions, got, tt.want)
		}
	}
	none := &state{Status: StatusNone, Stable: "old"}
	if err := none.applyAction(ActionAbort, "ana", start); err == nil || err.Error() != "no rollout has begun; a change to an app with rollout in its app.yaml begins one" {
		t.Errorf("without a rollout: %v", err)
	}
	// A revision that was taken back and is promoted is no longer rejected.
	s := begin()
	_ = s.applyAction(ActionAbort, "ana", start)
	if len(s.Rejected) != 1 {
		t.Errorf("rejected %v", s.Rejected)
	}
	_ = s.applyAction(ActionPromote, "ana", start)
	if len(s.Rejected) != 0 {
		t.Errorf("rejected %v after the promotion", s.Rejected)
	}
}
