package main

import (
	"fmt"
	"io"
	"text/tabwriter"
)

const oursName = "agenthost"

// A line is one thing that was measured.
type line struct {
	engine, what string
	ours, theirs float64
	setup        string // of theirs
	// target is the least ratio, most what ours may be; 0 demands nothing.
	target, most float64
}

func (l line) ratio() float64 {
	if l.theirs == 0 {
		return 0
	}
	return l.ours / l.theirs
}

func (l line) met() bool {
	return l.ratio() >= l.target && (l.most == 0 || l.ours <= l.most)
}

func printLines(w io.Writer, lines []line) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "database\twhat\tadk-go\tits best setup\t%s\tratio\ttarget\tok\n", oursName)
	for _, l := range lines {
		ok := "-"
		if l.target > 0 || l.most > 0 {
			ok = map[bool]string{true: "yes", false: "NO"}[l.met()]
		}
		setup := l.setup
		if setup == "" {
			setup = "-"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", l.engine, l.what, number(l.theirs), setup, number(l.ours), times(l.ratio()), times(l.target), ok)
	}
	return t.Flush()
}

func number(n float64) string {
	switch {
	case n == 0:
		return "-"
	case n < 100:
		return fmt.Sprintf("%.2f", n)
	default:
		return fmt.Sprintf("%.0f", n)
	}
}

func times(n float64) string {
	if n == 0 {
		return "-"
	}
	return fmt.Sprintf("%.3g×", n)
}
