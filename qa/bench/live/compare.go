package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"agenthost/qa/bench/internal/command"
	"agenthost/qa/bench/internal/figure"
)

// The targets.
const (
	mostOfRelay   = 3.0       // agenthost's processor time by the relay's
	leastOfADK    = 3.0       // adk-go's processor time by agenthost's
	mostMemory    = 150 << 10 // a session's memory beyond the relay's
	mostIdle      = 400 << 20 // all idle sessions' memory
	mostForwarded = 20 * time.Millisecond
)

// A measurement is a load on a side, with its outcome.
type measurement struct {
	load
	*outcome
}

// compareSides measures all sides and prints the comparison. It reports whether all targets
// are met.
func compareSides(ctx context.Context, o *options, out, progress io.Writer) (bool, error) {
	fake, err := startProcess(ctx, &serverConfig{Side: fakeName})
	if err != nil {
		return false, err
	}
	defer func() { _ = fake.stop() }()
	loads := []load{
		{side: relayName, sessions: 500, warm: 5 * time.Second, lasts: 20 * time.Second},
		{side: oursName, sessions: 500, warm: 5 * time.Second, lasts: 20 * time.Second},
		{side: relayName, sessions: 100, warm: 5 * time.Second, lasts: 20 * time.Second},
		{side: oursName, sessions: 100, warm: 5 * time.Second, lasts: 20 * time.Second},
		{side: theirsName, sessions: 100, warm: 5 * time.Second, lasts: 20 * time.Second},
		{side: oursName, sessions: 5000, warm: 5 * time.Second, lasts: 5 * time.Second, silent: true},
	}
	if o.Quick {
		for i := range loads {
			loads[i].sessions, loads[i].warm, loads[i].lasts = min(loads[i].sessions/10, 50), time.Second, time.Second
		}
	}
	if loads, err = command.Chosen(o.Flags, loads, func(l load) string { return l.side }); err != nil {
		return false, err
	}
	var all []measurement
	for _, l := range loads {
		fmt.Fprintf(progress, "%s, %d sessions\n", l.side, l.sessions)
		profile := ""
		if l.side == oursName && !l.silent {
			profile = o.profile
		}
		m, err := measureSide(ctx, &l, &serverConfig{Side: l.side, Fake: fake.addr, Profile: profile})
		if err != nil {
			return false, err
		}
		all = append(all, *m)
	}
	return printReport(out, all)
}

func measureSide(ctx context.Context, l *load, at *serverConfig) (*measurement, error) {
	p, err := startProcess(ctx, at)
	if err != nil {
		return nil, err
	}
	o, err := l.runLoad(ctx, p)
	return &measurement{*l, o}, errors.Join(err, p.stop())
}

// printReport prints the measurements and the targets.
func printReport(out io.Writer, all []measurement) (bool, error) {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "side\tsessions\tframes a second\tCPU per frame\tp50\tp99\tmemory\tper session")
	for _, m := range all {
		if m.silent {
			fmt.Fprintf(t, "%s, idle\t%d\t-\t-\t-\t-\t%d MiB\t%d KiB\n", m.side, m.sessions, m.memory>>20, m.perSession(m.sessions)>>10)
			continue
		}
		fmt.Fprintf(t, "%s\t%d\t%.0f\t%s\t%s\t%s\t%d MiB\t%d KiB\n", m.side, m.sessions, float64(m.received)/m.wall.Seconds(),
			figure.Time(m.cpuPerFrame()), figure.Time(quantile(m.took, 0.5)), figure.Time(quantile(m.took, 0.99)),
			m.memory>>20, m.perSession(m.sessions)>>10)
	}
	fmt.Fprintln(t)
	met := true
	for _, target := range findTargets(all) {
		word := "met"
		if !target.met {
			met, word = false, "MISSED"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\n", target.name, target.got, word)
	}
	return met, t.Flush()
}

// A target is a promise with what was measured.
type target struct {
	name, got string
	met       bool
}

func findTargets(all []measurement) []target {
	find := func(side string, silent bool) (first, last *measurement) {
		for i := range all {
			if m := &all[i]; m.side == side && m.silent == silent {
				if first == nil {
					first = m
				}
				last = m
			}
		}
		return first, last
	}
	var targets []target
	relay, _ := find(relayName, false)
	many, few := find(oursName, false)
	theirs, _ := find(theirsName, false)
	idle, _ := find(oursName, true)
	if relay != nil && many != nil {
		ratio := figure.Ratio(float64(many.cpuPerFrame()), float64(relay.cpuPerFrame()))
		more := many.perSession(many.sessions) - relay.perSession(relay.sessions)
		targets = append(targets,
			target{fmt.Sprintf("CPU by that of the relay, at most %.0f×", mostOfRelay), figure.Times(ratio), ratio <= mostOfRelay},
			target{fmt.Sprintf("memory of a session beyond the relay's, at most %d KiB", mostMemory>>10), fmt.Sprintf("%d KiB", more>>10), more <= mostMemory})
	}
	if many != nil {
		p99 := quantile(many.took, 0.99)
		targets = append(targets, target{fmt.Sprintf("p99 of forwarding there and back, at most %s", mostForwarded), figure.Time(p99), p99 <= mostForwarded})
	}
	if theirs != nil && few != nil {
		ratio := figure.Ratio(float64(theirs.cpuPerFrame()), float64(few.cpuPerFrame()))
		targets = append(targets, target{fmt.Sprintf("CPU of adk-go by ours, at least %.0f×", leastOfADK), figure.Times(ratio), ratio >= leastOfADK})
	}
	if idle != nil {
		targets = append(targets, target{fmt.Sprintf("memory of %d idle sockets, at most %d MiB", idle.sessions, mostIdle>>20), fmt.Sprintf("%d MiB", idle.memory>>20), idle.memory <= mostIdle})
	}
	return targets
}
