// Package evalcommand has the commands eval, evalset and optimize.
package evalcommand

import (
	"github.com/spf13/cobra"

	"agenthost/internal/command"
)

// Commands returns the package's commands.
func Commands(env command.Env) []*cobra.Command {
	return []*cobra.Command{newEvalCommand(env), newEvalSetCommand(env), newOptimizeCommand(env)}
}
