// Package command is what the programs that measure have in common: how they are
// told what to do, and how they end.
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
	Missed = 1 // a target, with -check
	Usage  = 2
	Failed = 3
)

var errNothing = errors.New("nothing matches")

// Main runs a program until it has ended or a signal comes, and exits with its code.
func Main(run func(ctx context.Context, args []string, out, progress io.Writer) int) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// Flags are those that all have. A program adds its own.
type Flags struct {
	*flag.FlagSet
	// Quick asks for less of everything.
	Quick bool
	check bool
	only  *regexp.Regexp
}

// New names a program, and says what -quick and -run mean to it.
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

// Chosen is what of all has a name that -run asks for. It is an error if nothing has.
func Chosen[T any](f *Flags, all []T, name func(T) string) ([]T, error) {
	chosen := slices.DeleteFunc(all, func(one T) bool { return !f.only.MatchString(name(one)) })
	if len(chosen) == 0 {
		return nil, errNothing
	}
	return chosen, nil
}

// Run reads the command line and measures, which says whether all targets were met.
// It returns the exit code; what is wrong goes to complaints.
func (f *Flags) Run(args []string, complaints io.Writer, measure func() (met bool, err error)) int {
	f.SetOutput(complaints)
	switch err := f.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return Good
	case err != nil:
		return Usage
	case f.NArg() > 0:
		fmt.Fprintf(complaints, "%s: unexpected argument %q\n", f.Name(), f.Arg(0))
		return Usage
	}
	met, err := measure()
	switch {
	case errors.Is(err, errNothing):
		fmt.Fprintf(complaints, "%s: %s %q\n", f.Name(), err, f.only)
		return Usage
	case err != nil:
		fmt.Fprintf(complaints, "%s: %s\n", f.Name(), err)
		return Failed
	case f.check && !met:
		return Missed
	}
	return Good
}
