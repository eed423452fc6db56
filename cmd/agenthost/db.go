package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strconv"

	"github.com/spf13/cobra"

	"agenthost/internal/command"
	"agenthost/internal/terminal"
	"agenthost/pkg/store/sqlstore"
	"agenthost/wing/adk/adkcommand"
)

func newDBCommand(env command.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "db",
		Short: "Manage the session database, and import sessions from ADK",
		Long: `Db manages the session database: show its status, migrate its schema, check its
integrity, back it up and restore it, or import sessions from databases of Google's
ADKs. URL has the same form as --session-db, which is the default; an app's folder
selects its default database.`,
	}
	command.AddSubcommands(cmd, newDBStatusCommand(env), newDBMigrateCommand(env), newDBCheckCommand(env), newDBBackupCommand(env), newDBRestoreCommand(env), adkcommand.NewImportCommand(env))
	return cmd
}

func newDBStatusCommand(env command.Env) *cobra.Command {
	var f command.DatabaseFlags
	var exact bool
	cmd := f.SetupCommand(&cobra.Command{
		Use:   "status [URL]",
		Short: "Show the database's engine, schema version and size",
		Long: `Status prints the engine of a database, its schema version and the one that this
program requires, pending migrations, and how much is stored. On a server, tables with
more than 100 000 rows are estimated, unless --exact is set. It writes nothing and
creates no database. The exit status is 1 when the schema is newer than this program
supports.`,
		Args: command.RequireArgs(0, 1),
	}, func(ctx context.Context, args []string) error {
		s, err := env.Engines.ReadStatus(ctx, f.DatabaseURL(env, args), exact)
		if err != nil {
			return withMigrateHint(err)
		}
		return dbStatus(env, &f, s)
	})
	cmd.Flags().BoolVar(&exact, "exact", false, "count the rows in large tables instead of estimating them")
	return cmd
}

func dbStatus(env command.Env, f *command.DatabaseFlags, s *sqlstore.Status) (err error) {
	if f.JSON {
		err = env.PrintJSON(s)
	} else {
		err = printStatus(env, s)
	}
	if err == nil && s.Newer() {
		return &command.ExitError{Code: command.ExitProblems, Err: errors.New("the schema is newer than this agenthost supports: upgrade agenthost or use another database")}
	}
	return err
}

// withMigrateHint adds how to create a missing database.
func withMigrateHint(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w: create it with agenthost db migrate or agenthost serve", err)
	}
	return command.FailWith(err)
}

func printStatus(env command.Env, s *sqlstore.Status) error {
	last := "none"
	if s.LastEvent != nil {
		last = s.LastEvent.Local().Format("2006-01-02 15:04:05")
	}
	table := terminal.NewTable(terminal.Column{Whole: true}, terminal.Column{Whole: true})
	addRow := func(label string, role terminal.Role, format string, args ...any) {
		table.AddCells(terminal.Cell{Text: label, Role: terminal.Title}, terminal.Cell{Text: fmt.Sprintf(format, args...), Role: role})
	}
	addRow("database", terminal.Plain, "%s", s.Database)
	addRow("engine", terminal.Plain, "%s", s.Engine)
	addRow("schema", terminal.Plain, "version %d, required version %d", s.Schema, s.Required)
	for _, step := range s.Pending {
		addRow("pending", terminal.Warning, "%d, %s", step.Version, step.Name)
	}
	count := func(n int64) string {
		if s.Estimated && n > sqlstore.EstimateAbove {
			return fmt.Sprintf("about %d", n)
		}
		return strconv.FormatInt(n, 10)
	}
	lastLabel := "the last"
	if s.Estimated {
		lastLabel = "in new sessions the last"
	}
	addRow("sessions", terminal.Plain, "%s", count(s.Sessions))
	addRow("events", terminal.Plain, "%s, %s %s", count(s.Events), lastLabel, last)
	addRow("state keys", terminal.Plain, "%s", count(s.StateKeys))
	addRow("size", terminal.Plain, "%d KiB", s.Bytes/1024)
	return command.FailWith(table.Print(env.Out))
}

func newDBMigrateCommand(env command.Env) *cobra.Command {
	var f command.DatabaseFlags
	return f.SetupCommand(&cobra.Command{
		Use:   "migrate [URL]",
		Short: "Migrate the schema to the current version",
		Long: `Migrate applies the pending migrations of a database, and lists them. A missing
SQLite file is created; a database on a server must exist. serve and run also
migrate when they start; no other command does. Afterwards no older agenthost can start
on the database. Concurrent migrations are safe: one process applies each step.`,
		Args: command.RequireArgs(0, 1),
	}, func(ctx context.Context, args []string) error {
		return dbMigrate(ctx, env, &f, f.DatabaseURL(env, args))
	})
}

func dbMigrate(ctx context.Context, env command.Env, f *command.DatabaseFlags, url string) error {
	steps, err := env.Engines.Migrate(ctx, url, &sqlstore.Options{Logger: command.NewWarningLogger(env.Err)})
	if err != nil {
		return command.FailWith(err)
	}
	if f.JSON {
		return env.PrintJSON(map[string]any{"applied": steps})
	}
	for _, s := range steps {
		fmt.Fprintf(env.Out, "applied %d, %s\n", s.Version, s.Name)
	}
	if len(steps) == 0 {
		fmt.Fprintln(env.Out, "nothing to do: the schema is up to date")
	}
	return nil
}

func newDBCheckCommand(env command.Env) *cobra.Command {
	var f command.DatabaseFlags
	return f.SetupCommand(&cobra.Command{
		Use:   "check [URL]",
		Short: "Check the integrity of every row",
		Long: `Check reads the whole database and reports damage: errors that the engine finds,
gaps in event numbers, rows without a session, and values that do not decode. It
writes nothing, and can run while the host is serving. A database with an older schema,
such as a backup, is checked with the rules of its version. The exit status is 1 when it
finds damage.`,
		Args: command.RequireArgs(0, 1),
	}, func(ctx context.Context, args []string) error { return dbCheck(ctx, env, &f, f.DatabaseURL(env, args)) })
}

func dbCheck(ctx context.Context, env command.Env, f *command.DatabaseFlags, url string) error {
	v, err := env.Engines.Verify(ctx, url)
	if err != nil {
		return withMigrateHint(err)
	}
	if f.JSON {
		err = env.PrintJSON(v)
	} else {
		printVerification(env, v)
	}
	if err == nil && !v.Sound() {
		return &command.ExitError{Code: command.ExitProblems}
	}
	return err
}

func printVerification(env command.Env, v *sqlstore.Verification) {
	if v.Schema > 0 && v.Schema < v.Required {
		fmt.Fprintf(env.Out, "schema version %d, checked with the rules of that version (this program's is %d)\n", v.Schema, v.Required)
	}
	for _, r := range v.Rules {
		outcome, role, text := "ok    ", terminal.Good, r.Rule
		if r.Broken > 0 {
			outcome, role, text = "BROKEN", terminal.Bad, fmt.Sprintf("%s: %s", r.Rule, command.FormatCount(r.Broken, "place"))
		}
		_ = terminal.Print(env.Out, terminal.StylesOf(env.Out).Format(role, outcome)) // as the lines below
		fmt.Fprintf(env.Out, "  %s\n", text)
		for _, place := range r.Places {
			fmt.Fprintf(env.Out, "        %s\n", place)
		}
		if more := r.Broken - len(r.Places); more > 0 {
			fmt.Fprintf(env.Out, "        and %d more\n", more)
		}
	}
	if !v.Sound() {
		fmt.Fprintf(env.Out, "%s can be read, %d cannot\n", command.FormatCount(v.Readable, "session"), v.Unreadable)
		for _, place := range v.UnreadableSessions {
			fmt.Fprintf(env.Out, "        %s\n", place)
		}
		if more := v.Unreadable - len(v.UnreadableSessions); more > 0 {
			fmt.Fprintf(env.Out, "        and %d more\n", more)
		}
	}
	fmt.Fprintf(env.Out, "%s, %s, %s\n", command.FormatCount(int(v.Sessions), "session"), command.FormatCount(int(v.Events), "event"), command.FormatCount(int(v.StateKeys), "state key"))
}
