package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"agenthost/internal/command"
	"agenthost/pkg/spec"
)

// configFlags are the flags for config.
type configFlags struct {
	load     command.LoadFlags
	resolved bool
	json     bool
}

func newConfigCommand(env command.Env) *cobra.Command {
	var f configFlags
	cmd := &cobra.Command{
		Use:   "config APPDIR",
		Short: "Print the resolved configuration of an app",
		Long: `Config prints the revision of an app, and the files, variables and secrets that it
depends on. With --resolved it prints the effective document: overlay, includes,
defaults, schemas and values are applied, and all agents are inlined. Each line ends
with the file and line that it came from. Secrets are printed as ***.`,
		Args:    command.RequireArgs(1, 1),
		PreRunE: command.ApplyEnvironment,
		RunE: func(cmd *cobra.Command, args []string) error {
			return printConfig(cmd.Context(), env, &f, args[0])
		},
	}
	f.load.RegisterFlags(env, cmd.Flags())
	cmd.Flags().BoolVar(&f.resolved, "resolved", false, "print the effective document")
	command.RegisterOutput(cmd.Flags(), &f.json, false)
	return cmd
}

func printConfig(ctx context.Context, env command.Env, f *configFlags, dir string) error {
	if f.resolved && f.json {
		return errors.New("--resolved and --output json cannot be combined: the document is YAML")
	}
	l, err := f.load.NewLoader(dir)
	if err != nil {
		return err
	}
	app, ds := l.ResolveEffective(ctx, dir)
	if err := env.WriteDiagnostics(ds); err != nil {
		return err
	}
	if app == nil {
		return &command.ExitError{Code: command.ExitProblems, Err: fmt.Errorf("%s has problems", dir)}
	}
	if f.resolved {
		return command.FailWith(spec.Print(env.Out, app.Document, true))
	}
	if f.json {
		return env.PrintJSON(map[string]any{"revision": app.Revision, "files": append([]string{}, app.Files...), "values": append([]string{}, app.Values...)})
	}
	fmt.Fprintf(env.Out, "revision %s\n", app.Revision)
	for _, file := range app.Files {
		fmt.Fprintf(env.Out, "file %s\n", file)
	}
	for _, value := range app.Values {
		fmt.Fprintln(env.Out, value)
	}
	return nil
}
