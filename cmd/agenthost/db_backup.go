package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"agenthost/internal/command"
	"agenthost/pkg/store/sqlstore"
)

func newDBBackupCommand(env command.Env) *cobra.Command {
	var f command.DatabaseFlags
	return f.SetupCommand(&cobra.Command{
		Use:   "backup FILE [URL]",
		Short: "Copy a SQLite database to a file, also while it is served",
		Long: `Backup writes a consistent copy of a SQLite database to FILE, and checks it as db check
does. It can run while hosts write. FILE must not exist; it is there whole or not at
all, and only its owner can read it. The exit status is 1 if the copy has damage, as the
database then has. A database on a server is copied by the server's own tools, which the
error names. Artifacts are in a folder or bucket of their own: copy them after this.`,
		Args: command.RequireArgs(1, 2),
	}, func(ctx context.Context, args []string) error {
		return dbBackup(ctx, env, &f, args[0], f.DatabaseURL(env, args[1:]))
	})
}

func dbBackup(ctx context.Context, env command.Env, f *command.DatabaseFlags, file, url string) error {
	v, err := env.Engines.Backup(ctx, url, file)
	if err != nil {
		return withMigrateHint(err)
	}
	if f.JSON {
		err = env.PrintJSON(v)
	} else if printVerification(env, v); v.Sound() {
		fmt.Fprintf(env.Out, "backed up to %s\n", file)
	}
	if err == nil && !v.Sound() {
		return &command.ExitError{Code: command.ExitProblems, Err: fmt.Errorf("%s has the damage of the database: repair it, or use an older backup", file)}
	}
	return err
}

// restoreFlags are the flags for db restore.
type restoreFlags struct {
	command.DatabaseFlags
	replace bool
}

func newDBRestoreCommand(env command.Env) *cobra.Command {
	var f restoreFlags
	cmd := f.SetupCommand(&cobra.Command{
		Use:   "restore FILE [URL]",
		Short: "Replace a SQLite database by a backup",
		Long: `Restore checks FILE, which db backup has written, and copies it to a SQLite database. A
backup with damage, or one whose schema is newer than this program's, is refused. If
there is a database, --replace renames it; it is not removed. Stop the servers before:
a database that another process has open is refused, too.`,
		Args: command.RequireArgs(1, 2),
	}, func(ctx context.Context, args []string) error {
		return dbRestore(ctx, env, &f, args[0], f.DatabaseURL(env, args[1:]))
	})
	cmd.Flags().BoolVar(&f.replace, "replace", false, "rename a database that is there")
	return cmd
}

func dbRestore(ctx context.Context, env command.Env, f *restoreFlags, file, url string) error {
	r, err := env.Engines.Restore(ctx, file, url, f.replace)
	if err != nil {
		return command.FailWith(err)
	}
	if f.JSON {
		return env.PrintJSON(r)
	}
	printRestored(env, file, r)
	return nil
}

func printRestored(env command.Env, file string, r *sqlstore.Restored) {
	if r.Replaced != "" {
		fmt.Fprintf(env.Out, "the database that was there is %s\n", r.Replaced)
	}
	fmt.Fprintf(env.Out, "restored %s: %s, %s, %s\n", file, command.FormatCount(int(r.Sessions), "session"), command.FormatCount(int(r.Events), "event"), command.FormatCount(int(r.StateKeys), "state key"))
}
