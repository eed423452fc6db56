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
	what  string
	count func(ctx context.Context, s *site) (int, error)
	// control says what is done wrongly by broken, which must count something:
	// else the probe sees nothing. Without broken there is no control.
	control string
	broken  func(ctx context.Context, s *site) (int, error)
	// durable leaves out what does not outlive the process; tables has no
	// control there.
	durable, tables bool
}

// A site is an empty database at which something is tried.
type site struct {
	*lab
	*database
	dice *rand.Rand
}

// probes lists them in the order of the table.
func probes() []probe {
	return []probe{
		{
			what: "100 concurrent turns of one session: failed or mixed", count: turnsOfOneSession,
			control: "nobody waits in line", broken: turnsWithoutLine,
		},
		{
			what: "app: and user: keys of 32 concurrent writers: lost", count: lostKeys,
			control: "one JSON map of keys, read and written back", broken: lostKeysOfMap,
		},
		{
			what: "32 sessions written at once: locked, deadlocked or refused", count: lockedAppends,
			control: "transactions that lock as they go", broken: lockedTransactions, tables: true,
		},
		{
			what: "kill -9, events: lost, doubled, or without their state", count: tornAppends, durable: true,
			control: "the state is written after the event", broken: tornHalves,
		},
		{
			what: "kill -9, turns: shown events lost, or next turns failed", count: tornTurns, durable: true,
		},
		{
			what: "events of one microsecond, or of a clock set back: out of order", count: misplacedEvents,
			control: "ordered by time", broken: misplacedByTime,
		},
		{
			what: "numbers above 2^53, and 1.0: changed", count: changedNumbers,
			control: "numbers read as float64", broken: changedByFloat,
		},
		{
			what: "fields of events, known and unknown: lost or changed", count: lostFields,
			control: "fields that adk-go's table has no column for", broken: lostByColumns,
		},
		{
			what: "rows and state left after delete", count: leftRows,
			control: "only the session's row is deleted", broken: leftByRow, tables: true,
		},
	}
}

// A finding is what a probe and its control counted at one place.
type finding struct {
	count, control int
	skipped, alone bool // nothing was counted; there is no control
	err            error
}

// text is the cell of the table: a count, and behind it that of the control.
func (f finding) text() string {
	switch {
	case f.skipped:
		return "-"
	case f.err != nil:
		return "broke off"
	case f.alone:
		return fmt.Sprintf("%d", f.count)
	default:
		return fmt.Sprintf("%d / %d", f.count, f.control)
	}
}

func (f finding) ok() bool {
	return f.skipped || f.err == nil && f.count == 0 && (f.alone || f.control > 0)
}

// printZeros carries out all probes at all places and prints a table that must
// show zeros. It says whether it does.
func printZeros(ctx context.Context, l *lab, only *regexp.Regexp, out io.Writer) (bool, error) {
	there, absent, err := reachable(ctx)
	if err != nil {
		return false, err
	}
	ok, lines := true, [][]string{{"what is counted", "control: what is done wrongly"}}
	for _, at := range there {
		lines[0] = append(lines[0], at.name)
	}
	for _, p := range probes() {
		if !only.MatchString(p.what) {
			continue
		}
		fmt.Fprintln(l.progress, p.what)
		control := p.control
		if control == "" {
			control = "-"
		}
		line := []string{p.what, control}
		for _, at := range there {
			f := probeAt(ctx, l, p, at)
			if f.err != nil {
				fmt.Fprintf(l.progress, "%s: %s: %v\n", at.name, p.what, f.err)
			}
			ok = ok && f.ok()
			line = append(line, f.text())
		}
		lines = append(lines, line)
	}
	for _, a := range absent {
		fmt.Fprintln(l.progress, a)
	}
	fmt.Fprintf(out, "%s\nEach cell: counted / counted by the control.\n\n", l.about())
	return ok, printGrid(out, lines)
}

func probeAt(ctx context.Context, l *lab, p probe, at place) finding {
	if p.durable && !at.durable() {
		return finding{skipped: true}
	}
	f := finding{alone: p.broken == nil || p.tables && !at.durable()}
	f.count, f.err = l.tryOut(ctx, at, p.count)
	if f.err == nil && !f.alone {
		f.control, f.err = l.tryOut(ctx, at, p.broken)
	}
	return f
}

// tryOut counts something on a database of its own.
func (l *lab) tryOut(ctx context.Context, at place, count func(context.Context, *site) (int, error)) (n int, err error) {
	d, err := at.fresh(ctx, l.dir)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, d.drop(ctx)) }()
	return count(ctx, &site{l, d, rand.New(rand.NewPCG(l.seed, 0))})
}
