// Package pace tunes Go's garbage collector for servers. At the default pace a host
// with thousands of quiet streams would hold twice the memory it needs, and a small
// busy host would collect many times a second. This package sets the GC percentage so
// that a collection happens about every two seconds.
package pace

import (
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// interval is the target time between two collections.
	interval = 2 * time.Second
	// The bounds of the GC percentage. Above heapRoom the maximum is Go's default of
	// 100; a smaller heap may grow to heapRoom.
	minPercent, maxPercent = 20, 100
	heapRoom               = 128 << 20
	// minHeap is the minimum heap that Go applies the percentage to.
	minHeap = 4 << 20
)

// Keep adjusts the GC percentage for the life of the process. It does nothing if GOGC
// or GOMEMLIMIT is set.
func Keep() {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	p := &pacer{percent: maxPercent, lastCollection: time.Now()}
	p.readMetrics()
	p.watchCollections()
}

// A pacer adjusts the GC percentage after each collection.
type pacer struct {
	percent        int
	lastCollection time.Time // the last collection
	// inUse is the base of GOGC in bytes: live heap, stacks and globals. allocated is
	// the total of bytes ever allocated.
	inUse, allocated uint64
}

// watchCollections adjusts the percentage after the next collection, which frees an
// unreachable object and runs its cleanup.
func (p *pacer) watchCollections() {
	runtime.AddCleanup(new([32]byte), func(p *pacer) {
		p.adjustPercent(time.Now())
		p.watchCollections()
	}, p)
}

func (p *pacer) adjustPercent(now time.Time) {
	made, took := p.allocated, now.Sub(p.lastCollection)
	p.lastCollection = now
	p.readMetrics()
	if percent := computePercent(p.inUse, p.allocated-made, took); percent != p.percent {
		p.percent = percent
		debug.SetGCPercent(percent)
	}
}

func (p *pacer) readMetrics() {
	samples := []metrics.Sample{
		{Name: "/gc/heap/allocs:bytes"}, {Name: "/gc/heap/live:bytes"}, {Name: "/gc/scan/stack:bytes"}, {Name: "/gc/scan/globals:bytes"},
	}
	metrics.Read(samples)
	p.allocated, p.inUse = samples[0].Value.Uint64(), 0
	for _, sample := range samples[1:] {
		p.inUse += sample.Value.Uint64()
	}
}

// computePercent returns the GC percentage at which the heap grows for about one
// interval between collections, given the bytes allocated in the elapsed time.
func computePercent(used, made uint64, took time.Duration) int {
	if used == 0 || took <= 0 {
		return maxPercent
	}
	percent := 100 * float64(made) * float64(interval) / float64(took) / float64(used)
	bound := max(maxPercent, 100*heapRoom/float64(max(used, minHeap))-100)
	return int(math.Round(min(max(percent, minPercent), bound)))
}
