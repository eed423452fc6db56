package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// A benchResult is one workload in the bench's JSON report.
type benchResult struct {
	Workload string  `json:"workload"`
	Target   float64 `json:"target"`
	Ratio    float64 `json:"ratio"`
	Limit    opCost  `json:"limit"`
	Sides    []struct {
		Side  string `json:"side"`
		Error string `json:"error"`
		opCost
	} `json:"sides"`
}

// An opCost is an operation's measured or maximum cost.
type opCost struct {
	CPU    time.Duration `json:"cpuNs"`
	Allocs float64       `json:"allocs"`
}

// benchRows runs the bench's quick form. It builds the bench first, so that canceling the context
// ends the only process.
func benchRows(ctx context.Context, l *lab) ([]row, error) {
	program, file := filepath.Join(l.dir, "bench"), filepath.Join(l.dir, "bench.json")
	build := exec.CommandContext(ctx, "go", "build", "-o", program, ".")
	build.Dir = l.bench
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("building the bench: %w: %s", err, out)
	}
	run := exec.CommandContext(ctx, program, "-quick", "-json", file)
	run.Env = append(os.Environ(), "TMPDIR="+l.dir)
	if out, err := run.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("running the bench: %w: %s", err, out)
	}
	return readRatios(file)
}

func readRatios(file string) ([]row, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var report struct {
		Results []benchResult `json:"results"`
	}
	if err := json.Unmarshal(text, &report); err != nil {
		return nil, fmt.Errorf("parsing the bench report: %w", err)
	}
	if len(report.Results) == 0 {
		return nil, errors.New("the bench report has no results")
	}
	var rows []row
	for _, r := range report.Results {
		rows = append(rows, r.targetRow())
		if r.Limit != (opCost{}) {
			rows = append(rows, r.limitRow())
		}
	}
	return rows, nil
}

// targetRow returns a workload's row. A workload without a target only has to be measured.
func (r benchResult) targetRow() row {
	promised := r.Workload + ": measured with adk-go"
	if r.Target > 0 {
		promised = fmt.Sprintf("%s: %.3g× less CPU than adk-go", r.Workload, r.Target)
	}
	shown := fmt.Sprintf("%.*f×", ratioDecimals(r.Ratio), r.Ratio)
	for _, s := range r.Sides {
		if s.Error != "" {
			shown += fmt.Sprintf("; %s failed: %s", s.Side, s.Error)
		}
	}
	return row{promised, shown, r.Ratio > 0 && r.Ratio >= r.Target}
}

// limitRow returns the cost limit's row.
func (r benchResult) limitRow() row {
	var took opCost
	for _, s := range r.Sides {
		if s.Side == "agenthost" {
			took = s.opCost
		}
	}
	micros := func(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
	return row{
		fmt.Sprintf("%s: at most %.2g µs of CPU and %.0f allocations", r.Workload, micros(r.Limit.CPU), r.Limit.Allocs),
		fmt.Sprintf("%.2f µs, %.1f", micros(took.CPU), took.Allocs),
		took.CPU > 0 && took.CPU <= r.Limit.CPU && took.Allocs <= r.Limit.Allocs,
	}
}

// ratioDecimals returns how many decimals give three significant digits, so that a ratio just below
// its target is not rounded up to it.
func ratioDecimals(ratio float64) int {
	switch {
	case ratio < 10:
		return 2
	case ratio < 100:
		return 1
	}
	return 0
}
