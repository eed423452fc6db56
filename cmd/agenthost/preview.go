package main

import (
	"context"
	"log/slog"
	"maps"
	"strings"

	"github.com/spf13/cobra"

	"agenthost/internal/command"
	"agenthost/pkg/runtime"
	"agenthost/pkg/store"
)

// previewFlags are the flags for preview.
type previewFlags struct {
	command.StoreFlags
	load                 command.LoadFlags
	agent, user, session string
	state                []string
	stateFile            string
}

func newPreviewCommand(env command.Env) *cobra.Command {
	var f previewFlags
	cmd := &cobra.Command{
		Use:   "preview APPDIR [TEXT]",
		Short: "Print the exact request that a model would receive",
		Long: `Preview prints, as JSON, the exact request that an agent's model would receive: with
TEXT as the next user message, or without it for the current session. It calls no
model and stores nothing.`,
		Args:    command.RequireArgs(1, 2),
		PreRunE: command.ApplyEnvironment,
		RunE: func(cmd *cobra.Command, args []string) error {
			return printPreview(cmd.Context(), env, &f, args)
		},
	}
	flags := cmd.Flags()
	f.RegisterFlags(env, flags)
	f.load.RegisterFlags(env, flags)
	flags.StringVar(&f.agent, "agent", "", "agent to preview (default: the agent that handles the next turn)")
	flags.StringVar(&f.session, "session", "", "stored session (default: a new session)")
	flags.StringVar(&f.user, "user", "user", "user of the session")
	flags.StringArrayVar(&f.state, "state", nil, "state as KEY=VALUE; repeatable")
	flags.StringVar(&f.stateFile, "state-file", "", "JSON or YAML file with state")
	return cmd
}

func printPreview(ctx context.Context, env command.Env, f *previewFlags, args []string) error {
	state, err := f.readState()
	if err != nil {
		return err
	}
	if f.session == "" {
		f.SessionDB = "memory:"
	} else {
		f.PrintLocation(env, args[0])
	}
	open := func(ctx context.Context, _ *slog.Logger) (*store.Store, error) {
		return f.OpenStoreFor(ctx, command.ReadDatabase)
	}
	f.load.StoresNothing = true
	host, app, err := f.load.OpenHost(ctx, args[0], nil, open)
	if err != nil {
		return err
	}
	defer host.Store().Close()
	defer host.Close()
	p, err := host.Preview(ctx, &runtime.PreviewRequest{
		App: app, Agent: f.agent, UserID: f.user, SessionID: f.session, State: state,
		Text: strings.Join(args[1:], " "),
	})
	if err != nil {
		return f.AddLocation(command.FailRun(err))
	}
	return env.PrintJSON(p)
}

func (f *previewFlags) readState() (map[string]any, error) {
	state := map[string]any{}
	if f.stateFile != "" {
		fromFile, err := readState(f.stateFile)
		if err != nil {
			return nil, err
		}
		state = fromFile
	}
	fromFlags, err := command.ParseState(f.state)
	if err != nil {
		return nil, err
	}
	maps.Copy(state, fromFlags)
	return state, nil
}
