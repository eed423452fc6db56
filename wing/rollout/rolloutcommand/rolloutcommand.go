// Package rolloutcommand has the command rollout.
package rolloutcommand

import (
	"cmp"
	"context"
	"fmt"
	"os/user"
	"time"

	"github.com/spf13/cobra"

	"agenthost/internal/command"
	"agenthost/internal/terminal"
	"agenthost/pkg/loader"
	"agenthost/pkg/store"
	"agenthost/wing/rollout"
)

// Commands returns the command rollout.
func Commands(env command.Env) []*cobra.Command {
	group := &cobra.Command{
		Use:   "rollout",
		Short: "Show, pause, promote or abort the rollout of a change",
		Long: `Rollout shows how far a change is with the steps of rollout in app.yaml, and lets a
person decide. The hosts that share the session database follow within seconds.`,
	}
	verbs := []*cobra.Command{newStatusCommand(env)}
	for _, verb := range []struct{ action, short, long string }{
		{rollout.ActionPause, "Keep the share of a rollout", "Pause keeps the share until resume. Conditions can still take the change back."},
		{rollout.ActionResume, "Continue a paused rollout", "Resume continues a rollout that a person paused, or that lacked sessions: its step waits\nfor them once more."},
		{rollout.ActionPromote, "Give a change to all new sessions now", "Promote ends a rollout: the new revision serves all new sessions. A revision that was taken\nback is promoted as well."},
		{rollout.ActionAbort, "Take a change back", "Abort ends a rollout: the stable revision serves all new sessions. The files begin no rollout\nuntil they change."},
	} {
		verbs = append(verbs, newActionCommand(env, verb.action, verb.short, verb.long))
	}
	command.AddSubcommands(group, verbs...)
	return []*cobra.Command{group}
}

func newStatusCommand(env command.Env) *cobra.Command {
	var f command.StoreFlags
	var json bool
	cmd := f.SetupCommand(env, &cobra.Command{
		Use:   "status APPDIR",
		Short: "Show a rollout with what was counted",
		Long: `Status shows the rollout of an app: its step, the sessions that were counted on both
revisions, and each condition. APPDIR is the app's folder; the app is not loaded.`,
		Args: command.RequireArgs(1, 1),
	}, command.ReadDatabase, func(ctx context.Context, st *store.Store, args []string) error {
		return printState(ctx, env, st, loader.AppName(args[0]), json)
	})
	command.RegisterOutput(cmd.Flags(), &json, false)
	return cmd
}

func newActionCommand(env command.Env, action, short, long string) *cobra.Command {
	var f command.StoreFlags
	return f.SetupCommand(env, &cobra.Command{
		Use: action + " APPDIR", Short: short, Long: long + " APPDIR is the app's folder.",
		Args: command.RequireArgs(1, 1),
	}, command.ChangeDatabase, func(ctx context.Context, st *store.Store, args []string) error {
		app := loader.AppName(args[0])
		s, err := rollout.NewStoredController(st).ApplyAction(ctx, app, action, nameUser())
		if err != nil {
			return command.FailWith(fmt.Errorf("app %s: %w", app, err))
		}
		if s.Status == rollout.StatusNone {
			fmt.Fprintf(env.Out, "%s: the damaged rollout was replaced; the stable revision is %s\n", app, cmp.Or(s.Stable, "the one that serves"))
			return nil
		}
		fmt.Fprintf(env.Out, "%s: revision %s %s\n", app, s.Revision, s.Status)
		return nil
	})
}

// nameUser returns who runs the command.
func nameUser() string {
	u, err := user.Current()
	if err != nil || u.Username == "" {
		return "a person at the terminal"
	}
	return u.Username + " at the terminal"
}

// printState prints an app's rollout.
func printState(ctx context.Context, env command.Env, st *store.Store, app string, json bool) error {
	v, err := rollout.NewStoredController(st).ReadView(ctx, app)
	if err != nil {
		return command.FailWith(fmt.Errorf("app %s: %w", app, err))
	}
	if json {
		return env.PrintJSON(v)
	}
	if v.Status == rollout.StatusDamaged {
		fmt.Fprintf(env.Out, "%s: %s: %s\n", app, v.Status, terminal.CleanLine(v.Reason))
		return nil
	}
	if v.Revision == "" {
		fmt.Fprintf(env.Out, "%s has no rollout\n", app)
		return nil
	}
	fmt.Fprintf(env.Out, "%s: %s", app, v.Status)
	if v.Ended.IsZero() {
		fmt.Fprintf(env.Out, ", %.4g %% of the new sessions", 100*v.Share)
	}
	if v.Reason != "" {
		fmt.Fprintf(env.Out, ": %s", terminal.CleanLine(v.Reason))
	}
	fmt.Fprintf(env.Out, "\n  stable  %s  %s\n  new     %s  %s, %d selected, %d not compared\n\n", v.Stable, command.FormatCount(v.Counted.Stable, "session"),
		v.Revision, command.FormatCount(v.Counted.Draft, "session"), v.Counted.Selected, v.Counted.Uncompared)
	if err := printSteps(env, v); err != nil {
		return command.FailWith(err)
	}
	fmt.Fprintln(env.Out)
	if err := printConditions(env, v); err != nil {
		return command.FailWith(err)
	}
	fmt.Fprintln(env.Out)
	return command.FailWith(printEvents(env, v))
}

// printEvents prints what happened, the latest last.
func printEvents(env command.Env, v *rollout.View) error {
	table := terminal.NewTable(terminal.Column{Title: "TIME"}, terminal.Column{Title: "REVISION"}, terminal.Column{Title: "EVENT"}, terminal.Column{Title: "BY"}, terminal.Column{Title: "WHAT"})
	for _, e := range v.Events {
		table.AddRow(e.Time.UTC().Format(time.DateTime), e.Revision, e.Kind, e.By, e.Describe())
	}
	return table.Print(env.Out)
}

func printSteps(env command.Env, v *rollout.View) error {
	table := terminal.NewTable(terminal.Column{Title: "SHARE", Right: true}, terminal.Column{Title: "FOR", Right: true}, terminal.Column{Title: "MIN", Right: true}, terminal.Column{Title: "BEGAN"}, terminal.Column{Title: "ENDS"})
	for i, s := range v.Steps {
		began, ends := "", ""
		if !s.Began.IsZero() {
			began = s.Began.UTC().Format(time.DateTime)
		}
		if isCurrent := i+1 < len(v.Steps) && v.Steps[i+1].Began.IsZero() && began != ""; isCurrent && !v.Next.IsZero() {
			ends = v.Next.UTC().Format(time.DateTime)
			if v.Missing > 0 {
				ends += fmt.Sprintf(" and %d more", v.Missing)
			}
		}
		table.AddRow(fmt.Sprintf("%.4g %%", 100*s.Share), s.For, fmt.Sprint(s.Min), began, ends)
	}
	return table.Print(env.Out)
}

func printConditions(env command.Env, v *rollout.View) error {
	table := terminal.NewTable(terminal.Column{Title: "CONDITION"}, terminal.Column{Title: "NEW", Right: true}, terminal.Column{Title: "STABLE", Right: true}, terminal.Column{Title: "VERDICT"})
	for _, c := range v.Conditions {
		stable, verdict := "", "ok"
		if c.StableSessions > 0 {
			stable = fmt.Sprintf("%d of %d", c.StableHits, c.StableSessions)
		}
		switch {
		case c.Exceeded:
			verdict = "exceeded"
		case c.Sessions == 0:
			verdict = "no sessions"
		}
		table.AddRow(c.Condition, fmt.Sprintf("%d of %d", c.Hits, c.Sessions), stable, verdict)
	}
	return table.Print(env.Out)
}
