package adkcommand

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"agenthost/internal/command"
	"agenthost/internal/terminal"
	"agenthost/wing/adk/adkdb"
)

// NewImportCommand returns the subcommand import for db.
func NewImportCommand(env command.Env) *cobra.Command {
	var f command.DatabaseFlags
	var o adkdb.Options
	cmd := f.SetupCommand(&cobra.Command{
		Use:   "import SOURCE",
		Short: "Import sessions from an ADK database or another agenthost database",
		Long: `Import copies sessions, events and state from a database of adk-python or adk-go
into the database of --session-db. From another agenthost database it also copies
memories, app revisions and results of evaluations. SOURCE is a URL of the same form, with any engine; it is
only read. Hosts can use both databases during the import: sessions with a running
turn are left out. Existing rows are not written again, and sessions that exist with
different events are left out, so an import can be repeated.
The exit status is 1 when something was left out; the report lists the reasons.`,
		Args: command.RequireArgs(1, 1),
	}, func(ctx context.Context, args []string) error { return dbImport(ctx, env, &f, args[0], &o) })
	cmd.Flags().StringVar(&o.App, "app", "", "import only the sessions and the state of this app")
	cmd.Flags().BoolVar(&o.DryRun, "dry-run", false, "report what would be imported, and write nothing")
	return cmd
}

func dbImport(ctx context.Context, env command.Env, f *command.DatabaseFlags, from string, o *adkdb.Options) error {
	r, err := adkdb.Import(ctx, env.Engines, from, f.DatabaseURL(env, nil), o)
	if r != nil {
		printReport := printImport
		if f.JSON {
			printReport = func(env command.Env, r *adkdb.Report) error { return env.PrintJSON(r) }
		}
		if printErr := printReport(env, r); printErr != nil {
			return errors.Join(command.FailWith(err), printErr)
		}
	}
	switch {
	case err != nil && r != nil:
		return command.FailWithf("%w: the import is incomplete, run it again to continue", err)
	case err != nil:
		return command.FailWith(err)
	case len(r.LeftOut) > 0:
		return &command.ExitError{Code: command.ExitProblems}
	}
	return nil
}

// maxSkippedLines limits the printed list of rows that were left out; JSON has all.
const maxSkippedLines = 200

func printImport(env command.Env, r *adkdb.Report) error {
	fmt.Fprintf(env.Out, "from %s\n", r.Source)
	written := "WRITTEN"
	if r.DryRun {
		written = "TO WRITE"
	}
	table := terminal.NewTable(terminal.Column{}, terminal.Column{Title: "READ", Right: true}, terminal.Column{Title: written, Right: true}, terminal.Column{Title: "PRESENT", Right: true}, terminal.Column{Title: "LEFT OUT", Right: true})
	for _, row := range []struct {
		name string
		adkdb.Count
	}{{"sessions", r.Sessions}, {"events", r.Events}, {"state keys", r.Keys}, {"memories", r.Memories}, {"revisions", r.Revisions}, {"results", r.Results}, {"rollouts", r.Rollouts}, {"outcome days", r.OutcomeDays}, {"feedback", r.Feedback}} {
		if slices.Contains([]string{"memories", "revisions", "results", "rollouts", "outcome days", "feedback"}, row.name) && row.Read == 0 {
			continue // ADK databases contain none
		}
		table.AddRow(row.name, strconv.Itoa(row.Read), strconv.Itoa(row.Written), strconv.Itoa(row.Present), strconv.Itoa(row.LeftOut))
	}
	if err := table.Print(env.Out); err != nil {
		return command.FailWith(err)
	}
	for i, l := range r.LeftOut {
		if i == maxSkippedLines {
			fmt.Fprintf(env.Out, "and %d more: use --output json to list all\n", len(r.LeftOut)-i)
			break
		}
		fmt.Fprintf(env.Out, "left out: %s: %s\n", l.What, l.Reason)
	}
	for _, n := range r.Notes {
		fmt.Fprintf(env.Out, "note: %s\n", n)
	}
	return nil
}
