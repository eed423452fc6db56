package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"regexp"
)

// A probe counts one kind of failure.
type probe struct {
	name  string
	count func(ctx context.Context, s *sandbox) (int, error)
	// control describes what countControl does wrongly. Its count must not be zero, or
	// the probe is blind. A probe without countControl has no control.
	control      string
	countControl func(ctx context.Context, s *sandbox) (int, error)
	// durable skips memory. needsTables means that there is no control in memory.
	durable, needsTables bool
}

// A sandbox is an empty database for one proof.
type sandbox struct {
	*lab
	*database
	random *rand.Rand
}

// allProbes returns the probes in table order.
func allProbes() []probe {
	return []probe{
		{
			name: "100 concurrent turns of one session: failed or interleaved", count: countConcurrentFailures,
			control: "no queue of turns", countControl: countUnqueuedFailures,
		},
		{
			name: "app: and user: keys of 32 concurrent writers: lost", count: countLostKeys,
			control: "one JSON map of keys, read-modify-write", countControl: countLostKeysOfMap,
		},
		{
			name: "32 sessions written concurrently: locked, deadlocked or rejected", count: countFailedAppends,
			control: "transactions that lock in sequence", countControl: countFailedTransactions, needsTables: true,
		},
		{
			name: "kill -9, events: lost, duplicated or without their state", count: countTornAppends, durable: true,
			control: "state written after the event", countControl: countSplitWrites,
		},
		{
			name: "kill -9, turns: received events lost, or next turns failed", count: countTornTurns, durable: true,
		},
		{
			name: "events of one microsecond, or after a clock was set back: out of order", count: countMisplacedEvents,
			control: "ordered by time", countControl: countMisplacedByTime,
		},
		{
			name: "numbers above 2^53, and 1.0: changed", count: countChangedNumbers,
			control: "numbers read as float64", countControl: countChangedByFloat,
		},
		{
			name: "fields of events, known and unknown: lost or changed", count: countLostFields,
			control: "fields without a column in adk-go's table", countControl: countLostByColumns,
		},
		{
			name: "rows and state left after delete", count: countLeftRows,
			control: "only the session's row is deleted", countControl: countLeftByRow, needsTables: true,
		},
	}
}

// A finding has the counts for a probe and its control on one backend.
type finding struct {
	count, control     int
	skipped, noControl bool // the probe did not run; it has no control
	err                error
}

// cellText returns the table cell: the count and the control's.
func (f finding) cellText() string {
	switch {
	case f.skipped:
		return "-"
	case f.err != nil:
		return "aborted"
	case f.noControl:
		return fmt.Sprintf("%d", f.count)
	default:
		return fmt.Sprintf("%d / %d", f.count, f.control)
	}
}

func (f finding) ok() bool {
	return f.skipped || f.err == nil && f.count == 0 && (f.noControl || f.control > 0)
}

// runProbes runs the probes on all backends, prints a count table, and reports whether all are
// zero.
func runProbes(ctx context.Context, l *lab, only *regexp.Regexp, out io.Writer) (bool, error) {
	backends, skipped, err := findBackends(ctx)
	if err != nil {
		return false, err
	}
	ok, lines := true, [][]string{{"failures counted", "control"}}
	for _, b := range backends {
		lines[0] = append(lines[0], b.name)
	}
	for _, p := range allProbes() {
		if !only.MatchString(p.name) {
			continue
		}
		fmt.Fprintln(l.progress, p.name)
		control := p.control
		if control == "" {
			control = "-"
		}
		line := []string{p.name, control}
		for _, b := range backends {
			f := probeAt(ctx, l, p, b)
			if f.err != nil {
				fmt.Fprintf(l.progress, "%s: %s: %v\n", b.name, p.name, f.err)
			}
			ok = ok && f.ok()
			line = append(line, f.cellText())
		}
		lines = append(lines, line)
	}
	for _, a := range skipped {
		fmt.Fprintln(l.progress, a)
	}
	fmt.Fprintf(out, "%s\nEach cell: count / count of the control.\n\n", l.describeRun())
	return ok, printGrid(out, lines)
}

func probeAt(ctx context.Context, l *lab, p probe, b backend) finding {
	if p.durable && !b.isDurable() {
		return finding{skipped: true}
	}
	f := finding{noControl: p.countControl == nil || p.needsTables && !b.isDurable()}
	f.count, f.err = l.runOnFresh(ctx, b, p.count)
	if f.err == nil && !f.noControl {
		f.control, f.err = l.runOnFresh(ctx, b, p.countControl)
	}
	return f
}

// runOnFresh runs count on a temporary database.
func (l *lab) runOnFresh(ctx context.Context, b backend, count func(context.Context, *sandbox) (int, error)) (n int, err error) {
	d, err := b.createDatabase(ctx, l.dir)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, d.dropDatabase(ctx)) }()
	return count(ctx, &sandbox{l, d, rand.New(rand.NewPCG(l.seed, 0))})
}
