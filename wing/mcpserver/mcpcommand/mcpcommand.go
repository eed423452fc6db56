// Package mcpcommand has the command mcp.
package mcpcommand

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"agenthost/internal/command"
	"agenthost/internal/safe"
	"agenthost/pkg/loader"
	"agenthost/pkg/runtime"
	"agenthost/pkg/server"
	"agenthost/pkg/spec"
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
	w := &watcher{env: env, host: host, dir: dir, loader: env.NewLoader(opts), reloads: make(chan struct{}, 1)}
	defer w.startWatching(ctx)()
	return f.AddLocation(command.FailWith(mcpserver.ServeStdio(ctx, host, &mcpserver.StdioOptions{
		Options: mcpserver.Options{User: f.user}, App: app, In: env.In, Out: env.Out, Drain: f.drain, Reloads: w.reloads,
		Host: &server.Options{Version: env.Version, Logger: command.NewWarningLogger(env.Err)},
	})))
}

// A watcher reloads the app when its files are saved.
type watcher struct {
	env     command.Env
	host    *runtime.Host
	dir     string
	loader  *loader.Loader
	reloads chan struct{}
}

// startWatching starts the reloads. The function that it returns ends them.
func (w *watcher) startWatching(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() {
		defer safe.Recover(func(caught *safe.Panic) {
			caught.Log(command.NewWarningLogger(w.env.Err), "watching for file changes panicked")
		})
		w.watchFiles(ctx)
	})
	return func() {
		cancel()
		running.Wait()
	}
}

// watchFiles reloads the app until ctx ends. Failing tests do not block a reload, as in a conversation.
func (w *watcher) watchFiles(ctx context.Context) {
	passGate := func(context.Context, string, *runtime.App) spec.Diagnostics { return nil }
	watch := loader.NewWatch(w.loader, persistentHost{w.host}, []string{w.dir}, &loader.WatchOptions{
		Revisions: w.host.Store().Revisions, Gate: passGate, OnLoad: w.reportReload,
	})
	if err := watch.Run(ctx); err != nil {
		fmt.Fprintf(w.env.Err, "watching for file changes failed: %s\n", err)
	}
}

func (w *watcher) reportReload(s loader.Status) {
	if !s.OK {
		_ = w.env.WriteDiagnostics(s.Diagnostics)
		fmt.Fprintf(w.env.Err, "%s was not reloaded: the previous version stays active\n", s.App)
		return
	}
	select {
	case w.reloads <- struct{}{}:
	default:
	}
}

// persistentHost is a host that keeps its app when the app's folder is deleted.
type persistentHost struct{ *runtime.Host }

// Remove does nothing.
func (persistentHost) Remove(string) {}
