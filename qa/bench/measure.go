package main

import (
	"cmp"
	"runtime"
	"slices"
	"syscall"
	"time"
)

// A Cost is one operation's average cost.
type Cost struct {
	// CPU is the user and system time that all threads in the process used, including the garbage
	// collector.
	CPU    time.Duration `json:"cpuNs"`
	Wall   time.Duration `json:"wallNs"`
	Allocs float64       `json:"allocs"`
	Bytes  float64       `json:"bytes"`
}

// dividedBy returns the cost per operation for n operations.
func (c Cost) dividedBy(n int) Cost {
	return Cost{
		CPU:    c.CPU / time.Duration(n),
		Wall:   c.Wall / time.Duration(n),
		Allocs: c.Allocs / float64(n),
		Bytes:  c.Bytes / float64(n),
	}
}

// measureOps calls op with 0, 1, 2 and so on, count times or until the time limit, at least once.
// It returns the mean cost and how many calls it made. It runs the garbage collector first, so that
// earlier allocations do not count.
func measureOps(count int, limit time.Duration, op func(i int) error) (Cost, int, error) {
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start, cpu := time.Now(), cpuTime()
	n := 0
	for n < count && (n == 0 || time.Since(start) < limit) {
		if err := op(n); err != nil {
			return Cost{}, n, err
		}
		n++
	}
	total := Cost{CPU: cpuTime() - cpu, Wall: time.Since(start)}
	runtime.ReadMemStats(&after)
	total.Allocs = float64(after.Mallocs - before.Mallocs)
	total.Bytes = float64(after.TotalAlloc - before.TotalAlloc)
	return total.dividedBy(n), n, nil
}

// cpuTime returns the process's CPU time. Linux counts it in microseconds, not in clock ticks.
func cpuTime() time.Duration {
	var u syscall.Rusage
	// Getrusage fails only for invalid arguments.
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// bestMedian takes the median round in each block, by CPU time, and returns the lowest. Other load
// can only raise a result, and a median ignores a round without a garbage collection. A short last
// block counts only if it is the only one. Without rounds the cost is zero.
func bestMedian(rounds []Cost, block int) Cost {
	var cheapest Cost
	for i, b := range slices.Collect(slices.Chunk(rounds, block)) {
		if i > 0 && len(b) < block {
			break
		}
		b = slices.SortedFunc(slices.Values(b), func(a, b Cost) int { return cmp.Compare(a.CPU, b.CPU) })
		median := b[len(b)/2]
		if i == 0 || median.CPU < cheapest.CPU {
			cheapest = median
		}
	}
	return cheapest
}
