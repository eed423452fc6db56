// Command agenthost turns YAML folders into running AI agents.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"agenthost/internal/command"
	"agenthost/internal/terminal"
	"agenthost/wing/programs"
)

func main() {
	programs.ServeHelper(os.Args[1:])
	ctx, interrupts := command.WatchInterrupts(context.Background())
	code := run(ctx, os.Args[1:], command.Env{In: os.Stdin, Out: terminal.OpenOutput(os.Stdout, os.Getenv), Err: terminal.OpenOutput(os.Stderr, os.Getenv), Interrupts: interrupts})
	os.Exit(code)
}

// run executes a command line and returns the exit code.
func run(ctx context.Context, args []string, env command.Env) int {
	root := newRootCommand(env)
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return command.ExitOK
	}
	var coded *command.ExitError
	if !errors.As(err, &coded) {
		coded = &command.ExitError{Code: command.ExitUsage, Err: err}
	}
	switch {
	case coded.Err == nil:
	case hasJSONLog(cmd, args):
		logFailure(ctx, env, cmd, coded)
	default:
		fmt.Fprintf(env.Err, "agenthost: %s\n", coded.Err)
		if coded.Code == command.ExitUsage {
			fmt.Fprintln(env.Err, command.HelpHint(cmd))
		}
	}
	return coded.Code
}
