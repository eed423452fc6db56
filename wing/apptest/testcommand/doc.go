// Package testcommand has the command test.
package testcommand

import (
	"github.com/spf13/cobra"

	"agenthost/internal/command"
)

// Commands returns the package's commands.
func Commands(env command.Env) []*cobra.Command { return []*cobra.Command{newTestCommand(env)} }
