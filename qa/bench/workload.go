package main

import (
	"context"
	"time"
)

// A workload is work that both sides do.
type workload struct {
	name string
	// target is the minimum ratio of adk-go's CPU time to agenthost's; 0 means no
	// target.
	target float64
	// limit is the maximum cost of agenthost; the zero Limit means no limit.
	limit Limit
	// round does the work for a while and returns the cost of one operation. It returns
	// an error if the work was not done correctly. It leaves nothing in memory.
	round func(ctx context.Context, l *lab, s Side) (Cost, error)
}

// The maximum times of the measured part of a round. With long histories in memory,
// sessions would grow too much before agenthost's garbage collections were in
// proportion. Such rounds are so short that collections are rare on both sides.
const (
	longLimit  = 250 * time.Millisecond
	shortLimit = 50 * time.Millisecond
	// journalLimit allows more than a thousand durable turns in new sessions on both
	// sides. SQLite's WAL then reaches its working size, and checkpoints are part of
	// the cost, as in a long-running host.
	journalLimit = 3 * time.Second
)

// allWorkloads returns the workloads in the order of the report.
func allWorkloads() []workload {
	return []workload{
		{name: "turn in memory, fresh session", target: 6, round: conversation{sessions: 2000, events: 0, turns: 1, limit: longLimit}.runRound},
		{name: "turn in memory, 10 events", round: conversation{sessions: 1000, events: 10, turns: 1, limit: longLimit}.runRound},
		{name: "turn in memory, 100 events", round: conversation{sessions: 200, events: 100, turns: 1, limit: shortLimit}.runRound},
		{name: "turn in memory, 1000 events", target: 50, round: conversation{sessions: 16, events: 1000, turns: 8, limit: shortLimit}.runRound},
		{name: "turn in memory, 5000 events", target: 100, round: conversation{sessions: 4, events: 5000, turns: 50, limit: shortLimit}.runRound},
		{name: "durable turn, fresh session", target: 5, round: conversation{durable: true, sessions: 3000, events: 0, turns: 1, limit: journalLimit}.runRound},
		{name: "durable turn, 1000 events", round: conversation{durable: true, sessions: 2, events: 1000, turns: 10, limit: longLimit}.runRound},
		{name: "durable turn, 5000 events", target: 50, round: conversation{durable: true, sessions: 1, events: 5000, turns: 50, limit: longLimit}.runRound},
		{name: "first turn over 5000 events", target: 5, round: conversation{cold: true, sessions: 8, events: 5000, turns: 1, limit: longLimit}.runRound},
		{name: "turn with a tool call", target: 5, round: conversation{scene: Scene{Tool: true}, sessions: 1000, turns: 1, limit: longLimit}.runRound},
		{name: "turn of 3 agents in sequence", target: 5, round: conversation{scene: Scene{Sequence: 3}, sessions: 1000, turns: 1, limit: longLimit}.runRound},
		{name: "turn of 8 agents in parallel", target: 5, round: conversation{scene: Scene{Parallel: 8}, sessions: 500, turns: 1, limit: longLimit}.runRound},
		{name: "turn with 200 streamed chunks", target: 5, round: conversation{scene: Scene{Chunks: 200}, sessions: 400, turns: 1, limit: longLimit}.runRound},
		{
			name: "a streamed chunk", target: 5, limit: Limit{CPU: 600 * time.Nanosecond, Allocs: 4},
			round: conversation{scene: Scene{Chunks: 2000}, sessions: 40, turns: 1, opsPerTurn: 2000, limit: longLimit}.runRound,
		},
		{name: "template, 2 KB, 10 of 100 keys", target: 10, round: renderRound},
	}
}

// A lab has the settings of all rounds.
type lab struct {
	// dir is a folder for databases.
	dir string
	// synchronous is SQLite's setting during the measurement.
	synchronous string
}

// A plan limits the number of rounds.
type plan struct {
	blocks, rounds int           // rounds of each block
	budget         time.Duration // of a workload; the first block always runs
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
