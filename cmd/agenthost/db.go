package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"agenthost/pkg/store/sqlstore"
)

// dbFlags are the flags of the subcommands of db.
type dbFlags struct {
	sessionDB string
	json      bool
}

func newDBCommand(io stdio) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "db",
		Short: "Manage the session database, and import sessions from ADK",
		Long: `Db manages the session database: show its status, migrate its schema, check its
integrity, or import sessions from databases of Google's ADKs. URL has the same
form as --session-db, which is the default.`,
	}
	addSubcommands(cmd, newDBStatusCommand(io), newDBMigrateCommand(io), newDBCheckCommand(io), newDBImportCommand(io))
	return cmd
}

// setupCommand adds the flags that all subcommands of db share, and the function to run.
func (f *dbFlags) setupCommand(cmd *cobra.Command, run func(ctx context.Context, args []string) error) *cobra.Command {
	cmd.PreRunE = applyEnvironment
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return run(cmd.Context(), args) }
	cmd.Flags().StringVar(&f.sessionDB, "session-db", defaultSessionDB, "session database URL: sqlite:///relative.db, sqlite:////absolute.db, postgres://user@host/database or mysql://user@host/database")
	cmd.Flags().BoolVar(&f.json, "json", false, "print JSON")
	return cmd
}

// databaseURL returns the argument, or the flag if there is none.
func (f *dbFlags) databaseURL(args []string) string {
	if len(args) > 0 {
		return args[0]
	}
	return f.sessionDB
}

func newDBStatusCommand(io stdio) *cobra.Command {
	var f dbFlags
	return f.setupCommand(&cobra.Command{
		Use:   "status [URL]",
		Short: "Show the engine, the schema version and the size of the database",
		Long: `Status prints the engine of a database, its schema version and the one that this
program requires, pending migrations, and how much is stored. It writes nothing and
creates no database. The exit status is 1 when the schema is newer than this program
supports.`,
		Args: requireArgs(0, 1),
	}, func(ctx context.Context, args []string) error { return dbStatus(ctx, io, &f, f.databaseURL(args)) })
}

func dbStatus(ctx context.Context, io stdio, f *dbFlags, url string) error {
	s, err := sqlstore.ReadStatus(ctx, url)
	if err != nil {
		return withMigrateHint(err)
	}
	if f.json {
		err = printJSON(io, s)
	} else {
		err = printStatus(io, s)
	}
	if err == nil && s.Newer() {
		return &codedError{exitProblems, errors.New("the schema is newer than this agenthost supports: upgrade agenthost or use another database")}
	}
	return err
}

// withMigrateHint adds how to create a missing database.
func withMigrateHint(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w: create it with agenthost db migrate or agenthost serve", err)
	}
	return failWith(err)
}

func printStatus(io stdio, s *sqlstore.Status) error {
	last := "none"
	if s.LastEvent != nil {
		last = s.LastEvent.Local().Format("2006-01-02 15:04:05")
	}
	w := tabwriter.NewWriter(io.out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "database\t%s\n", s.Database)
	fmt.Fprintf(w, "engine\t%s\n", s.Engine)
	fmt.Fprintf(w, "schema\tversion %d, required version %d\n", s.Schema, s.Required)
	for _, step := range s.Pending {
		fmt.Fprintf(w, "pending\t%d, %s\n", step.Version, step.Name)
	}
	fmt.Fprintf(w, "sessions\t%d\n", s.Sessions)
	fmt.Fprintf(w, "events\t%d, the last %s\n", s.Events, last)
	fmt.Fprintf(w, "state keys\t%d\n", s.StateKeys)
	fmt.Fprintf(w, "size\t%d KiB\n", s.Bytes/1024)
	return failWith(w.Flush())
}

func newDBMigrateCommand(io stdio) *cobra.Command {
	var f dbFlags
	return f.setupCommand(&cobra.Command{
		Use:   "migrate [URL]",
		Short: "Migrate the schema to the current version",
		Long: `Migrate applies the pending migrations of a database, and lists them. A missing
SQLite file is created; a database on a server must exist. serve and run also
migrate when they start; no other command does. Afterwards no older agenthost can start
on the database. Concurrent migrations are safe: one process applies each step.`,
		Args: requireArgs(0, 1),
	}, func(ctx context.Context, args []string) error { return dbMigrate(ctx, io, &f, f.databaseURL(args)) })
}

func dbMigrate(ctx context.Context, io stdio, f *dbFlags, url string) error {
	steps, err := sqlstore.Migrate(ctx, url, &sqlstore.Options{Logger: newWarningLogger(io.err)})
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

func newDBCheckCommand(io stdio) *cobra.Command {
	var f dbFlags
	return f.setupCommand(&cobra.Command{
		Use:   "check [URL]",
		Short: "Check the integrity of every row",
		Long: `Check reads the whole database and reports damage: errors that the engine finds,
gaps in event numbers, rows without a session, and values that do not decode. It
writes nothing, and can run while the host is serving. A database with an older schema,
such as a backup, is checked with the rules of its version. The exit status is 1 when it
finds damage.`,
		Args: requireArgs(0, 1),
	}, func(ctx context.Context, args []string) error { return dbCheck(ctx, io, &f, f.databaseURL(args)) })
}

func dbCheck(ctx context.Context, io stdio, f *dbFlags, url string) error {
	v, err := sqlstore.Verify(ctx, url)
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

func printVerification(io stdio, v *sqlstore.Verification) {
	if v.Schema > 0 && v.Schema < v.Required {
		fmt.Fprintf(io.out, "schema version %d, checked with the rules of that version (this program's is %d)\n", v.Schema, v.Required)
	}
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
	if !v.Sound() {
		fmt.Fprintf(io.out, "%s can be read, %d cannot\n", formatCount(v.Readable, "session"), v.Unreadable)
		for _, place := range v.UnreadableSessions {
			fmt.Fprintf(io.out, "        %s\n", place)
		}
		if more := v.Unreadable - len(v.UnreadableSessions); more > 0 {
			fmt.Fprintf(io.out, "        and %d more\n", more)
		}
	}
	fmt.Fprintf(io.out, "%s, %s, %s\n", formatCount(int(v.Sessions), "session"), formatCount(int(v.Events), "event"), formatCount(int(v.StateKeys), "state key"))
}
