package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"agenthost/pkg/loader"
	"agenthost/pkg/spec"
)

// configFlags are the flags of config.
type configFlags struct {
	load     loadFlags
	resolved bool
}

func newConfigCommand(io stdio) *cobra.Command {
	var f configFlags
	cmd := &cobra.Command{
		Use:   "config APPDIR",
		Short: "Print the resolved configuration of an app",
		Long: `Config prints the revision of an app, and the files, variables and secrets that it
depends on. With --resolved it prints the effective document: overlay, includes,
defaults, schemas and values are applied, and all agents are inlined. Each line ends
with the file and line that it came from. Secrets are printed as ***.`,
		Args:    requireArgs(1, 1),
		PreRunE: applyEnvironment,
		RunE: func(cmd *cobra.Command, args []string) error {
			return printConfig(cmd.Context(), io, &f, args[0])
		},
	}
	f.load.registerFlags(io, cmd.Flags())
	cmd.Flags().BoolVar(&f.resolved, "resolved", false, "print the effective document")
	return cmd
}

func printConfig(ctx context.Context, io stdio, f *configFlags, dir string) error {
	l, err := f.load.newLoader(dir)
	if err != nil {
		return err
	}
	app, ds := l.ResolveEffective(ctx, dir)
	if err := writeDiagnostics(io, ds); err != nil {
		return err
	}
	if app == nil {
		return &codedError{exitProblems, fmt.Errorf("%s has problems", dir)}
	}
	if f.resolved {
		return failWith(spec.Print(io.out, app.Document, true))
	}
	fmt.Fprintf(io.out, "revision %s\n", app.Revision)
	for _, file := range app.Files {
		fmt.Fprintf(io.out, "file %s\n", file)
	}
	for _, value := range app.Values {
		fmt.Fprintln(io.out, value)
	}
	return nil
}

// newLoader returns a loader for the single app of a folder.
func (f *loadFlags) newLoader(dir string) (*loader.Loader, error) {
	if err := checkApp(dir); err != nil {
		return nil, err
	}
	opts, err := f.loaderOptions(nil, dir)
	if err != nil {
		return nil, err
	}
	return f.io.newLoader(opts), nil
}
