// Command stores keeps sessions with google.golang.org/adk/v2's session/database
// and with agenthost's store, on the same kind of database with the same
// settings, one process for both, and prints what each did in a second.
//
// On SQLite both write ahead, and each append is on the disk when it returns.
// adk-go is tried in several configurations, of which the best one counts.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"agenthost/bench/internal/command"
	"agenthost/bench/internal/engine"
)

func main() { command.Main(runCommand) }

// runCommand is the program; it returns the exit code.
func runCommand(ctx context.Context, args []string, out, progress io.Writer) int {
	f := command.New("stores", "shorter rounds", "only the databases whose name matches this `regexp`")
	return f.Run(args, progress, func() (bool, error) { return compareAll(ctx, f, out, progress) })
}

// A bench is what is measured at one kind of database.
type bench struct {
	engine.Engine
	// appends is how many times more of them than adk-go agenthost has to make
	// with 64 sessions; 0 demands nothing.
	appends  float64
	length   time.Duration // of a round
	rounds   int
	dir      string
	progress io.Writer
}

// allBenches are those of all kinds, with what agenthost promises there.
func allBenches() []*bench {
	return []*bench{
		{Engine: engine.SQLite(), appends: 10},
		{Engine: engine.Postgres(), appends: 4},
		{Engine: engine.MySQL()},
	}
}

func compareAll(ctx context.Context, f *command.Flags, out, progress io.Writer) (met bool, err error) {
	chosen, err := command.Chosen(f, allBenches(), func(b *bench) string { return b.Name })
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
		b.length, b.rounds, b.dir, b.progress = 2*time.Second, 3, dir, progress
		if f.Quick {
			b.length, b.rounds = time.Second, 1
		}
		lines, err := b.compareSides(ctx)
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
