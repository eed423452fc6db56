package main

import (
	"github.com/spf13/cobra"

	"agenthost/internal/command"
	"agenthost/wing/lsp"
)

func newLSPCommand(env command.Env) *cobra.Command {
	var load command.LoadFlags
	cmd := &cobra.Command{
		Use:   "lsp",
		Short: "Run a language server over stdin and stdout",
		Long: `Lsp speaks the Language Server Protocol over stdin and stdout: diagnostics while you
type, quick fixes, completion, hover, definitions, formatting, and commands that run a
test, evaluate a case or preview a request. Editors start it; docs/developer-tools.md
has their settings.`,
		Args:    command.RequireArgs(0, 0),
		PreRunE: command.ApplyEnvironment,
		RunE: func(cmd *cobra.Command, _ []string) error {
			opts, err := load.LoaderOptions(nil)
			if err != nil {
				return err
			}
			server := lsp.New(&lsp.Options{
				Version: buildVersion(), Kinds: listKinds(), Loader: *opts, Commands: listEditorCommands(cmd.Flags()),
			})
			return command.FailWith(server.Serve(cmd.Context(), env.In, env.Out))
		},
	}
	load.RegisterFlags(env, cmd.Flags())
	return cmd
}
