package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"agenthost/qa/bench/internal/figure"
)

// A result is a side's fastest round, with the failures from all rounds.
type result struct {
	setup string
	outcome
	// failures counts the failed turns in all rounds.
	failures int
	// err is a failed round's error.
	err error
}

func (r *result) addRound(o *outcome, err error) {
	if err != nil {
		r.err = err
		return
	}
	r.failures += o.failed
	lastErr := cmp.Or(r.lastErr, o.lastErr)
	if r.wall == 0 || o.rate() > r.rate() {
		r.outcome = *o
	}
	r.lastErr = lastErr
}

// A comparison has the results for agenthost, and for adk-go in all configurations.
type comparison struct {
	work   *work
	ours   *result
	theirs []*result
	// floor is a bare net/http handler with the same responses; nil if not measured.
	floor *result
}

// bestADK returns adk-go's result with the highest rate.
func (l *comparison) bestADK() *result {
	return slices.MaxFunc(l.theirs, func(a, b *result) int { return cmp.Compare(a.rate(), b.rate()) })
}

func (l *comparison) rateRatio() float64 { return figure.Ratio(l.ours.rate(), l.bestADK().rate()) }

func (l *comparison) tailRatio() float64 {
	return figure.Ratio(float64(quantile(l.bestADK().took, 0.99)), float64(quantile(l.ours.took, 0.99)))
}

// floorCPU returns the bare handler's CPU time per turn; 0 if unknown.
func (l *comparison) floorCPU() time.Duration {
	if l.floor == nil || l.floor.err != nil {
		return 0
	}
	return l.floor.cpuPerTurn()
}

// distance returns agenthost's CPU time per turn divided by the bare handler's.
func (l *comparison) distance() float64 {
	return figure.Ratio(float64(l.ours.cpuPerTurn()), float64(l.floorCPU()))
}

// A promise is a target and whether it is met.
type promise struct {
	what string
	met  bool
}

func (l *comparison) checkPromises() []promise {
	w := l.work
	var all []promise
	if w.rateTarget > 0 {
		all = append(all, promise{fmt.Sprintf("rate %s of %s", figure.Times(l.rateRatio()), figure.Times(w.rateTarget)), l.rateRatio() >= w.rateTarget})
	}
	if w.tailTarget > 0 {
		all = append(all, promise{fmt.Sprintf("p99 %s of %s", figure.Times(l.tailRatio()), figure.Times(w.tailTarget)), l.tailRatio() >= w.tailTarget})
	}
	if w.memory > 0 {
		all = append(all, promise{fmt.Sprintf("%s MB of %s", formatMB(l.ours.peakMemory), formatMB(w.memory)), l.ours.peakMemory > 0 && l.ours.peakMemory <= w.memory})
	}
	if w.floorLimit > 0 {
		met := l.distance() > 0 && l.distance() <= w.floorLimit && l.floor.failures == 0
		all = append(all, promise{fmt.Sprintf("CPU %s of the floor, at most %s", figure.Times(l.distance()), figure.Times(w.floorLimit)), met})
	}
	return append(all, promise{fmt.Sprintf("%d errors", l.ours.failures), l.ours.failures == 0 && l.ours.err == nil})
}

// A report has all comparisons.
type report struct{ lines []*comparison }

// allMet reports whether all targets are met.
func (r *report) allMet() bool {
	for _, l := range r.lines {
		if slices.ContainsFunc(l.checkPromises(), func(v promise) bool { return !v.met }) {
			return false
		}
	}
	return true
}

// printTables writes the tables, with adk-go's value first in each pair, followed by
// the errors.
func (r *report) printTables(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "adk-go / agenthost\tturns a second\tratio\terrors\tp50\tp99\tratio\n")
	for _, l := range r.lines {
		a, b := l.bestADK(), l.ours
		fmt.Fprintf(t, "%s\t%s / %s\t%s\t%d / %d\t%s\t%s\t%s\n", l.work.name(),
			figure.Number(a.rate()), figure.Number(b.rate()), figure.Times(l.rateRatio()), a.failures, b.failures,
			formatPair(a.took, b.took, 0.5), formatPair(a.took, b.took, 0.99), figure.Times(l.tailRatio()))
	}
	fmt.Fprintf(t, "\nadk-go / agenthost\tCPU of a turn\tratio\tfloor\tours / floor\tpeak memory, MB\tratio\tadk-go's best setup\n")
	for _, l := range r.lines {
		a, b := l.bestADK(), l.ours
		fmt.Fprintf(t, "%s\t%s / %s\t%s\t%s\t%s\t%s / %s\t%s\t%s\n", l.work.name(),
			figure.Time(a.cpuPerTurn()), figure.Time(b.cpuPerTurn()), figure.Times(figure.Ratio(float64(a.cpuPerTurn()), float64(b.cpuPerTurn()))),
			figure.Time(l.floorCPU()), figure.Times(l.distance()),
			formatMB(a.peakMemory), formatMB(b.peakMemory), figure.Times(figure.Ratio(float64(a.peakMemory), float64(b.peakMemory))), cmp.Or(a.setup, "-"))
	}
	fmt.Fprintf(t, "\nadk-go / agenthost\tfirst byte p50\tp99\tfirst event p50\tp99\n")
	for _, l := range r.lines {
		if a, b := l.bestADK(), l.ours; l.work.path == pathStream {
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", l.work.name(),
				formatPair(a.first, b.first, 0.5), formatPair(a.first, b.first, 0.99), formatPair(a.event, b.event, 0.5), formatPair(a.event, b.event, 0.99))
		}
	}
	fmt.Fprintf(t, "\ntarget\tmeasured\tok\n")
	for _, l := range r.lines {
		for _, v := range l.checkPromises() {
			fmt.Fprintf(t, "%s\t%s\t%s\n", l.work.name(), v.what, map[bool]string{true: "yes", false: "NO"}[v.met])
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	return r.printErrors(w)
}

func (r *report) printErrors(w io.Writer) error {
	for _, l := range r.lines {
		sides := append([]*result{l.ours}, l.theirs...)
		if l.floor != nil {
			sides = append(sides, l.floor)
		}
		for _, side := range sides {
			name := theirsName
			switch side {
			case l.ours:
				name = oursName
			case l.floor:
				name = floorName
			}
			lastErr := cmp.Or(side.err, side.lastErr)
			if lastErr == nil {
				continue
			}
			if _, err := fmt.Fprintf(w, "\n%s, %s, %d errors, such as: %v\n", l.work.name(), strings.TrimSpace(name+" "+side.setup), side.failures, lastErr); err != nil {
				return err
			}
		}
	}
	return nil
}

func formatPair(a, b []time.Duration, share float64) string {
	return figure.Time(quantile(a, share)) + " / " + figure.Time(quantile(b, share))
}

func formatMB(bytes int64) string { return fmt.Sprintf("%.0f", float64(bytes)/1e6) }
