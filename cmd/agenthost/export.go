package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"
)

// exportFlags are those of export.
type exportFlags struct {
	load loadFlags
	adk  string
}

func newExport(io stdio) *cobra.Command {
	var f exportFlags
	cmd := &cobra.Command{
		Use:   "export APPDIR --adk DIR",
		Short: "Write an app as plain files of ADK",
		Long: `Export writes an app into a new folder, as files of ADK's Agent Config that need
nothing of this host: a file for each agent, models by their names, values in the
place of their references. A model that answers from a script is left out, with a
warning: ADK then asks its default. What ADK cannot say is an error at its place,
and then nothing is written; "agenthost check --portable" lists it all.`,
		Args:    requireArgs(1, 1),
		PreRunE: applyEnvironment,
		RunE: func(cmd *cobra.Command, args []string) error {
			return exportApp(cmd.Context(), io, &f, args[0])
		},
	}
	f.load.registerFlags(cmd.Flags())
	cmd.Flags().StringVar(&f.adk, "adk", "", "the folder to write; it must not be there, or be empty")
	return cmd
}

func exportApp(ctx context.Context, io stdio, f *exportFlags, dir string) error {
	if f.adk == "" {
		return errors.New("export needs --adk DIR: the folder to write")
	}
	l, err := f.load.newLoader(dir)
	if err != nil {
		return err
	}
	if there, err := os.ReadDir(f.adk); err == nil && len(there) > 0 {
		return failWithf("%s is not empty: export writes into a new folder", f.adk)
	}
	files, ds := l.Export(ctx, dir)
	if err := writeDiagnostics(io, ds); err != nil {
		return err
	}
	if files == nil {
		return &codedError{exitProblems, fmt.Errorf("%s cannot be written for ADK", dir)}
	}
	if err := os.MkdirAll(f.adk, 0o755); err != nil {
		return failWith(err)
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := os.WriteFile(filepath.Join(f.adk, name), files[name], 0o644); err != nil {
			return failWith(err)
		}
		fmt.Fprintln(io.out, filepath.Join(f.adk, name))
	}
	return nil
}
