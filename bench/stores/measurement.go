package main

import (
	"fmt"
	"io"
	"text/tabwriter"

	"agenthost/bench/internal/figure"
)

const oursName = "agenthost"

// A measurement has the results of both sides.
type measurement struct {
	engine, what string
	ours, theirs float64
	setup        string // adk-go's best configuration
	// target is the minimum ratio, and most the maximum of agenthost's result; 0 means
	// none.
	target, most float64
}

func (l measurement) speedup() float64 {
	return figure.Ratio(l.ours, l.theirs)
}

func (l measurement) met() bool {
	return l.speedup() >= l.target && (l.most == 0 || l.ours <= l.most)
}

func printLines(w io.Writer, lines []measurement) error {
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
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", l.engine, l.what, figure.Number(l.theirs), setup, figure.Number(l.ours), figure.Times(l.speedup()), figure.Times(l.target), ok)
	}
	return t.Flush()
}
