package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"agenthost/bench/internal/command"
	"agenthost/internal/pace"
)

// allSides are those that take part.
func allSides() []Side {
	return []Side{
		adkGo{},
		agenthost{},
	}
}

func main() {
	pace.Keep() // for both sides
	command.Main(runCommand)
}

// options is what the command line asks for.
type options struct {
	*command.Flags
	json, synchronous string
}

// runCommand is the program; it returns the exit code.
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
		Flags:       command.New("bench", "fewer rounds, about a minute", "only the workloads whose name matches this `regexp`"),
		synchronous: "FULL",
	}
	o.StringVar(&o.json, "json", "", "also write the figures to this `file`")
	o.Func("synchronous", "SQLite's setting on both sides, `FULL` or NORMAL (default FULL)", func(s string) error {
		if s != "FULL" && s != "NORMAL" {
			return errors.New("want FULL or NORMAL")
		}
		o.synchronous = s
		return nil
	})
	return o
}

// compareAll makes the chosen workloads in a temporary folder.
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
