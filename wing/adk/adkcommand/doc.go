// Package adkcommand has the commands for apps, sessions and cases from Google's ADKs.
package adkcommand

import (
	"github.com/spf13/cobra"

	"agenthost/internal/command"
)

// Commands returns the commands conformance and export. [NewImportCommand] is a subcommand
// for another package's db.
func Commands(env command.Env) []*cobra.Command {
	return []*cobra.Command{newConformanceCommand(env), newExportCommand(env)}
}
