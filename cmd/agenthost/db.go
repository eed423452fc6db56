package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"agenthost/pkg/store"
)

// dbFlags are those of the verbs below db.
type dbFlags struct {
	sessionDB string
	json      bool
}

func newDB(io stdio) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "db",
		Short: "Look after the session database, and import those of ADKs",
		Long: `Db looks after the database that keeps sessions: say what it is and how much it
holds, bring its schema up to date, check it, or import the sessions of Google's
ADKs. URL is written as for --session-db, which counts where it is not given.`,
	}
	addVerbs(cmd, newDBStatus(io), newDBMigrate(io), newDBCheck(io), newDBImport(io))
	return cmd
}

// setupCommand makes a verb below db, with the flags that all of them have.
func (f *dbFlags) setupCommand(cmd *cobra.Command, run func(ctx context.Context, args []string) error) *cobra.Command {
	cmd.PreRunE = applyEnvironment
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return run(cmd.Context(), args) }
	cmd.Flags().StringVar(&f.sessionDB, "session-db", defaultSessionDB, "where sessions are kept: sqlite:///relative.db, sqlite:////absolute.db, postgres://user@host/database or mysql://user@host/database")
	cmd.Flags().BoolVar(&f.json, "json", false, "print JSON")
	return cmd
}

// databaseURL is the argument, or else the flag.
func (f *dbFlags) databaseURL(args []string) string {
	if len(args) > 0 {
		return args[0]
	}
	return f.sessionDB
}

func newDBStatus(io stdio) *cobra.Command {
	var f dbFlags
	return f.setupCommand(&cobra.Command{
		Use:   "status [URL]",
		Short: "Say what the database is, and how much it holds",
		Long: `Status says which engine and which version of the schema a database has, what
this program wants, which steps are missing, and how much is stored. It writes
nothing, and makes no database. The exit status is 1 when a newer program made the schema, which this
one refuses.`,
		Args: requireArgs(0, 1),
	}, func(ctx context.Context, args []string) error { return dbStatus(ctx, io, &f, f.databaseURL(args)) })
}

func dbStatus(ctx context.Context, io stdio, f *dbFlags, url string) error {
	s, err := store.ReadStatus(ctx, url)
	if err != nil {
		return withMigrateHint(err)
	}
	if f.json {
		err = printJSON(io, s)
	} else {
		err = printStatus(io, s)
	}
	if err == nil && s.Newer() {
		return &codedError{exitProblems, errors.New("a newer program made this schema: use a newer agenthost or another database")}
	}
	return err
}

// withMigrateHint adds the way out where a database is not there.
func withMigrateHint(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w: agenthost db migrate makes it, as serve does", err)
	}
	return failWith(err)
}

func printStatus(io stdio, s *store.Status) error {
	last := "none"
	if s.LastEvent != nil {
		last = s.LastEvent.Local().Format("2006-01-02 15:04:05")
	}
	w := tabwriter.NewWriter(io.out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "database\t%s\n", s.Database)
	fmt.Fprintf(w, "engine\t%s\n", s.Engine)
	fmt.Fprintf(w, "schema\tversion %d, this program wants %d\n", s.Schema, s.Wants)
	for _, step := range s.Pending {
		fmt.Fprintf(w, "pending\t%d, %s\n", step.Version, step.Name)
	}
	fmt.Fprintf(w, "sessions\t%d\n", s.Sessions)
	fmt.Fprintf(w, "events\t%d, the last %s\n", s.Events, last)
	fmt.Fprintf(w, "state keys\t%d\n", s.StateKeys)
	fmt.Fprintf(w, "size\t%d KiB\n", s.Bytes/1024)
	return failWith(w.Flush())
}

func newDBMigrate(io stdio) *cobra.Command {
	var f dbFlags
	return f.setupCommand(&cobra.Command{
		Use:   "migrate [URL]",
		Short: "Bring the schema up to date",
		Long: `Migrate carries out the steps that a database lacks, and says which. A missing
file is made; a server's database has to be there. Serve and run do the same when
they start. Many may do it at once: each step is carried out by one of them.`,
		Args: requireArgs(0, 1),
	}, func(ctx context.Context, args []string) error { return dbMigrate(ctx, io, &f, f.databaseURL(args)) })
}

func dbMigrate(ctx context.Context, io stdio, f *dbFlags, url string) error {
	steps, err := store.Migrate(ctx, url, nil)
	if err != nil {
		return failWith(err)
	}
	if f.json {
		return printJSON(io, map[string]any{"applied": steps})
	}
	for _, s := range steps {
		fmt.Fprintf(io.out, "applied %d, %s\n", s.Version, s.Name)
	}
	if len(steps) == 0 {
		fmt.Fprintln(io.out, "nothing to do: the schema is up to date")
	}
	return nil
}

func newDBCheck(io stdio) *cobra.Command {
	var f dbFlags
	return f.setupCommand(&cobra.Command{
		Use:   "check [URL]",
		Short: "Check every row",
		Long: `Check reads the whole database and says what is wrong in it: what the engine
itself finds, gaps in the numbers of events, rows whose session is gone, texts
that do not decode. It writes nothing, and may run while the host serves. The
exit status is 1 when something is wrong.`,
		Args: requireArgs(0, 1),
	}, func(ctx context.Context, args []string) error { return dbCheck(ctx, io, &f, f.databaseURL(args)) })
}

func dbCheck(ctx context.Context, io stdio, f *dbFlags, url string) error {
	v, err := store.Verify(ctx, url)
	if err != nil {
		return withMigrateHint(err)
	}
	if f.json {
		err = printJSON(io, v)
	} else {
		printVerification(io, v)
	}
	if err == nil && !v.Sound() {
		return &codedError{code: exitProblems}
	}
	return err
}

func printVerification(io stdio, v *store.Verification) {
	for _, r := range v.Rules {
		if r.Broken == 0 {
			fmt.Fprintf(io.out, "ok      %s\n", r.Rule)
			continue
		}
		fmt.Fprintf(io.out, "BROKEN  %s: %s\n", r.Rule, formatCount(r.Broken, "place"))
		for _, place := range r.Places {
			fmt.Fprintf(io.out, "        %s\n", place)
		}
		if more := r.Broken - len(r.Places); more > 0 {
			fmt.Fprintf(io.out, "        and %d more\n", more)
		}
	}
	fmt.Fprintf(io.out, "%s, %s, %s\n", formatCount(int(v.Sessions), "session"), formatCount(int(v.Events), "event"), formatCount(int(v.StateKeys), "state key"))
}
