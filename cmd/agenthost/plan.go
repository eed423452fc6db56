package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"agenthost/internal/command"
	"agenthost/pkg/loader"
	"agenthost/pkg/runtime"
	"agenthost/pkg/store"
	"agenthost/wing/revisions"
	"agenthost/wing/rollout"
)

func newPlanCommand(env command.Env) *cobra.Command {
	var f revisionFlags
	var live time.Duration
	cmd := f.addLoadFlags(env, f.addJSONFlag(f.SetupCommand(env, &cobra.Command{
		Use:   "plan DIR...",
		Short: "Show what serving these files would change",
		Long: `Plan compares the apps of the folders with the revisions that the session database
served last, and changes nothing. DIR is an app or a folder of apps. The exit status
is 0 when nothing would change, 4 when something would, and 1 when an app has
problems and would not be activated.`,
		Args: command.RequireArgs(1, -1),
	}, command.ReadOrEmpty, func(ctx context.Context, st *store.Store, dirs []string) error {
		opts, err := f.load.LoaderOptions(nil, dirs...)
		if err != nil {
			return err
		}
		p := &planner{env: env, loader: newLoader(opts), store: st, since: time.Now().Add(-live)}
		return p.planApps(ctx, dirs, f.json)
	})))
	cmd.Flags().DurationVar(&live, "live", 24*time.Hour, "count a session as live if its last event is newer than this")
	return cmd
}

// A planner compares folders with a database.
type planner struct {
	env    command.Env
	loader *loader.Loader
	store  *store.Store
	since  time.Time
}

func (p *planner) planApps(ctx context.Context, dirs []string, asJSON bool) error {
	plans, broken := []*revisions.Plan{}, false
	for _, dir := range dirs {
		apps, err := loader.Discover(dir)
		if err != nil {
			return command.FailWith(err)
		}
		if len(apps) == 0 {
			return command.NoAppError(dir)
		}
		for _, app := range apps {
			appPlan, err := p.planApp(ctx, app)
			if err != nil {
				return err
			}
			if appPlan == nil {
				broken = true
				fmt.Fprintf(p.env.Err, "agenthost: cannot plan app %s: its files have problems\n", loader.AppName(app))
			}
			if appPlan != nil && appPlan.From != appPlan.To {
				plans = append(plans, appPlan)
			}
		}
	}
	if asJSON {
		if err := p.env.PrintJSON(plans); err != nil {
			return err
		}
	} else {
		p.printPlans(plans)
		if len(plans) == 0 && !broken {
			fmt.Fprintln(p.env.Out, "nothing would change")
		}
	}
	switch {
	case broken:
		return &command.ExitError{Code: command.ExitProblems, Err: nil}
	case len(plans) > 0:
		return &command.ExitError{Code: command.ExitChanges, Err: nil}
	}
	return nil
}

// planApp compares one app with the revision served last; nil if the app has problems.
func (p *planner) planApp(ctx context.Context, dir string) (*revisions.Plan, error) {
	loaded, ds := p.loader.LoadFiles(ctx, dir)
	if err := p.env.WriteDiagnostics(ds); err != nil || loaded == nil {
		return nil, err
	}
	defer loaded.App.Close()
	stable, err := rollout.FindStable(ctx, p.store.Rollouts, loaded.App.Name())
	if err != nil {
		return nil, command.FailWith(err)
	}
	planner := &revisions.Planner{Loader: newLoader(nil), Store: p.store, Serving: stable}
	appPlan, before, err := planner.PlanApp(ctx, loaded)
	if err != nil {
		return nil, command.FailWith(err)
	}
	if before == nil {
		return appPlan, nil
	}
	if appPlan.Notes, err = rollout.PlanRollout(ctx, p.store.Outcomes, loaded.App, time.Now()); err != nil {
		return nil, command.FailWith(err)
	}
	return appPlan, p.countSessions(ctx, appPlan)
}

// countSessions counts the app's sessions.
func (p *planner) countSessions(ctx context.Context, appPlan *revisions.Plan) error {
	for token := ""; ; {
		page, next, err := p.store.Sessions.Page(ctx, &store.PageRequest{App: appPlan.App, Size: store.MaxPage, Token: token, WithoutState: true})
		if err != nil {
			return command.FailWith(err)
		}
		for _, sess := range page {
			appPlan.Sessions++
			if sess.LastUpdate.After(p.since) {
				appPlan.Live++
			}
		}
		if token = next; token == "" {
			return nil
		}
	}
}

func (p *planner) printPlans(plans []*revisions.Plan) {
	for i, appPlan := range plans {
		if i > 0 {
			fmt.Fprintln(p.env.Out)
		}
		if appPlan.From == "" {
			fmt.Fprintf(p.env.Out, "app %s is new: revision %s\n", appPlan.App, appPlan.To)
			continue
		}
		fmt.Fprintf(p.env.Out, "app %s: revision %s → %s\n", appPlan.App, appPlan.From, appPlan.To)
		printComparison(p.env, &appPlan.Comparison)
		fmt.Fprintf(p.env.Out, "applies to %s: %s, %d live\n", describeReach(appPlan.Reach), command.FormatCount(appPlan.Sessions, "session"), appPlan.Live)
		for _, note := range appPlan.Notes {
			fmt.Fprintln(p.env.Out, note)
		}
	}
}

// describeReach returns which sessions a reload policy selects.
func describeReach(reach runtime.SessionPolicy) string {
	switch reach {
	case runtime.FollowNewSessions:
		return "new sessions; existing sessions keep their revision"
	case runtime.FollowManual:
		return "every session after a manual reload"
	default:
		return "every session from its next turn"
	}
}
