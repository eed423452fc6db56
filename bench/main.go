package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"slices"
)

// The exit codes. A ratio below its target is one only with -check.
const (
	exitGood   = 0
	exitMissed = 1
	exitUsage  = 2
	exitFailed = 3
)

// sides are those that take part.
func sides() []Side {
	return []Side{
		adkGo{},
		agenthost{},
	}
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// options is what the command line asks for.
type options struct {
	quick, check      bool
	json, synchronous string
	only              *regexp.Regexp
}

// run is the program; it returns the exit code.
func run(ctx context.Context, args []string, out, progress io.Writer) int {
	o, err := parse(args, progress)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return exitGood
	case err != nil:
		return exitUsage
	}
	rep, err := compareAll(ctx, o, progress)
	if err == nil {
		err = rep.print(out)
	}
	if err == nil && o.json != "" {
		err = rep.save(o.json)
	}
	switch {
	case err != nil:
		fmt.Fprintln(progress, "bench:", err)
		return exitFailed
	case o.check && !rep.met():
		return exitMissed
	default:
		return exitGood
	}
}

// parse reads the flags; what is wrong with them is printed.
func parse(args []string, complaints io.Writer) (*options, error) {
	o := &options{only: regexp.MustCompile("")}
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.SetOutput(complaints)
	f.BoolVar(&o.quick, "quick", false, "fewer rounds, about a minute")
	f.BoolVar(&o.check, "check", false, "exit with 1 when a ratio is below its target")
	f.StringVar(&o.json, "json", "", "also write the figures to this `file`")
	f.Func("run", "only the workloads whose name matches this `regexp`", func(s string) (err error) {
		o.only, err = regexp.Compile(s)
		return err
	})
	o.synchronous = "FULL"
	f.Func("synchronous", "SQLite's setting on both sides, `FULL` or NORMAL (default FULL)", func(s string) error {
		if s != "FULL" && s != "NORMAL" {
			return errors.New("want FULL or NORMAL")
		}
		o.synchronous = s
		return nil
	})
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	if err := o.complete(f.Args()); err != nil {
		fmt.Fprintln(complaints, "bench:", err)
		return nil, err
	}
	return o, nil
}

// complete checks what the flags cannot check one by one.
func (o *options) complete(rest []string) error {
	if len(rest) > 0 {
		return fmt.Errorf("unexpected argument %q", rest[0])
	}
	if len(o.workloads()) == 0 {
		return fmt.Errorf("no workload matches %q", o.only)
	}
	return nil
}

// workloads are the chosen ones.
func (o *options) workloads() []workload {
	return slices.DeleteFunc(workloads(), func(w workload) bool { return !o.only.MatchString(w.name) })
}

// compareAll makes the chosen workloads in a temporary folder.
func compareAll(ctx context.Context, o *options, progress io.Writer) (*Report, error) {
	dir, err := os.MkdirTemp("", "agenthost-bench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	p := planFor(o.quick)
	l := &lab{dir: dir, synchronous: o.synchronous}
	rep := newReport(o.synchronous, o.quick)
	for _, w := range o.workloads() {
		fmt.Fprintln(progress, w.name)
		rep.add(compare(ctx, l, p, w, sides()))
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
	return rep, nil
}
