package main

import (
	"github.com/spf13/cobra"

	"agenthost/internal/lsp"
)

func newLSPCommand(io stdio) *cobra.Command {
	var load loadFlags
	cmd := &cobra.Command{
		Use:   "lsp",
		Short: "Run a language server over stdin and stdout",
		Long: `Lsp speaks the Language Server Protocol over stdin and stdout: diagnostics while you
type, quick fixes, completion, hover and definitions. Editors start it;
docs/developer-tools.md has their settings.`,
		Args:    requireArgs(0, 0),
		PreRunE: applyEnvironment,
		RunE: func(cmd *cobra.Command, _ []string) error {
			opts, err := load.loaderOptions(nil)
			if err != nil {
				return err
			}
			return failWith(lsp.New(&lsp.Options{Version: buildVersion(), Kinds: listKinds(), Loader: *opts}).Serve(cmd.Context(), io.in, io.out))
		},
	}
	load.registerFlags(io, cmd.Flags())
	return cmd
}
