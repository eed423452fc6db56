package main

import (
	"math"
	"slices"
)

// windows are the pieces of time of which each has one look at the memory: the
// median of many, since a collector's work comes and goes.
const windows = 20

// A growth is how a host's memory moves, in MB, with each reload.
type growth struct{ mean, slope, doubt float64 }

// growth fits a line to the memory, after half of the time, in which the cache
// of sessions fills and the collector settles.
func (e *endurance) growth() growth {
	settled := e.alive[len(e.alive)/2:]
	size := max(1, len(settled)/windows)
	var at, mb []float64
	for window := range slices.Chunk(settled, size) {
		at = append(at, float64(len(at)*size)*e.look.Seconds()/e.reload.Seconds())
		mb = append(mb, slices.Sorted(slices.Values(window))[len(window)/2])
	}
	return fitLine(at, mb)
}

// fitLine fits a line by least squares; the doubt is the standard error of its
// slope.
func fitLine(x, y []float64) growth {
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
	return growth{my, slope, math.Sqrt(max(0, yy-slope*xy) / (n - 2) / xx)}
}
