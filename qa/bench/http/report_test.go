package main

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// newOutcome returns an outcome with the given turns per second and latency.
func newOutcome(rate int, took time.Duration) *outcome {
	times := []time.Duration{took}
	return &outcome{answered: rate, wall: time.Second, cpu: time.Duration(rate) * took / 2, peakMemory: int64(rate) * 1e4, took: times, first: times, event: times}
}

// The fastest round counts, agenthost is compared with adk-go's best configuration, and
// an error in any round counts.
func TestReport(t *testing.T) {
	memory, lite := allStorages()[0], allStorages()[1]
	fast := &comparison{work: newTurnWork(memory, pathRun, 32, script{}), ours: &result{}, theirs: []*result{{}}}
	fast.ours.addRound(newOutcome(3000, time.Millisecond), nil)
	fast.ours.addRound(newOutcome(2000, 2*time.Millisecond), nil)
	fast.theirs[0].addRound(newOutcome(1000, 4*time.Millisecond), nil)

	fast.floor = &result{}
	fast.floor.addRound(newOutcome(5000, 400*time.Microsecond), nil)

	slow := &comparison{work: newTurnWork(lite, pathStream, 256, script{}), ours: &result{}, theirs: []*result{{setup: "one"}, {setup: "many"}}}
	slow.ours.addRound(newOutcome(900, 10*time.Millisecond), nil)
	failed := newOutcome(800, 10*time.Millisecond)
	failed.failed, failed.lastErr = 2, errors.New("status 409: busy")
	slow.ours.addRound(failed, nil)
	slow.theirs[0].addRound(newOutcome(100, 90*time.Millisecond), nil)
	slow.theirs[1].addRound(nil, errors.New("no disk"))

	open := &comparison{work: openStreams(memory, 5000), ours: &result{}, theirs: []*result{{}}}
	open.ours.addRound(newOutcome(5000, time.Second), nil)
	open.ours.peakMemory = 351e6
	open.theirs[0].addRound(newOutcome(5000, time.Second), nil)

	r := &report{lines: []*comparison{fast, slow, open}}
	var b strings.Builder
	if err := r.printTables(&b); err != nil {
		t.Fatal(err)
	}
	want := `
adk-go / agenthost                  turns a second  ratio  errors  p50                      p99                      ratio
memory /run, 32 clients             1000 / 3000     3×     0 / 0   4.00 ms / 1.00 ms        4.00 ms / 1.00 ms        4×
sqlite /run_sse, 256 clients        100 / 900       9×     0 / 2   90.00 ms / 10.00 ms      90.00 ms / 10.00 ms      9×
memory /run_sse, 5000 open streams  5000 / 5000     1×     0 / 0   1000.00 ms / 1000.00 ms  1000.00 ms / 1000.00 ms  1×

adk-go / agenthost                  CPU of a turn          ratio  floor     ours / floor  peak memory, MB  ratio   adk-go's best setup
memory /run, 32 clients             2.00 ms / 500.0 µs     4×     200.0 µs  2.5×          10 / 30          0.333×  -
sqlite /run_sse, 256 clients        45.00 ms / 5.00 ms     9×     -         -             1 / 9            0.111×  one
memory /run_sse, 5000 open streams  500.00 ms / 500.00 ms  1×     -         -             50 / 351         0.142×  -

adk-go / agenthost                  first byte p50           p99                      first event p50          p99
sqlite /run_sse, 256 clients        90.00 ms / 10.00 ms      90.00 ms / 10.00 ms      90.00 ms / 10.00 ms      90.00 ms / 10.00 ms
memory /run_sse, 5000 open streams  1000.00 ms / 1000.00 ms  1000.00 ms / 1000.00 ms  1000.00 ms / 1000.00 ms  1000.00 ms / 1000.00 ms

target                              measured                             ok
memory /run, 32 clients             rate 3× of 3×                        yes
memory /run, 32 clients             p99 4× of 3×                         yes
memory /run, 32 clients             CPU 2.5× of the floor, at most 2.5×  yes
memory /run, 32 clients             0 errors                             yes
sqlite /run_sse, 256 clients        rate 9× of 10×                       NO
sqlite /run_sse, 256 clients        2 errors                             NO
memory /run_sse, 5000 open streams  351 MB of 350                        NO
memory /run_sse, 5000 open streams  0 errors                             yes

sqlite /run_sse, 256 clients, agenthost, 2 errors, such as: status 409: busy

sqlite /run_sse, 256 clients, adk-go many, 0 errors, such as: no disk
`
	if diff := cmp.Diff(want, "\n"+b.String()); diff != "" {
		t.Errorf("printTables() (-want +got):\n%s", diff)
	}
	if r.allMet() || !(&report{lines: r.lines[:1]}).allMet() {
		t.Errorf("allMet() = %v of all, %v of the first", r.allMet(), !r.allMet())
	}
}

func TestQuantile(t *testing.T) {
	times := []time.Duration{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}
	for share, want := range map[float64]time.Duration{0: 1, 0.5: 6, 0.99: 10, 1: 10} {
		if got := quantile(times, share); got != want {
			t.Errorf("quantile(%v) = %d, want %d", share, got, want)
		}
	}
	if got := quantile(nil, 0.5); got != 0 {
		t.Errorf("quantile(nil) = %d", got)
	}
}
