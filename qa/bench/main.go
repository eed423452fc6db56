package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"agenthost/qa/bench/internal/command"
)

// allSides returns the compared sides.
func allSides() []Side {
	return []Side{
		adkGo{},
		agenthost{},
	}
}

func main() {
	command.Main(runCommand)
}

// options are the command-line flags.
type options struct {
	*command.Flags
	json, synchronous string
}

// runCommand runs the program and returns its exit code.
func runCommand(ctx context.Context, args []string, out, progress io.Writer) int {
	o := newOptions()
	return o.Run(args, progress, func() (bool, error) {
		rep, err := compareAll(ctx, o, progress)
		if err == nil {
			err = rep.printTables(out)
		}
		if err == nil && o.json != "" {
			err = rep.saveJSON(o.json)
		}
		return err == nil && rep.allMet(), err
	})
}

func newOptions() *options {
	o := &options{
		Flags:       command.New("bench", "fewer rounds, about a minute", "run only the workloads whose name matches this `regexp`"),
		synchronous: "FULL",
	}
	o.StringVar(&o.json, "json", "", "also write the results to this `file`")
	o.Func("synchronous", "SQLite's setting on both sides, `FULL` or NORMAL (default FULL)", func(s string) error {
		if s != "FULL" && s != "NORMAL" {
			return errors.New("must be FULL or NORMAL")
		}
		o.synchronous = s
		return nil
	})
	return o
}

// compareAll runs the selected workloads in a temporary folder.
func compareAll(ctx context.Context, o *options, progress io.Writer) (*Report, error) {
	chosen, err := command.Chosen(o.Flags, allWorkloads(), func(w workload) string { return w.name })
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "agenthost-bench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	p := planFor(o.Quick)
	l := &lab{dir: dir, synchronous: o.synchronous}
	rep := newReport(o.synchronous, o.Quick)
	for _, w := range chosen {
		fmt.Fprintln(progress, w.name)
		rep.addResult(compareSides(ctx, l, p, w, allSides()))
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
	return rep, nil
}

// allWorkloads returns the workloads in report order.
func allWorkloads() []workload {
	return []workload{
		{name: "turn in memory, fresh session", target: 8, limit: Limit{Allocs: 35}, round: conversation{sessions: 2000, events: 0, turns: 1, limit: longLimit}.runRound},
		{name: "turn in memory, 10 events", round: conversation{sessions: 1000, events: 10, turns: 1, limit: longLimit}.runRound},
		{name: "turn in memory, 100 events", round: conversation{sessions: 200, events: 100, turns: 1, limit: shortLimit}.runRound},
		{name: "turn in memory, 1000 events", target: 50, round: conversation{sessions: 16, events: 1000, turns: 8, limit: shortLimit}.runRound},
		{name: "turn in memory, 5000 events", target: 100, round: conversation{sessions: 4, events: 5000, turns: 50, limit: shortLimit}.runRound},
		{name: "durable turn, fresh session", target: 5, round: conversation{durable: true, sessions: 3000, events: 0, turns: 1, limit: journalLimit}.runRound},
		{name: "durable turn, 1000 events", round: conversation{durable: true, sessions: 2, events: 1000, turns: 10, limit: longLimit}.runRound},
		{name: "durable turn, 5000 events", target: 50, round: conversation{durable: true, sessions: 1, events: 5000, turns: 50, limit: longLimit}.runRound},
		{name: "first turn over 5000 events", target: 5, round: conversation{cold: true, sessions: 8, events: 5000, turns: 1, limit: longLimit}.runRound},
		{name: "turn with a tool call", target: 8, round: conversation{scene: Scene{Tool: true}, sessions: 1000, turns: 1, limit: longLimit}.runRound},
		{name: "turn of 3 agents in sequence", target: 6, round: conversation{scene: Scene{Sequence: 3}, sessions: 1000, turns: 1, limit: longLimit}.runRound},
		{name: "turn of 8 agents in parallel", target: 6, round: conversation{scene: Scene{Parallel: 8}, sessions: 500, turns: 1, limit: longLimit}.runRound},
		{name: "turn with 200 streamed chunks", target: 6, round: conversation{scene: Scene{Chunks: 200}, sessions: 400, turns: 1, limit: longLimit}.runRound},
		{
			name: "a streamed chunk", target: 5, limit: Limit{CPU: 600 * time.Nanosecond, Allocs: 1.1},
			round: conversation{scene: Scene{Chunks: 2000}, sessions: 40, turns: 1, opsPerTurn: 2000, limit: longLimit}.runRound,
		},
		{name: "template, 2 KB, 10 of 100 keys", target: 8, round: renderRound},
	}
}
