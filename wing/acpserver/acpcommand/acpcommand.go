// Package acpcommand has the command acp.
package acpcommand

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/genai"

	"agenthost/internal/command"
	"agenthost/pkg/server"
	"agenthost/pkg/session"
	"agenthost/pkg/store"
	"agenthost/wing/acpserver"
)

// An Authorizer lets the client's person authorize the app's connections.
type Authorizer interface {
	RegisterFlags(flags *pflag.FlagSet)
	// Open sets the connections of the app that is loaded next.
	Open(env *command.Env, load *command.LoadFlags, sessionDB string) error
	// UseStore gets the session database, before the first run.
	UseStore(st *store.Store)
	Authorize(ctx context.Context, call *genai.FunctionCall, key session.Key, show acpserver.ShowAddress) (map[string]any, error)
}

// Commands returns the package's commands.
func Commands(env command.Env, auth Authorizer) []*cobra.Command {
	return []*cobra.Command{newACPCommand(env, auth)}
}

// acpFlags are the flags for acp.
type acpFlags struct {
	command.StoreFlags
	load  command.LoadFlags
	auth  Authorizer
	user  string
	drain time.Duration
}

func newACPCommand(env command.Env, auth Authorizer) *cobra.Command {
	f := acpFlags{auth: auth}
	cmd := &cobra.Command{
		Use:   "acp APPDIR",
		Short: "Serve an app to an editor over stdin and stdout (ACP)",
		Long: `Acp serves one app as an agent of the Agent Client Protocol to one client, such as Zed,
a JetBrains IDE or acpx, which starts it. Sessions are stored, as those of run are: the
client can list, load and continue them. Confirmations, questions and authorizations
reach the client's person.

Each line on stdin and stdout is one message; problems and warnings go to stderr. Saved
files are checked and reloaded, and the next prompt uses them. At the end of stdin, or on
a signal, the command waits until started requests are answered, at most for --drain.`,
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
	f.auth.RegisterFlags(flags)
	flags.StringVar(&f.user, "user", "user", "user ID of the client's sessions")
	flags.DurationVar(&f.drain, "drain", 30*time.Second, "grace period for started requests after the end of stdin or a signal")
	return cmd
}

func (f *acpFlags) serveApp(ctx context.Context, env command.Env, dir string) error {
	if f.drain < 0 {
		return fmt.Errorf("--drain must be at least 0s, got %s", f.drain)
	}
	f.PrintLocation(env, dir)
	if err := f.auth.Open(&env, &f.load, f.SessionDB); err != nil {
		return err
	}
	host, app, err := f.load.OpenHost(ctx, dir, nil, f.OpenStore)
	if err != nil {
		return err
	}
	f.auth.UseStore(host.Store())
	defer host.Store().Close()
	defer host.Close()
	opts, err := f.load.LoaderOptions(nil, dir)
	if err != nil {
		return err
	}
	defer env.WatchApp(ctx, host, dir, env.NewLoader(opts), nil)()
	return f.AddLocation(command.FailWith(acpserver.Serve(ctx, host, &acpserver.Options{
		App: app, User: f.user, In: env.In, Out: env.Out, Drain: f.drain, Authorize: f.auth.Authorize,
		Host: &server.Options{Version: env.Version, Logger: command.NewWarningLogger(env.Err)},
	})))
}
