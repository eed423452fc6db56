package main

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"agenthost/internal/command"
	"agenthost/pkg/loader"
	"agenthost/pkg/session"
	"agenthost/pkg/store"
	"agenthost/wing/rollout"
	"agenthost/wing/why"
)

func newWhyCommand(env command.Env) *cobra.Command {
	var f revisionFlags
	var user string
	cmd := f.addJSONFlag(f.SetupCommand(env, &cobra.Command{
		Use:   "why APPDIR SESSION [EVENT]",
		Short: "Explain an event: its agent, instruction and state",
		Long: `Why shows the agent that produced an event and its lines of YAML, the instruction that
its model received, the state keys that were read and who wrote them, and the tools
and callbacks that took part. It uses the session and the revision recorded in the
event, not the current files; facts that are in neither are listed as unknown. EVENT
is an event ID or a prefix of one; the default is the last event.`,
		Args: command.RequireArgs(2, 3),
	}, command.ReadDatabase, func(ctx context.Context, st *store.Store, args []string) error {
		key := session.Key{App: loader.AppName(args[0]), User: user, ID: args[1]}
		x, err := why.Explain(ctx, &why.Source{Store: st, Loader: newLoader(nil), Rollout: describeRollouts(st)}, key, strings.Join(args[2:], ""))
		if err != nil {
			return command.FailWith(err)
		}
		if f.json {
			return env.PrintJSON(x)
		}
		return command.FailWith(x.WriteText(env.Out))
	}))
	cmd.Flags().StringVar(&user, "user", "user", "user of the session")
	return cmd
}

// describeRollouts returns the function that describes a revision's place in rollouts.
func describeRollouts(st *store.Store) why.RolloutFunc {
	return func(ctx context.Context, app, revision string, began time.Time) (string, error) {
		return rollout.DescribeRevision(ctx, st.Rollouts, app, revision, began)
	}
}
