package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"agenthost/internal/command"
	"agenthost/internal/terminal"
	"agenthost/pkg/loader"
	"agenthost/pkg/session"
	"agenthost/pkg/spec"
	"agenthost/pkg/store"
)

// pruneFlags are the flags for session prune.
type pruneFlags struct {
	sessionFlags
	olderThan string
	dryRun    bool
}

func newSessionPruneCommand(env command.Env) *cobra.Command {
	var f pruneFlags
	cmd := f.setupCommand(env, &cobra.Command{
		Use:   "prune APPDIR --older-than AGE",
		Short: "Delete sessions without recent events",
		Long: `Prune deletes the sessions of an app whose creation and last event are older than
AGE, such as 30d or 12h, with their events, state and artifacts. It skips sessions with a running
turn. With retention: in app.yaml, serve prunes sessions automatically. Their outcomes are
kept for outcome_retention: in app.yaml, or for --keep-outcomes.`,
		Args: command.RequireArgs(1, 1),
	}, func(ctx context.Context, args []string) error { return pruneSessions(ctx, env, &f, args[0]) })
	cmd.Flags().StringVar(&f.olderThan, "older-than", "", "minimum age of the last event, such as 30d")
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "list the sessions without deleting them")
	f.outcomes.registerFlag(cmd.Flags())
	command.RegisterOutput(cmd.Flags(), &f.json, false)
	return cmd
}

// An outcomeFlag is --keep-outcomes.
type outcomeFlag struct{ text string }

func (o *outcomeFlag) registerFlag(flags *pflag.FlagSet) {
	flags.StringVar(&o.text, "keep-outcomes", "", "keep the outcomes of turns that are younger than this, such as 400d; 0 keeps none (default: outcome_retention in app.yaml)")
}

// readRetention returns how long outcomes of an app's deleted sessions are kept.
func (o *outcomeFlag) readRetention(dir string) (time.Duration, error) {
	if o.text == "" {
		keep, err := loader.ReadOutcomeRetention(dir)
		if err != nil {
			return 0, command.FailWith(fmt.Errorf("reading outcome_retention: %w; hint: set --keep-outcomes", err))
		}
		return keep, nil
	}
	var keep spec.Duration
	if ds := keep.DecodeSpec(&spec.Node{Kind: spec.Scalar, Value: o.text}); ds.HasErrors() {
		return 0, fmt.Errorf("--keep-outcomes must be a duration, such as 400d, or 0, got %q", o.text)
	}
	return time.Duration(keep), nil
}

func pruneSessions(ctx context.Context, env command.Env, f *pruneFlags, dir string) error {
	var age spec.Duration
	if ds := age.DecodeSpec(&spec.Node{Kind: spec.Scalar, Value: f.olderThan}); ds.HasErrors() || age == 0 {
		return fmt.Errorf("--older-than must be a duration above zero, such as 30d, 12h or 1h30m, got %q", f.olderThan)
	}
	keep, err := f.outcomes.readRetention(dir)
	if err != nil {
		return err
	}
	use := command.ChangeDatabase
	if f.dryRun {
		use = command.ReadDatabase
	}
	st, err := f.OpenStoreFor(ctx, use)
	if err != nil {
		return err
	}
	defer st.Close()
	type prunedSession struct {
		ID   string `json:"id"`
		User string `json:"userId"`
	}
	pruned := []prunedSession{}
	n, err := st.Prune(ctx, &store.PruneRequest{
		App: loader.AppName(dir), Age: time.Duration(age), KeepOutcomes: keep, DryRun: f.dryRun,
		Each: func(key session.Key) {
			if f.json {
				pruned = append(pruned, prunedSession{key.ID, key.User})
				return
			}
			fmt.Fprintf(env.Out, "%s\t%s\n", terminal.CleanLine(key.ID), terminal.CleanLine(key.User))
		},
	})
	if f.json {
		if printErr := env.PrintJSON(pruned); err == nil {
			err = printErr
		}
	}
	outcome := "deleted"
	if f.dryRun {
		outcome = "would be deleted"
	}
	fmt.Fprintf(env.Err, "%s %s\n", command.FormatCount(n, "session"), outcome)
	return command.FailWith(err)
}
