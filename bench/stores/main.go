// Command stores keeps sessions with google.golang.org/adk/v2's session/database
// and with agenthost's store, on the same kind of database with the same
// settings, one process for both, and prints what each did in a second.
//
// On SQLite both write ahead, and each append is on the disk when it returns.
// adk-go is tried in several configurations, of which the best one counts.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"syscall"
	"time"

	"agenthost/bench/internal/engine"
)

// options is what the command line asks for.
type options struct {
	quick, check bool
	only         *regexp.Regexp
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run is the program; it returns the exit code.
func run(ctx context.Context, args []string, out, progress io.Writer) int {
	o := &options{only: regexp.MustCompile("")}
	f := flag.NewFlagSet("stores", flag.ContinueOnError)
	f.SetOutput(progress)
	f.BoolVar(&o.quick, "quick", false, "shorter rounds")
	f.BoolVar(&o.check, "check", false, "exit with 1 when a target is missed")
	f.Func("run", "only the databases whose name matches this `regexp`", func(s string) (err error) {
		o.only, err = regexp.Compile(s)
		return err
	})
	if f.Parse(args) != nil {
		return 2
	}
	met, err := compareAll(ctx, o, out, progress)
	switch {
	case err != nil:
		fmt.Fprintln(progress, "stores:", err)
		return 3
	case o.check && !met:
		return 1
	default:
		return 0
	}
}

// A bench is what is measured at one kind of database.
type bench struct {
	engine.Engine
	// appends is how many times more of them than adk-go agenthost has to make
	// with 64 sessions; 0 demands nothing.
	appends float64
	length  time.Duration // of a round
	rounds  int
	dir     string
	note    io.Writer
}

// benches are those of all kinds, with what agenthost promises there.
func benches() []*bench {
	return []*bench{
		{Engine: engine.SQLite(), appends: 10},
		{Engine: engine.Postgres(), appends: 4},
		{Engine: engine.MySQL()},
	}
}

func compareAll(ctx context.Context, o *options, out, progress io.Writer) (met bool, err error) {
	dir, err := os.MkdirTemp("", "agenthost-stores-")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(dir)
	met = true
	var all []line
	for _, b := range benches() {
		if !o.only.MatchString(b.Name) {
			continue
		}
		b.length, b.rounds, b.dir, b.note = 2*time.Second, 3, dir, progress
		if o.quick {
			b.length, b.rounds = time.Second, 1
		}
		lines, err := b.compare(ctx)
		if err != nil {
			return false, fmt.Errorf("%s: %w", b.Name, err)
		}
		all = append(all, lines...)
	}
	for _, l := range all {
		met = met && l.met()
	}
	return met, printLines(out, all)
}
