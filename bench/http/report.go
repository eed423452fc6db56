package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"agenthost/bench/internal/figure"
)

// A result is what a side did with a work in all rounds: its fastest one, and
// what failed in any.
type result struct {
	setup string
	outcome
	// failures are those of all rounds.
	failures int
	// err is why a round came to nothing.
	err error
}

func (r *result) add(o *outcome, err error) {
	if err != nil {
		r.err = err
		return
	}
	r.failures += o.failed
	why := cmp.Or(r.why, o.why)
	if r.wall == 0 || o.rate() > r.rate() {
		r.outcome = *o
	}
	r.why = why
}

// A line is a work that was done by agenthost, and by adk-go in all its setups.
type line struct {
	work   *work
	ours   *result
	theirs []*result
}

// best is adk-go's setup that answered the most.
func (l *line) best() *result {
	return slices.MaxFunc(l.theirs, func(a, b *result) int { return cmp.Compare(a.rate(), b.rate()) })
}

func (l *line) rateRatio() float64 { return figure.Ratio(l.ours.rate(), l.best().rate()) }

func (l *line) tailRatio() float64 {
	return figure.Ratio(float64(at(l.best().took, 0.99)), float64(at(l.ours.took, 0.99)))
}

// verdict is what the line is asked for, and whether it has it.
type verdict struct {
	what string
	met  bool
}

func (l *line) verdicts() []verdict {
	w := l.work
	var all []verdict
	if w.rate > 0 {
		all = append(all, verdict{fmt.Sprintf("answered %s of %s", figure.Times(l.rateRatio()), figure.Times(w.rate)), l.rateRatio() >= w.rate})
	}
	if w.tail > 0 {
		all = append(all, verdict{fmt.Sprintf("p99 %s of %s", figure.Times(l.tailRatio()), figure.Times(w.tail)), l.tailRatio() >= w.tail})
	}
	if w.memory > 0 {
		all = append(all, verdict{fmt.Sprintf("%s MB of %s", mega(l.ours.peak), mega(w.memory)), l.ours.peak > 0 && l.ours.peak <= w.memory})
	}
	return append(all, verdict{fmt.Sprintf("%d errors", l.ours.failures), l.ours.failures == 0 && l.ours.err == nil})
}

// A report is all that was compared.
type report struct{ lines []*line }

// met says whether all is reached that agenthost promises.
func (r *report) met() bool {
	for _, l := range r.lines {
		if slices.ContainsFunc(l.verdicts(), func(v verdict) bool { return !v.met }) {
			return false
		}
	}
	return true
}

// print writes the tables, adk-go's figure first in each pair, and below them what
// went wrong.
func (r *report) print(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "adk-go / agenthost\tanswered a second\tratio\terrors\tp50\tp99\tratio\n")
	for _, l := range r.lines {
		a, b := l.best(), l.ours
		fmt.Fprintf(t, "%s\t%s / %s\t%s\t%d / %d\t%s\t%s\t%s\n", l.work.name(),
			figure.Number(a.rate()), figure.Number(b.rate()), figure.Times(l.rateRatio()), a.failures, b.failures,
			pair(a.took, b.took, 0.5), pair(a.took, b.took, 0.99), figure.Times(l.tailRatio()))
	}
	fmt.Fprintf(t, "\nadk-go / agenthost\tCPU of an answer\tratio\tmost memory, MB\tratio\tadk-go's best setup\n")
	for _, l := range r.lines {
		a, b := l.best(), l.ours
		fmt.Fprintf(t, "%s\t%s / %s\t%s\t%s / %s\t%s\t%s\n", l.work.name(),
			figure.Time(a.each()), figure.Time(b.each()), figure.Times(figure.Ratio(float64(a.each()), float64(b.each()))),
			mega(a.peak), mega(b.peak), figure.Times(figure.Ratio(float64(a.peak), float64(b.peak))), cmp.Or(a.setup, "-"))
	}
	fmt.Fprintf(t, "\nadk-go / agenthost\tfirst byte p50\tp99\tfirst event p50\tp99\n")
	for _, l := range r.lines {
		if a, b := l.best(), l.ours; l.work.path == pathStream {
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", l.work.name(),
				pair(a.first, b.first, 0.5), pair(a.first, b.first, 0.99), pair(a.event, b.event, 0.5), pair(a.event, b.event, 0.99))
		}
	}
	fmt.Fprintf(t, "\npromised\tmeasured\tok\n")
	for _, l := range r.lines {
		for _, v := range l.verdicts() {
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
		for _, side := range append([]*result{l.ours}, l.theirs...) {
			name := theirsName
			if side == l.ours {
				name = oursName
			}
			why := cmp.Or(side.err, side.why)
			if why == nil {
				continue
			}
			if _, err := fmt.Fprintf(w, "\n%s, %s, %d errors, such as: %v\n", l.work.name(), strings.TrimSpace(name+" "+side.setup), side.failures, why); err != nil {
				return err
			}
		}
	}
	return nil
}

func pair(a, b []time.Duration, share float64) string {
	return figure.Time(at(a, share)) + " / " + figure.Time(at(b, share))
}

func mega(bytes int64) string { return fmt.Sprintf("%.0f", float64(bytes)/1e6) }
