// Command stores compares google.golang.org/adk/v2's session/database with agenthost's
// store on the same kind of database with the same settings, in one process, and prints
// operations per second.
//
// On SQLite both use WAL, and each append is synced to disk when it returns. adk-go is
// opened in several configurations. The best one counts.
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

// runCommand runs the program and returns its exit code.
func runCommand(ctx context.Context, args []string, out, progress io.Writer) int {
	f := command.New("stores", "shorter rounds", "run only the databases whose name matches this `regexp`")
	return f.Run(args, progress, func() (bool, error) { return compareAll(ctx, f, out, progress) })
}

// A bench has the settings for one kind of database.
type bench struct {
	engine.Engine
	// appends is the minimum ratio of agenthost's appends to adk-go's with 64 sessions;
	// 0 means no target.
	appends  float64
	length   time.Duration // of a round
	rounds   int
	dir      string
	progress io.Writer
}

// allBenches returns the kinds of databases with their targets.
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
