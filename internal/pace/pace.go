// Package pace sets how much garbage a server carries. Go's collector comes when
// there is as much of it as there is memory in use, however long that takes: a host
// of thousands of open streams that say little would hold twice what it needs, and a
// small one that is busy would be collected many times in a second. Here it comes
// about as often as costs next to nothing.
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
	// interval is how often a collection costs next to nothing.
	interval = 2 * time.Second
	// The bounds of the garbage, in percent of what is in use. Go's own is 100,
	// which is too little only as long as both together are less than room.
	minPercent, maxPercent = 20, 100
	heapRoom               = 128 << 20
	// minHeap is the heap that Go takes a share of where there is less.
	minHeap = 4 << 20
)

// Keep sets the pace from now on, for as long as the process lives. It leaves a
// process alone whose user has set GOGC or GOMEMLIMIT.
func Keep() {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	p := &pacer{percent: maxPercent, lastCollection: time.Now()}
	p.readMetrics()
	p.watchCollections()
}

// A pacer looks at each collection.
type pacer struct {
	percent        int
	lastCollection time.Time // the last collection
	// inUse is what GOGC is a share of: what is left of the heap, stacks and
	// variables. made is all that was ever allocated. Both are bytes.
	inUse, allocated uint64
}

// watchCollections waits for a collection: it is when a thing goes that nobody has.
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

// computePercent is how much garbage, in percent of what is used, comes together in the time
// of every, where so many bytes were made in the time that it took.
func computePercent(used, made uint64, took time.Duration) int {
	if used == 0 || took <= 0 {
		return maxPercent
	}
	percent := 100 * float64(made) * float64(interval) / float64(took) / float64(used)
	bound := max(maxPercent, 100*heapRoom/float64(max(used, minHeap))-100)
	return int(math.Round(min(max(percent, minPercent), bound)))
}
