package rollout

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"agenthost/pkg/runtime"
	"agenthost/pkg/store"
)

const (
	// trafficDays is over how many days the traffic is averaged.
	trafficDays = 7
	// maxTraffic is how many sessions are counted for it.
	maxTraffic = 10_000
	// The fault as an example that a comparison is estimated for.
	exampleStable, exampleNew = 0.1, 0.3
)

// PlanRollout describes what a change to an app will go through: how long the steps take with the
// last days' traffic, and which conditions have too few sessions to compare. It is nil for an
// app without rollout.
func PlanRollout(ctx context.Context, stored *store.Outcomes, app *runtime.App, now time.Time) ([]string, error) {
	plan, _ := app.Section(sectionKey).(*Plan)
	if plan == nil {
		return nil, nil
	}
	perDay, err := countTraffic(ctx, stored, app.Name(), now)
	if errors.Is(err, store.ErrNoOutcomes) {
		return []string{"rollout: the session store has no outcomes; the change serves at once"}, nil
	}
	if err != nil {
		return nil, err
	}
	return plan.estimateSteps(perDay), nil
}

// countTraffic returns how many sessions a day began, as an average of the last days.
func countTraffic(ctx context.Context, stored *store.Outcomes, app string, now time.Time) (perDay float64, err error) {
	since, oldest, n := now.Add(-trafficDays*24*time.Hour), now, 0
	more, err := stored.EachSession(ctx, &store.OutcomeRequest{App: app, MaxSessions: maxTraffic}, func(one *store.SessionOutcomes) error {
		if one.Created.Before(since) {
			return errEnough
		}
		n, oldest = n+1, one.Created
		return ctx.Err()
	})
	if errors.Is(err, errEnough) {
		more, err = false, nil
	}
	days := now.Sub(oldest).Hours() / 24
	if !more {
		days = max(days, 1) // a new app, or one with few sessions
	}
	return float64(n) / max(days, 1.0/24), err
}

// estimateSteps describes the plan at a number of new sessions a day.
func (p *Plan) estimateSteps(perDay float64) []string {
	steps, total, compared := "", time.Duration(0), 0.0
	for i, s := range p.Steps {
		if i == len(p.Steps)-1 {
			break // it ends the rollout
		}
		took := s.For
		if perDay > 0 {
			took = max(took, durationOf(float64(s.Min)/s.Share, perDay))
		}
		total += took
		compared += perDay * took.Hours() / 24
		steps += fmt.Sprintf("%.4g %% for %s, ", 100*s.Share, formatDuration(took))
	}
	if perDay == 0 {
		return []string{"rollout: no session began in the last days; the rollout pauses without sessions, and a person decides"}
	}
	lines := []string{fmt.Sprintf("rollout: %sthen all; about %s at %.0f new sessions a day", steps, formatDuration(total+p.Wait), perDay)}
	advice := ": only above(…) finds a fault meanwhile"
	if !slices.ContainsFunc(p.Abort, func(c condition) bool { return c.Test == testAbove }) {
		advice = ": add above(…), or longer steps"
	}
	for _, c := range p.Abort {
		if c.Test != testWorse || len(p.Steps) == 1 {
			continue
		}
		if need := p.estimateComparison(); need > compared {
			lines = append(lines, fmt.Sprintf("rollout: %s compares about %.0f sessions, and finds %.0f %% instead of %.0f %% after about %.0f (%s)%s",
				c.Source, compared, 100*exampleNew, 100*exampleStable, need, formatDuration(durationOf(need, perDay)), advice))
		}
	}
	return lines
}

// durationOf returns how long a number of sessions takes.
func durationOf(sessions, perDay float64) time.Duration {
	return time.Duration(sessions / perDay * 24 * float64(time.Hour))
}

// formatDuration rounds to minutes, or to days from three on.
func formatDuration(d time.Duration) string {
	if d >= 72*time.Hour {
		return fmt.Sprintf("%.0f days", d.Hours()/24)
	}
	return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
}

// estimateComparison returns after how many sessions a comparison at the share of the longest step
// finds the example. It is the time that the logarithm of the likelihood ratio takes to its bound by
// its mean growth, and a third more: the rates have to be learned first.
func (p *Plan) estimateComparison() float64 {
	longest := p.Steps[0]
	for _, s := range p.Steps[:len(p.Steps)-1] {
		if s.For > longest.For {
			longest = s
		}
	}
	mixed := longest.Share*exampleNew + (1-longest.Share)*exampleStable
	growth := longest.Share*computeDivergence(exampleNew, mixed) + (1-longest.Share)*computeDivergence(exampleStable, mixed)
	return 4.0 / 3 * math.Log(float64(len(p.Abort))/alpha) / growth
}

// computeDivergence returns Kullback and Leibler's, between two rates.
func computeDivergence(p, q float64) float64 {
	return p*math.Log(p/q) + (1-p)*math.Log((1-p)/(1-q))
}
