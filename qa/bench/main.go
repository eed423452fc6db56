package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

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
