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
	// every is how often a collection costs next to nothing.
	every = 2 * time.Second
	// The bounds of the garbage, in percent of what is in use. Go's own is 100,
	// which is too little only as long as both together are less than room.
	least, most = 20, 100
	room        = 128 << 20
	// smallest is the heap that Go takes a share of where there is less.
	smallest = 4 << 20
)

// Keep sets the pace from now on, for as long as the process lives. It leaves a
// process alone whose user has set GOGC or GOMEMLIMIT.
func Keep() {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	p := &pacer{percent: most, seen: time.Now()}
	p.read()
	p.watch()
}

// A pacer looks at each collection.
type pacer struct {
	percent int
	seen    time.Time // the last collection
	// used is what GOGC is a share of: what is left of the heap, stacks and
	// variables. made is all that was ever allocated. Both are bytes.
	used, made uint64
}

// watch waits for a collection: it is when a thing goes that nobody has.
func (p *pacer) watch() {
	runtime.AddCleanup(new([32]byte), func(p *pacer) {
		p.adjust(time.Now())
		p.watch()
	}, p)
}

func (p *pacer) adjust(now time.Time) {
	made, took := p.made, now.Sub(p.seen)
	p.seen = now
	p.read()
	if percent := share(p.used, p.made-made, took); percent != p.percent {
		p.percent = percent
		debug.SetGCPercent(percent)
	}
}

func (p *pacer) read() {
	found := []metrics.Sample{
		{Name: "/gc/heap/allocs:bytes"}, {Name: "/gc/heap/live:bytes"}, {Name: "/gc/scan/stack:bytes"}, {Name: "/gc/scan/globals:bytes"},
	}
	metrics.Read(found)
	p.made, p.used = found[0].Value.Uint64(), 0
	for _, sample := range found[1:] {
		p.used += sample.Value.Uint64()
	}
}

// share is how much garbage, in percent of what is used, comes together in the time
// of every, where so many bytes were made in the time that it took.
func share(used, made uint64, took time.Duration) int {
	if used == 0 || took <= 0 {
		return most
	}
	percent := 100 * float64(made) * float64(every) / float64(took) / float64(used)
	bound := max(most, 100*room/float64(max(used, smallest))-100)
	return int(math.Round(min(max(percent, least), bound)))
}
