package main

import (
	"context"
	"errors"
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"agenthost/pkg/adkdb"
)

func newDBImport(io stdio) *cobra.Command {
	var f dbFlags
	var o adkdb.Options
	cmd := f.setupCommand(&cobra.Command{
		Use:   "import SOURCE",
		Short: "Import the sessions of an ADK, or of another database of agenthost",
		Long: `Import takes sessions, events and state out of a database of adk-python or
adk-go, or these, memories and the revisions of apps out of another one of
agenthost, and writes them into the one of --session-db. SOURCE is a URL like
that one, of any engine; it is only read. Hosts may use both meanwhile: a session
that one of them runs is left out. What is there already is not written again,
and a session that is there with other events is left out, so that an import can
be repeated.
The exit status is 1 when something was left out; the report says what and why.`,
		Args: requireArgs(1, 1),
	}, func(ctx context.Context, args []string) error { return dbImport(ctx, io, &f, args[0], &o) })
	cmd.Flags().StringVar(&o.App, "app", "", "only the sessions and the state of this app")
	cmd.Flags().BoolVar(&o.DryRun, "dry-run", false, "say what would be done, and write nothing")
	return cmd
}

func dbImport(ctx context.Context, io stdio, f *dbFlags, from string, o *adkdb.Options) error {
	r, err := adkdb.Import(ctx, from, f.sessionDB, o)
	if r != nil {
		print := printImport
		if f.json {
			print = func(io stdio, r *adkdb.Report) error { return printJSON(io, r) }
		}
		if perr := print(io, r); perr != nil {
			return errors.Join(failWith(err), perr)
		}
	}
	switch {
	case err != nil && r != nil:
		return failWithf("%w: the import is not complete, and can be run again", err)
	case err != nil:
		return failWith(err)
	case len(r.LeftOut) > 0:
		return &codedError{code: exitProblems}
	}
	return nil
}

// maxSkippedLines bounds the lines of what was left out; JSON has all.
const maxSkippedLines = 200

func printImport(io stdio, r *adkdb.Report) error {
	fmt.Fprintf(io.out, "from %s\n", r.Source)
	written := "WRITTEN"
	if r.DryRun {
		written = "TO WRITE"
	}
	w := tabwriter.NewWriter(io.out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "\tREAD\t%s\tPRESENT\tLEFT OUT\n", written)
	for _, row := range []struct {
		name string
		adkdb.Count
	}{{"sessions", r.Sessions}, {"events", r.Events}, {"state keys", r.Keys}, {"memories", r.Memories}, {"revisions", r.Revisions}} {
		if (row.name == "memories" || row.name == "revisions") && row.Read == 0 {
			continue // ADKs keep none
		}
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\n", row.name, row.Read, row.Written, row.Present, row.LeftOut)
	}
	if err := w.Flush(); err != nil {
		return failWith(err)
	}
	for i, l := range r.LeftOut {
		if i == maxSkippedLines {
			fmt.Fprintf(io.out, "and %d more: --json has them all\n", len(r.LeftOut)-i)
			break
		}
		fmt.Fprintf(io.out, "left out: %s: %s\n", l.What, l.Reason)
	}
	for _, n := range r.Notes {
		fmt.Fprintf(io.out, "note: %s\n", n)
	}
	return nil
}
