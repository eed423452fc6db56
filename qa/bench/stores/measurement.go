package main

import (
	"cmp"
	"fmt"
	"io"
	"text/tabwriter"

	"agenthost/qa/bench/internal/figure"
)

const oursName = "agenthost"

// A measurement has both sides' results.
type measurement struct {
	engine, what string
	ours, theirs float64
	setup        string // adk-go's best configuration
	// target is the minimum ratio, and most agenthost's maximum result; 0 means none.
	target, most float64
	// floor is the result for the same statements without agenthost, and note the reason if it is
	// unknown. floorLimit is the maximum for agenthost's result divided by the floor; 0 means that
	// there is no floor.
	floor, floorLimit float64
	note              string
}

func (l measurement) speedup() float64 {
	return figure.Ratio(l.ours, l.theirs)
}

func (l measurement) met() bool {
	return l.speedup() >= l.target && (l.most == 0 || l.ours <= l.most) && l.nearFloor()
}

// distance returns agenthost's result divided by the floor.
func (l measurement) distance() float64 { return figure.Ratio(l.ours, l.floor) }

// nearFloor reports whether the distance is known and within its limit.
func (l measurement) nearFloor() bool {
	return l.floorLimit == 0 || l.distance() > 0 && l.distance() <= l.floorLimit
}

func printLines(w io.Writer, lines []measurement) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "database\twhat\tadk-go\tits best setup\t%s\tratio\ttarget\tfloor\tours / floor\tat most\tok\n", oursName)
	for _, l := range lines {
		ok := "-"
		if l.target > 0 || l.most > 0 || l.floorLimit > 0 {
			ok = map[bool]string{true: "yes", false: "NO"}[l.met()]
		}
		setup := l.setup
		if setup == "" {
			setup = "-"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", l.engine, l.what, figure.Number(l.theirs), setup, figure.Number(l.ours), figure.Times(l.speedup()), figure.Times(l.target),
			cmp.Or(l.note, figure.Number(l.floor)), figure.Times(l.distance()), figure.Times(l.floorLimit), ok)
	}
	return t.Flush()
}
