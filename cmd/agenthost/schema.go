package main

import (
	"strings"

	"github.com/spf13/cobra"

	"agenthost/pkg/loader"
)

func newSchema(io stdio) *cobra.Command {
	return &cobra.Command{
		Use:   "schema [app|agent|parts|script|test|policy]",
		Short: "Print the JSON Schema of a document",
		Long: `Schema prints the JSON Schema of app.yaml (app), of an agent's file (agent), of
a file that others include (parts), of a script of the scripted model (script),
of a file of tests (test), or of the host's policy (policy). Editors complete and
check by it.`,
		Args:      between(0, 1),
		ValidArgs: loader.SchemaNames(),
		RunE: func(_ *cobra.Command, args []string) error {
			name := strings.Join(append(args, "app")[:1], "")
			schema, err := loader.New(nil).Schema(name)
			if err != nil {
				return err
			}
			return printJSON(io, schema)
		},
	}
}
