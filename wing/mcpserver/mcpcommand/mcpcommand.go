// Package mcpcommand has the command mcp.
package mcpcommand

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"agenthost/internal/command"
	"agenthost/pkg/server"
	"agenthost/wing/mcpserver"
)

// Commands returns the package's commands.
func Commands(env command.Env) []*cobra.Command { return []*cobra.Command{newMCPCommand(env)} }

// mcpFlags are the flags for mcp.
type mcpFlags struct {
	command.StoreFlags
	load  command.LoadFlags
	user  string
	drain time.Duration
}

func newMCPCommand(env command.Env) *cobra.Command {
	var f mcpFlags
	cmd := &cobra.Command{
		Use:   "mcp APPDIR",
		Short: "Serve an app as an MCP server over stdin and stdout",
		Long: `Mcp serves one app to one MCP client, such as an editor or a desktop program, which
starts it. Agents are tools: those in mcp_server of app.yaml, or the root agent. Sessions
are stored, as those of run are. Confirmations and questions reach the client's person
if the client can ask.

Each line on stdin and stdout is one message; problems and warnings go to stderr. Saved
files are checked and reloaded, and the next call uses them. At the end of stdin, or on a
signal, the command waits until started calls are answered, at most for --drain.`,
		Args:    command.RequireArgs(1, 1),
		PreRunE: command.ApplyEnvironment,
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.serveApp(cmd.Context(), env, args[0])
		},
	}
	flags := cmd.Flags()
	f.RegisterFlags(env, flags)
	f.RegisterLimits(flags)
	f.load.RegisterFlags(env, flags)
	flags.StringVar(&f.user, "user", "user", "user ID of the client's sessions")
	flags.DurationVar(&f.drain, "drain", 30*time.Second, "grace period for started calls after the end of stdin or a signal")
	return cmd
}

func (f *mcpFlags) serveApp(ctx context.Context, env command.Env, dir string) error {
	if f.drain < 0 {
		return fmt.Errorf("--drain must be at least 0s, got %s", f.drain)
	}
	f.PrintLocation(env, dir)
	host, app, err := f.load.OpenHost(ctx, dir, nil, f.OpenStore)
	if err != nil {
		return err
	}
	defer host.Store().Close()
	defer host.Close()
	opts, err := f.load.LoaderOptions(nil, dir)
	if err != nil {
		return err
	}
	reloads := make(chan struct{}, 1)
	defer env.WatchApp(ctx, host, dir, env.NewLoader(opts), reloads)()
	return f.AddLocation(command.FailWith(mcpserver.ServeStdio(ctx, host, &mcpserver.StdioOptions{
		Options: mcpserver.Options{User: f.user}, App: app, In: env.In, Out: env.Out, Drain: f.drain, Reloads: reloads,
		Host: &server.Options{Version: env.Version, Logger: command.NewWarningLogger(env.Err)},
	})))
}
