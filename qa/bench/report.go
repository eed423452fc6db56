package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"text/tabwriter"
	"time"

	"agenthost/qa/bench/internal/figure"
)

// Report columns.
const (
	theirsName = "adk-go"
	oursName   = "agenthost"
)

// A Report is a run's result, as written by -json.
type Report struct {
	Go          string   `json:"go"`
	CPUs        int      `json:"cpus"`
	Synchronous string   `json:"synchronous"`
	Quick       bool     `json:"quick"`
	Results     []Result `json:"results"`
}

// A Result is a workload's result.
type Result struct {
	Workload string  `json:"workload"`
	Target   float64 `json:"target,omitempty"`
	// Limit is agenthost's maximum cost; zero means no limit.
	Limit Limit      `json:"limit,omitzero"`
	Sides []Measured `json:"sides"`
	// Ratio is adk-go's CPU time divided by agenthost's; 0 if one is unknown.
	Ratio float64 `json:"ratio,omitempty"`
}

// A Limit is the maximum cost of one agenthost operation. Without CPU it limits
// the allocations only.
type Limit struct {
	CPU    time.Duration `json:"cpuNs"`
	Allocs float64       `json:"allocs"`
}

// isKept reports whether a cost is known and within the limit.
func (l Limit) isKept(c Cost) bool {
	return l == Limit{} || c.CPU > 0 && (l.CPU == 0 || c.CPU <= l.CPU) && c.Allocs <= l.Allocs
}

// Measured is a side's cost, or the reason why it is unknown.
type Measured struct {
	Side string `json:"side"`
	Cost
	Error string `json:"error,omitempty"`
}

func newReport(synchronous string, quick bool) *Report {
	return &Report{Go: runtime.Version(), CPUs: runtime.NumCPU(), Synchronous: synchronous, Quick: quick}
}

// addResult adds a result and computes its ratio.
func (r *Report) addResult(res Result) {
	a, b := res.costOf(theirsName), res.costOf(oursName)
	res.Ratio = figure.Ratio(float64(a.CPU), float64(b.CPU))
	r.Results = append(r.Results, res)
}

// allMet reports whether every target is reached and every limit kept. Unknown costs
// count as missed.
func (r *Report) allMet() bool {
	for _, res := range r.Results {
		if res.Target > 0 && res.Ratio < res.Target || !res.Limit.isKept(res.costOf(oursName)) {
			return false
		}
	}
	return true
}

// costOf returns a side's cost; zero if it failed or did not run.
func (r *Result) costOf(side string) Cost {
	for _, m := range r.Sides {
		if m.Side == side {
			return m.Cost
		}
	}
	return Cost{}
}

// printTables writes the tables, followed by limits and errors.
func (r *Report) printTables(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "workload\t%s CPU\t%s CPU\tratio\ttarget\tok\n", theirsName, oursName)
	for _, res := range r.Results {
		a, b := res.costOf(theirsName), res.costOf(oursName)
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\n", res.Workload, figure.Time(a.CPU), figure.Time(b.CPU),
			figure.Times(res.Ratio), figure.Times(res.Target), res.targetCell())
	}
	fmt.Fprintf(t, "\nworkload\t%s wall\t%s wall\tratio\t%s allocs\t%s allocs\tratio\n", theirsName, oursName, theirsName, oursName)
	for _, res := range r.Results {
		a, b := res.costOf(theirsName), res.costOf(oursName)
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", res.Workload, figure.Time(a.Wall), figure.Time(b.Wall),
			figure.Times(figure.Ratio(float64(a.Wall), float64(b.Wall))), formatCount(a.Allocs), formatCount(b.Allocs),
			figure.Times(figure.Ratio(a.Allocs, b.Allocs)))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if err := r.printLimits(w); err != nil {
		return err
	}
	return r.printErrors(w)
}

// printLimits writes the limits and the measured costs.
func (r *Report) printLimits(w io.Writer) error {
	for _, res := range r.Results {
		if res.Limit == (Limit{}) {
			continue
		}
		c, ok := res.costOf(oursName), "yes"
		if !res.Limit.isKept(c) {
			ok = "NO"
		}
		cpu := ""
		if res.Limit.CPU > 0 {
			cpu = fmt.Sprintf("took %.2f µs of %.2f, ", toMicros(c.CPU), toMicros(res.Limit.CPU))
		}
		if _, err := fmt.Fprintf(w, "\n%s: %s %s%.1f allocations of %.4g: %s\n",
			res.Workload, oursName, cpu, c.Allocs, res.Limit.Allocs, ok); err != nil {
			return err
		}
	}
	return nil
}

func (r *Report) printErrors(w io.Writer) error {
	for _, res := range r.Results {
		for _, m := range res.Sides {
			if m.Error == "" {
				continue
			}
			if _, err := fmt.Fprintf(w, "\n%s: %s failed: %s\n", res.Workload, m.Side, m.Error); err != nil {
				return err
			}
		}
	}
	return nil
}

// saveJSON writes the report as JSON.
func (r *Report) saveJSON(file string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(text, '\n'), 0o644)
}

// targetCell returns the last column: whether the target is reached, or "-" without a
// target.
func (r *Result) targetCell() string {
	switch {
	case r.Target == 0 || r.Ratio == 0:
		return "-"
	case r.Ratio >= r.Target:
		return "yes"
	default:
		return "NO"
	}
}

func toMicros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

func formatCount(n float64) string {
	if n == 0 {
		return "-"
	}
	return fmt.Sprintf("%.0f", n)
}
