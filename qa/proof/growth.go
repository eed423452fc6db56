package main

import (
	"math"
	"slices"
)

// growthWindows is how many time windows there are. Each window's median reduces garbage collector
// noise.
const growthWindows = 20

// A memoryGrowth is a host's memory growth in MB per reload.
type memoryGrowth struct{ mean, slope, stdErr float64 }

// fitGrowth fits a line to the second half's live memory, when the session cache is full.
func (e *hostSoak) fitGrowth() memoryGrowth {
	settled := e.liveMB[len(e.liveMB)/2:]
	size := max(1, len(settled)/growthWindows)
	var at, mb []float64
	for window := range slices.Chunk(settled, size) {
		at = append(at, float64(len(at)*size)*e.measureEvery.Seconds()/e.reloadEvery.Seconds())
		mb = append(mb, slices.Sorted(slices.Values(window))[len(window)/2])
	}
	return fitLine(at, mb)
}

// fitLine fits a line by least squares. stdErr is its slope's standard error.
func fitLine(x, y []float64) memoryGrowth {
	n := float64(len(x))
	var mx, my, xx, xy, yy float64
	for i := range x {
		mx, my = mx+x[i]/n, my+y[i]/n
	}
	for i := range x {
		dx, dy := x[i]-mx, y[i]-my
		xx, xy, yy = xx+dx*dx, xy+dx*dy, yy+dy*dy
	}
	slope := xy / xx
	return memoryGrowth{my, slope, math.Sqrt(max(0, yy-slope*xy) / (n - 2) / xx)}
}
