package command

import (
	"context"

	"github.com/spf13/cobra"
)

// DefaultSessionDB is --session-db's default.
const DefaultSessionDB = "sqlite:///data/agenthost.db"

// DatabaseFlags are the flags for commands that use a database without a store.
type DatabaseFlags struct {
	SessionDB string
	JSON      bool
}

// SetupCommand adds the flags and the function to run.
func (f *DatabaseFlags) SetupCommand(cmd *cobra.Command, run func(ctx context.Context, args []string) error) *cobra.Command {
	cmd.PreRunE = ApplyEnvironment
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return run(cmd.Context(), args) }
	cmd.Flags().StringVar(&f.SessionDB, "session-db", DefaultSessionDB, "session database URL: sqlite:///relative.db, sqlite:////absolute.db, postgres://user@host/database or mysql://user@host/database")
	cmd.Flags().BoolVar(&f.JSON, "json", false, "print JSON")
	return cmd
}

// DatabaseURL returns the argument, or the flag if there is none.
func (f *DatabaseFlags) DatabaseURL(args []string) string {
	if len(args) > 0 {
		return args[0]
	}
	return f.SessionDB
}
