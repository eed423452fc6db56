// Package command has the flags and exit codes that all benchmark programs share.
package command

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
	"syscall"
)

// The exit codes.
const (
	Good   = 0
	Missed = 1 // a target was missed, with -check
	Usage  = 2
	Failed = 3
)

var errNothing = errors.New("nothing matches")

// Main runs a program until it ends or a signal arrives, and exits with its code.
func Main(run func(ctx context.Context, args []string, out, progress io.Writer) int) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// Flags are the common flags. A program adds its own.
type Flags struct {
	*flag.FlagSet
	// Quick selects the short form.
	Quick bool
	check bool
	only  *regexp.Regexp
}

// New creates the flags of a program, with the help texts of -quick and -run.
func New(name, quick, only string) *Flags {
	f := &Flags{FlagSet: flag.NewFlagSet(name, flag.ContinueOnError), only: regexp.MustCompile("")}
	f.BoolVar(&f.Quick, "quick", false, quick)
	f.BoolVar(&f.check, "check", false, "exit with 1 when a target is missed")
	f.Func("run", only, func(s string) (err error) {
		f.only, err = regexp.Compile(s)
		return err
	})
	return f
}

// Chosen returns the elements whose name matches -run. It returns an error if none
// matches.
func Chosen[T any](f *Flags, all []T, name func(T) string) ([]T, error) {
	chosen := slices.DeleteFunc(all, func(one T) bool { return !f.only.MatchString(name(one)) })
	if len(chosen) == 0 {
		return nil, errNothing
	}
	return chosen, nil
}

// Run parses the command line and calls measure, which reports whether all targets were
// met. It prints errors to stderr and returns the exit code.
func (f *Flags) Run(args []string, stderr io.Writer, measure func() (met bool, err error)) int {
	f.SetOutput(stderr)
	switch err := f.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return Good
	case err != nil:
		return Usage
	case f.NArg() > 0:
		fmt.Fprintf(stderr, "%s: unexpected argument %q\n", f.Name(), f.Arg(0))
		return Usage
	}
	met, err := measure()
	switch {
	case errors.Is(err, errNothing):
		fmt.Fprintf(stderr, "%s: %s %q\n", f.Name(), err, f.only)
		return Usage
	case err != nil:
		fmt.Fprintf(stderr, "%s: %s\n", f.Name(), err)
		return Failed
	case f.check && !met:
		return Missed
	}
	return Good
}
