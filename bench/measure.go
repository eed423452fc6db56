package main

import (
	"cmp"
	"runtime"
	"slices"
	"syscall"
	"time"
)

// A Cost is what one operation took on average.
type Cost struct {
	// CPU is the time of all the process's threads, in the system too: the
	// garbage collector is part of it.
	CPU    time.Duration `json:"cpuNs"`
	Wall   time.Duration `json:"wallNs"`
	Allocs float64       `json:"allocs"`
	Bytes  float64       `json:"bytes"`
}

// dividedBy is the cost of one when n were taken together.
func (c Cost) dividedBy(n int) Cost {
	return Cost{
		CPU:    c.CPU / time.Duration(n),
		Wall:   c.Wall / time.Duration(n),
		Allocs: c.Allocs / float64(n),
		Bytes:  c.Bytes / float64(n),
	}
}

// measureOps calls op with 0, 1, 2 and so on, count times, or until limit is over,
// and at least once. It returns the mean cost and the number of calls. The
// heap is collected before, so that nobody pays for what was left behind.
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

// cpuTime is the processor time that the process has used so far. Linux counts
// it in microseconds, not in clock ticks.
func cpuTime() time.Duration {
	var u syscall.Rusage
	// It fails only for a bad pointer or a bad first argument.
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// bestMedian takes the median round, by CPU, of each block of rounds, and returns the
// cheapest of them. A neighbour on the machine can only make a round dearer,
// and a median is not fooled by one round that the collector spared. A short
// block counts only if it is all there is; without any round there is no cost.
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
