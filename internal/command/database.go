package command

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
)

// DatabaseFlags are the flags for commands that use a database without a store.
type DatabaseFlags struct {
	SessionDB string
	JSON      bool
}

// SetupCommand adds the flags and the function to run.
func (f *DatabaseFlags) SetupCommand(cmd *cobra.Command, run func(ctx context.Context, args []string) error) *cobra.Command {
	cmd.PreRunE = ApplyEnvironment
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return run(cmd.Context(), args) }
	cmd.Flags().StringVar(&f.SessionDB, "session-db", "", "session database URL: sqlite:///relative.db, sqlite:////absolute.db, postgres://user@host/database or mysql://user@host/database (default: data/agenthost.db of the current folder, or next to it if it is an app)")
	RegisterOutput(cmd.Flags(), &f.JSON, false)
	return cmd
}

// DatabaseURL returns the argument, or without one the flag, or the default database. An argument can
// also be an app's folder, for its default database.
func (f *DatabaseFlags) DatabaseURL(env Env, args []string) string {
	switch {
	case len(args) > 0 && !isFolder(args[0]):
		return args[0]
	case len(args) == 0 && f.SessionDB != "":
		return f.SessionDB
	}
	found := findDefaultDatabase(append(args, ".")[0])
	if found.notice != "" {
		fmt.Fprintln(env.Err, found.notice)
	}
	return found.url
}
