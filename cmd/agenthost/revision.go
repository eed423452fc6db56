package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"agenthost/internal/command"
	"agenthost/internal/terminal"
	"agenthost/pkg/loader"
	"agenthost/pkg/store"
	"agenthost/wing/revisions"
)

// revisionFlags are the flags for the verbs that work on revisions.
type revisionFlags struct {
	command.StoreFlags
	load command.LoadFlags
	json bool
}

// addLoadFlags adds the flags for verbs that load a folder.
func (f *revisionFlags) addLoadFlags(env command.Env, cmd *cobra.Command) *cobra.Command {
	f.load.RegisterFlags(env, cmd.Flags())
	return cmd
}

func (f *revisionFlags) addJSONFlag(cmd *cobra.Command) *cobra.Command {
	command.RegisterOutput(cmd.Flags(), &f.json, false)
	return cmd
}

func newRevisionsCommand(env command.Env) *cobra.Command {
	var f revisionFlags
	return f.addJSONFlag(f.SetupCommand(env, &cobra.Command{
		Use:   "revisions APPDIR",
		Short: "List the stored revisions of an app, newest first",
		Long: `Revisions lists the revisions of an app that were served. A revision identifies the
content of the app's files; every event records its revision. reload: keep_revisions
in app.yaml limits how many are stored. APPDIR is the app's folder; the app is not
loaded.`,
		Args: command.RequireArgs(1, 1),
	}, command.ReadDatabase, func(ctx context.Context, st *store.Store, args []string) error {
		return listRevisions(ctx, env, &f, st, loader.AppName(args[0]))
	}))
}

// revisionLine is a line in the revision list.
type revisionLine struct {
	Revision string `json:"revision"`
	Served   string `json:"served"`
}

func listRevisions(ctx context.Context, env command.Env, f *revisionFlags, st *store.Store, app string) error {
	all, err := st.Revisions.List(ctx, app)
	if err != nil {
		return command.FailWith(err)
	}
	lines := []revisionLine{}
	for _, rev := range all {
		lines = append(lines, revisionLine{rev.ID, rev.Served.Local().Format("2006-01-02 15:04:05")})
	}
	if f.json {
		return env.PrintJSON(lines)
	}
	table := terminal.NewTable(terminal.Column{Title: "REVISION", Whole: true}, terminal.Column{Title: "SERVED SINCE"})
	for _, l := range lines {
		table.AddRow(l.Revision, l.Served)
	}
	return command.FailWith(table.Print(env.Out))
}

func newDiffCommand(env command.Env) *cobra.Command {
	var f revisionFlags
	return f.addLoadFlags(env, f.addJSONFlag(f.SetupCommand(env, &cobra.Command{
		Use:   "diff APPDIR REVISION [REVISION]",
		Short: "Compare two revisions of an app",
		Long: `Diff lists the agents that were added, removed or changed between two revisions, and
their changed fields; with one revision, it compares that revision with the files in
APPDIR. A unique prefix of a revision is enough. Variables are not resolved.`,
		Args: command.RequireArgs(2, 3),
	}, command.ReadDatabase, func(ctx context.Context, st *store.Store, args []string) error {
		before, err := st.Revisions.Get(ctx, loader.AppName(args[0]), args[1])
		if err != nil {
			return command.FailWith(err)
		}
		if len(args) == 3 {
			after, err := st.Revisions.Get(ctx, before.App, args[2])
			if err != nil {
				return command.FailWith(err)
			}
			return f.printDiff(ctx, env, before, after)
		}
		after, err := f.loadRevision(ctx, env, args[0])
		if err != nil {
			return err
		}
		return f.printDiff(ctx, env, before, after)
	})))
}

// loadRevision returns the revision of a folder's current files. It fails if the files have errors.
func (f *revisionFlags) loadRevision(ctx context.Context, env command.Env, dir string) (*store.Revision, error) {
	if err := command.CheckApp(dir); err != nil {
		return nil, err
	}
	opts, err := f.load.LoaderOptions(nil, dir)
	if err != nil {
		return nil, err
	}
	loaded, ds := newLoader(opts).LoadFiles(ctx, dir)
	if err := env.WriteDiagnostics(ds); err != nil {
		return nil, err
	}
	if loaded == nil {
		return nil, &command.ExitError{Code: command.ExitProblems, Err: fmt.Errorf("%s has problems", dir)}
	}
	defer loaded.App.Close()
	return &store.Revision{App: loaded.App.Name(), ID: loaded.App.Revision(), Files: loaded.Files}, nil
}

func (f *revisionFlags) printDiff(ctx context.Context, env command.Env, before, after *store.Revision) error {
	c := revisions.CompareRevisions(ctx, newLoader(nil), before, after)
	if f.json {
		return env.PrintJSON(c)
	}
	printComparison(env, &c)
	return nil
}

// printComparison prints the changes for people, agent by agent.
func printComparison(env command.Env, c *revisions.Comparison) {
	where := ""
	for _, ch := range c.Changes {
		if ch.Field == "" {
			fmt.Fprintf(env.Out, "%s %s\n", ch.Where, ch.Kind)
			continue
		}
		if ch.Where != where {
			where = ch.Where
			fmt.Fprintln(env.Out, where)
		}
		fmt.Fprintf(env.Out, "  %s\n", formatChange(ch))
	}
	switch {
	case len(c.Changes) == 0 && len(c.Files) > 0:
		fmt.Fprintln(env.Out, "no agent changed, only comments, order, or files that tools and models read")
	case len(c.Changes) == 0 && c.From != c.To:
		fmt.Fprintln(env.Out, "the files are the same, but an environment variable or .env differs")
	}
	if len(c.Files) > 0 {
		fmt.Fprintf(env.Out, "files: %s\n", strings.Join(c.Files, ", "))
	}
}

func formatChange(ch loader.Change) string {
	if ch.Kind != loader.Changed {
		return ch.Field + " " + ch.Kind
	}
	was, is := strings.Split(ch.Before, "\n"), strings.Split(ch.After, "\n")
	i := 0 // the first line that differs
	for i < len(was)-1 && i < len(is)-1 && was[i] == is[i] {
		i++
	}
	return fmt.Sprintf("%s: %s → %s", ch.Field, command.TruncateLine(was[i]), command.TruncateLine(is[i]))
}
