// Command live forwards the audio of many live conversations through agenthost, through
// google.golang.org/adk/v2 and through a bare relay, each in its own process and pointed at the
// same fake Live API, and prints their processor time, memory and latency.
package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"agenthost/qa/bench/internal/command"
)

func main() { command.Main(runCommand) }

// runCommand runs the program or its server process and returns the exit code.
func runCommand(ctx context.Context, args []string, out, progress io.Writer) int {
	if len(args) == 2 && args[0] == serveVerb {
		if err := serveProcess(ctx, args[1], os.Stdin, out); err != nil {
			fmt.Fprintln(progress, "live:", err)
			return command.Failed
		}
		return command.Good
	}
	o := &options{Flags: command.New("live", "few sessions for a short time", "run only the sides whose name matches this `regexp`")}
	o.StringVar(&o.profile, "profile", "", "also write a CPU profile of agenthost to this `file`")
	return o.Run(args, progress, func() (bool, error) { return compareSides(ctx, o, out, progress) })
}

// options are the command-line flags.
type options struct {
	*command.Flags
	profile string
}
