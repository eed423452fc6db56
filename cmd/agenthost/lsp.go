package main

import (
	"github.com/spf13/cobra"

	"agenthost/pkg/lsp"
)

func newLSP(io stdio) *cobra.Command {
	var load loadFlags
	cmd := &cobra.Command{
		Use:   "lsp",
		Short: "Serve an editor over stdin and stdout",
		Long: `Lsp speaks the Language Server Protocol over stdin and stdout: the problems of an
app as its files are typed and their repairs, completion, hover and definitions.
Editors start it; docs/editors.md has their settings.`,
		Args:    between(0, 0),
		PreRunE: fromEnv,
		RunE: func(cmd *cobra.Command, _ []string) error {
			opts, err := load.onto(nil)
			if err != nil {
				return err
			}
			return failed(lsp.New(&lsp.Options{Version: version(), Loader: *opts}).Serve(cmd.Context(), io.in, io.out))
		},
	}
	load.add(cmd.Flags())
	return cmd
}
