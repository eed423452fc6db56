// Command stores compares google.golang.org/adk/v2's session/database with agenthost's
// store on the same kind of database with the same settings, in one process, and prints
// operations per second.
//
// On SQLite both use WAL, and each append is synced to disk when it returns. adk-go is opened in
// several configurations. The best one counts.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"agenthost/qa/bench/internal/command"
	"agenthost/qa/bench/internal/engine"
)

func main() { command.Main(runCommand) }

// options are the command-line flags.
type options struct {
	*command.Flags
	floor bool
}

// runCommand runs the program and returns its exit code.
func runCommand(ctx context.Context, args []string, out, progress io.Writer) int {
	o := &options{Flags: command.New("stores", "shorter rounds", "run only the databases whose name matches this `regexp`")}
	o.BoolVar(&o.floor, "floor", false, "measure only the distance of a durable turn to its floor")
	return o.Run(args, progress, func() (bool, error) { return compareAll(ctx, o, out, progress) })
}

// A bench has the settings for one database kind.
type bench struct {
	engine.Engine
	// appends is the minimum ratio between agenthost's appends and adk-go's with 64 sessions; 0
	// means no target.
	appends  float64
	length   time.Duration // in a round
	rounds   int
	pairs    int // rounds for the floor and agenthost, alternately
	dir      string
	progress io.Writer
}

// allBenches returns the database kinds with their targets.
func allBenches() []*bench {
	return []*bench{
		{Engine: engine.SQLite(), appends: 10},
		{Engine: engine.Postgres(), appends: 4},
		{Engine: engine.MySQL()},
	}
}

func compareAll(ctx context.Context, o *options, out, progress io.Writer) (met bool, err error) {
	chosen, err := command.Chosen(o.Flags, allBenches(), func(b *bench) string { return b.Name })
	if err != nil {
		return false, err
	}
	dir, err := os.MkdirTemp("", "agenthost-stores-")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(dir)
	met = true
	var all []measurement
	for _, b := range chosen {
		b.length, b.rounds, b.pairs, b.dir, b.progress = 2*time.Second, 3, 21, dir, progress
		if o.Quick {
			b.length, b.rounds, b.pairs = time.Second, 1, 7
		}
		if !o.floor {
			lines, err := b.compareSides(ctx)
			if err != nil {
				return false, fmt.Errorf("%s: %w", b.Name, err)
			}
			all = append(all, lines...)
		}
		if b.Name == engine.MySQL().Name {
			continue // only agenthost's main databases have a floor
		}
		line, err := b.measureDistance(ctx)
		if err != nil {
			return false, fmt.Errorf("%s: %w", b.Name, err)
		}
		all = append(all, line)
	}
	for _, l := range all {
		met = met && l.met()
	}
	return met, printLines(out, all)
}
