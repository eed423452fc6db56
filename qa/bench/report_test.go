package main

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestBestMedian(t *testing.T) {
	tests := []struct {
		name   string
		rounds []int
		want   int
	}{
		{"none", nil, 0},
		{"one", []int{7}, 7},
		{"the median, not the minimum", []int{9, 1, 5}, 5},
		{"the lowest median", []int{9, 8, 7, 4, 5, 6}, 5},
		{"a short block at the end", []int{9, 8, 7, 1}, 8},
	}
	for _, tt := range tests {
		var rounds []Cost
		for _, n := range tt.rounds {
			rounds = append(rounds, Cost{CPU: time.Duration(n)})
		}
		if got := bestMedian(rounds, 3); got.CPU != time.Duration(tt.want) {
			t.Errorf("%s: bestMedian(%v) = %d, want %d", tt.name, tt.rounds, got.CPU, tt.want)
		}
	}
}

func TestMeasureOps(t *testing.T) {
	tests := []struct {
		name  string
		limit time.Duration
		want  int
	}{
		{"all", time.Hour, 5},
		{"at least once", 0, 1},
	}
	for _, tt := range tests {
		calls := 0
		_, n, err := measureOps(5, tt.limit, func(int) error { calls++; return nil })
		if n != tt.want || calls != n || err != nil {
			t.Errorf("%s: measureOps() = %d operations, %v, %d calls, want %d", tt.name, n, err, calls, tt.want)
		}
	}
	boom := errors.New("boom")
	if _, _, err := measureOps(1, 0, func(int) error { return boom }); !errors.Is(err, boom) {
		t.Errorf("measureOps() = %v, want %v", err, boom)
	}
}

// sampleReport has targets that are reached, missed, unknown and absent.
func sampleReport() *Report {
	cost := func(side string, cpu time.Duration, allocs float64) Measured {
		return Measured{Side: side, Cost: Cost{CPU: cpu, Wall: 2 * cpu, Allocs: allocs}}
	}
	r := &Report{}
	r.addResult(Result{Workload: "fast", Target: 6, Sides: []Measured{cost(theirsName, 120*time.Microsecond, 400), cost(oursName, 10*time.Microsecond, 40)}})
	r.addResult(Result{Workload: "slow", Target: 50, Sides: []Measured{cost(theirsName, 3*time.Millisecond, 9000), cost(oursName, time.Millisecond, 90)}})
	r.addResult(Result{Workload: "broken", Target: 5, Sides: []Measured{cost(theirsName, 2*time.Millisecond, 100), {Side: oursName, Error: "no disk"}}})
	r.addResult(Result{
		Workload: "bounded", Limit: Limit{CPU: 600 * time.Nanosecond, Allocs: 4},
		Sides: []Measured{cost(theirsName, 4*time.Microsecond, 15), cost(oursName, 550*time.Nanosecond, 3.5)},
	})
	r.addResult(Result{
		Workload: "unbounded", Limit: Limit{CPU: 600 * time.Nanosecond, Allocs: 4},
		Sides: []Measured{cost(theirsName, 4*time.Microsecond, 15), cost(oursName, 500*time.Nanosecond, 4.5)},
	})
	r.addResult(Result{Workload: "few", Limit: Limit{Allocs: 35}, Sides: []Measured{cost(oursName, time.Microsecond, 35)}})
	r.addResult(Result{Workload: "alone", Sides: []Measured{cost(theirsName, 7*time.Microsecond, 49)}})
	return r
}

func TestPrintTables(t *testing.T) {
	var b strings.Builder
	if err := sampleReport().printTables(&b); err != nil {
		t.Fatal(err)
	}
	want := `
workload   adk-go CPU  agenthost CPU  ratio  target  ok
fast       120.0 µs    10.0 µs        12×    6×      yes
slow       3.00 ms     1.00 ms        3×     50×     NO
broken     2.00 ms     -              -      5×      -
bounded    4.0 µs      0.6 µs         7.27×  -       -
unbounded  4.0 µs      0.5 µs         8×     -       -
few        -           1.0 µs         -      -       -
alone      7.0 µs      -              -      -       -

workload   adk-go wall  agenthost wall  ratio  adk-go allocs  agenthost allocs  ratio
fast       240.0 µs     20.0 µs         12×    400            40                10×
slow       6.00 ms      2.00 ms         3×     9000           90                100×
broken     4.00 ms      -               -      100            -                 -
bounded    8.0 µs       1.1 µs          7.27×  15             4                 4.29×
unbounded  8.0 µs       1.0 µs          8×     15             4                 3.33×
few        -            2.0 µs          -      -              35                -
alone      14.0 µs      -               -      49             -                 -

bounded: agenthost took 0.55 µs of 0.60, 3.5 allocations of 4: yes

unbounded: agenthost took 0.50 µs of 0.60, 4.5 allocations of 4: NO

few: agenthost 35.0 allocations of 35: yes

broken: agenthost failed: no disk
`
	if diff := cmp.Diff(want, "\n"+b.String()); diff != "" {
		t.Errorf("printTables() (-want +got):\n%s", diff)
	}
}

func TestAllMet(t *testing.T) {
	r := sampleReport()
	tests := []struct {
		name    string
		results []Result
		want    bool
	}{
		{"nothing measured", nil, true},
		{"reached", r.Results[:1], true},
		{"no target", r.Results[6:], true},
		{"within its limits", r.Results[3:4], true},
		{"within its limit of allocations", r.Results[5:6], true},
		{"over its limit", r.Results[4:5], false},
		{"missed", r.Results[1:2], false},
		{"unknown", r.Results[2:3], false},
	}
	for _, tt := range tests {
		if got := (&Report{Results: tt.results}).allMet(); got != tt.want {
			t.Errorf("%s: allMet() = %v, want %v", tt.name, got, tt.want)
		}
	}
}
