package main

import (
	"context"
	"time"
)

// A workload is work that both sides do.
type workload struct {
	name string
	// target is the minimum ratio between adk-go's CPU time and agenthost's; 0 means no target.
	target float64
	// limit is agenthost's maximum cost; the zero Limit means no limit.
	limit Limit
	// round does the work for a while and returns the cost per operation. It returns an error if
	// the work was not done correctly. It leaves nothing in memory.
	round func(ctx context.Context, l *lab, s Side) (Cost, error)
}

// The maximum times for the measured part of a round. With long histories in memory, sessions would
// grow too much before agenthost's garbage collections were in proportion. Such rounds are so short
// that collections are rare on both sides.
const (
	longLimit  = 250 * time.Millisecond
	shortLimit = 50 * time.Millisecond
	// journalLimit allows more than a thousand durable turns in new sessions on both sides.
	// SQLite's WAL then reaches its working size, and checkpoints count, as in a long-running host.
	journalLimit = 3 * time.Second
)

// A lab has the settings for all rounds.
type lab struct {
	// dir is a folder for databases.
	dir string
	// synchronous is SQLite's setting during the measurement.
	synchronous string
}

// A plan limits how many rounds run.
type plan struct {
	blocks, rounds int           // rounds in each block
	budget         time.Duration // for a workload; the first block always runs
}

func planFor(quick bool) plan {
	if quick {
		return plan{blocks: 8, rounds: 3, budget: 1500 * time.Millisecond}
	}
	return plan{blocks: 5, rounds: 5, budget: 30 * time.Second}
}

// compareSides alternates between the sides. A side that failed is skipped.
func compareSides(ctx context.Context, l *lab, p plan, w workload, sides []Side) Result {
	costs := make([][]Cost, len(sides))
	errs := make([]error, len(sides))
	start := time.Now()
	for i := range p.blocks * p.rounds {
		if ctx.Err() != nil || i >= p.rounds && time.Since(start) > p.budget {
			break
		}
		for j, s := range sides {
			if errs[j] != nil {
				continue
			}
			c, err := w.round(ctx, l, s)
			costs[j], errs[j] = append(costs[j], c), err
		}
	}
	r := Result{Workload: w.name, Target: w.target, Limit: w.limit}
	for j, s := range sides {
		r.Sides = append(r.Sides, newMeasured(s.Name(), bestMedian(costs[j], p.rounds), errs[j]))
	}
	return r
}

func newMeasured(side string, c Cost, err error) Measured {
	if err != nil {
		return Measured{Side: side, Error: err.Error()}
	}
	return Measured{Side: side, Cost: c}
}
