// Command http sends the same requests to google.golang.org/adk/v2's REST server and to
// agenthost's, each in its own process, and prints rates, latencies and costs.
package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"agenthost/qa/bench/internal/command"
)

// options are the command-line flags.
type options struct {
	*command.Flags
	profile string
}

func main() { command.Main(runCommand) }

// runCommand runs the program or its server process and returns the exit code.
func runCommand(ctx context.Context, args []string, out, progress io.Writer) int {
	if len(args) == 2 && args[0] == serveVerb {
		if err := serveProcess(ctx, args[1], os.Stdin, out); err != nil {
			fmt.Fprintln(progress, "http:", err)
			return command.Failed
		}
		return command.Good
	}
	o := &options{Flags: command.New("http", "one short round, fewer streams", "run only the comparisons whose name matches this `regexp`, such as 'memory /run, 32'")}
	o.StringVar(&o.profile, "profile", "", "also write a CPU profile of agenthost's last server process to this `file`")
	return o.Run(args, progress, func() (bool, error) { return compareAll(ctx, o, out, progress) })
}
