package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"regexp"
)

// A probe counts something that must never be there.
type probe struct {
	name  string
	count func(ctx context.Context, s *sandbox) (int, error)
	// control says what is done wrongly by broken, which must count something:
	// else the probe sees nothing. Without broken there is no control.
	control      string
	countControl func(ctx context.Context, s *sandbox) (int, error)
	// durable leaves out what does not outlive the process; tables has no
	// control there.
	durable, needsTables bool
}

// A site is an empty database at which something is tried.
type sandbox struct {
	*lab
	*database
	random *rand.Rand
}

// allProbes lists them in the order of the table.
func allProbes() []probe {
	return []probe{
		{
			name: "100 concurrent turns of one session: failed or mixed", count: countConcurrentFailures,
			control: "nobody waits in line", countControl: countUnqueuedFailures,
		},
		{
			name: "app: and user: keys of 32 concurrent writers: lost", count: countLostKeys,
			control: "one JSON map of keys, read and written back", countControl: countLostKeysOfMap,
		},
		{
			name: "32 sessions written at once: locked, deadlocked or refused", count: countFailedAppends,
			control: "transactions that lock as they go", countControl: countFailedTransactions, needsTables: true,
		},
		{
			name: "kill -9, events: lost, doubled, or without their state", count: countTornAppends, durable: true,
			control: "the state is written after the event", countControl: countSplitWrites,
		},
		{
			name: "kill -9, turns: shown events lost, or next turns failed", count: countTornTurns, durable: true,
		},
		{
			name: "events of one microsecond, or of a clock set back: out of order", count: countMisplacedEvents,
			control: "ordered by time", countControl: countMisplacedByTime,
		},
		{
			name: "numbers above 2^53, and 1.0: changed", count: countChangedNumbers,
			control: "numbers read as float64", countControl: countChangedByFloat,
		},
		{
			name: "fields of events, known and unknown: lost or changed", count: countLostFields,
			control: "fields that adk-go's table has no column for", countControl: countLostByColumns,
		},
		{
			name: "rows and state left after delete", count: countLeftRows,
			control: "only the session's row is deleted", countControl: countLeftByRow, needsTables: true,
		},
	}
}

// A finding is what a probe and its control counted at one place.
type finding struct {
	count, control     int
	skipped, noControl bool // nothing was counted; there is no control
	err                error
}

// cellText is the cell of the table: a count, and behind it that of the control.
func (f finding) cellText() string {
	switch {
	case f.skipped:
		return "-"
	case f.err != nil:
		return "broke off"
	case f.noControl:
		return fmt.Sprintf("%d", f.count)
	default:
		return fmt.Sprintf("%d / %d", f.count, f.control)
	}
}

func (f finding) ok() bool {
	return f.skipped || f.err == nil && f.count == 0 && (f.noControl || f.control > 0)
}

// runProbes carries out all probes at all places and prints a table that must
// show zeros. It says whether it does.
func runProbes(ctx context.Context, l *lab, only *regexp.Regexp, out io.Writer) (bool, error) {
	backends, skipped, err := findBackends(ctx)
	if err != nil {
		return false, err
	}
	ok, lines := true, [][]string{{"what is counted", "control: what is done wrongly"}}
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
	fmt.Fprintf(out, "%s\nEach cell: counted / counted by the control.\n\n", l.describeRun())
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

// runOnFresh counts something on a database of its own.
func (l *lab) runOnFresh(ctx context.Context, b backend, count func(context.Context, *sandbox) (int, error)) (n int, err error) {
	d, err := b.createDatabase(ctx, l.dir)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, d.dropDatabase(ctx)) }()
	return count(ctx, &sandbox{l, d, rand.New(rand.NewPCG(l.seed, 0))})
}
