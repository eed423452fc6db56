// Command agenthost turns folders of YAML into running AI agents.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"agenthost/pkg/loader"
)

// Exit codes.
const (
	exitOK       = 0 // success
	exitProblems = 1 // the command ran and found problems
	exitUsage    = 2 // the command line is invalid
	exitFailure  = 3 // the command failed
	// the command ran and found changes to apply
	exitChanges = 4
)

// An stdio is what the program hands to a command.
type stdio struct {
	// in, out and err are the standard streams.
	in       io.Reader
	out, err io.Writer
	// interrupts are those (^C) of the terminal; nil has none.
	interrupts *interrupter
	// version is the version of the program.
	version string
	// kinds are what documents can name.
	kinds loader.Kinds
}

// newLoader returns a loader for the kinds of the program; options may be nil.
func (io stdio) newLoader(opts *loader.Options) *loader.Loader {
	if opts == nil {
		opts = &loader.Options{}
	}
	opts.ProgramHelper = loader.DefaultProgramHelper()
	return loader.New(io.kinds, opts)
}

func main() {
	loader.ServeProgramHelper(os.Args[1:])
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	ctx, interrupts := watchInterrupts(ctx)
	// A second signal ends the process immediately.
	context.AfterFunc(ctx, stop)
	code := run(ctx, os.Args[1:], stdio{in: os.Stdin, out: guardTerminal(os.Stdout), err: guardTerminal(os.Stderr), interrupts: interrupts})
	stop()
	os.Exit(code)
}

// run executes a command line and returns the exit code.
func run(ctx context.Context, args []string, io stdio) int {
	root := newRootCommand(io)
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitOK
	}
	var coded *codedError
	if !errors.As(err, &coded) {
		coded = &codedError{exitUsage, err}
	}
	switch {
	case coded.err == nil:
	case hasJSONLog(cmd, args):
		logFailure(ctx, io, cmd, coded)
	default:
		fmt.Fprintf(io.err, "agenthost: %s\n", coded.err)
		if coded.code == exitUsage {
			fmt.Fprintln(io.err, helpHint)
		}
	}
	return coded.code
}

// helpHint is printed after a usage error.
const helpHint = "See agenthost --help."

// codedError is an error with its exit code. A nil err means that the verb has
// already printed the reason.
type codedError struct {
	code int
	err  error
}

func (e *codedError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit status %d", e.code)
	}
	return e.err.Error()
}

func (e *codedError) Unwrap() error { return e.err }

// failWith wraps an error with exitFailure; nil stays nil.
func failWith(err error) error {
	if err == nil {
		return nil
	}
	return &codedError{exitFailure, err}
}

func failWithf(format string, args ...any) error { return failWith(fmt.Errorf(format, args...)) }
