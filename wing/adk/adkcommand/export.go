package adkcommand

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"agenthost/internal/command"
	"agenthost/wing/adk/export"
)

// exportFlags are the flags for export.
type exportFlags struct {
	load command.LoadFlags
	adk  string
	json bool
}

func newExportCommand(env command.Env) *cobra.Command {
	var f exportFlags
	cmd := &cobra.Command{
		Use:   "export APPDIR --adk DIR",
		Short: "Export an app as plain ADK files",
		Long: `Export writes an app into a new folder as ADK Agent Config files that do not depend
on agenthost: one file per agent, models by name, and values instead of references.
Scripted models are left out with a warning: ADK then uses its default model.
Features that ADK does not support are errors, and then nothing is written;
"agenthost check --portable" lists them all.`,
		Args:    command.RequireArgs(1, 1),
		PreRunE: command.ApplyEnvironment,
		RunE: func(cmd *cobra.Command, args []string) error {
			return exportApp(cmd.Context(), env, &f, args[0])
		},
	}
	f.load.RegisterFlags(env, cmd.Flags())
	command.RegisterOutput(cmd.Flags(), &f.json, false)
	cmd.Flags().StringVar(&f.adk, "adk", "", "output folder, which must be new or empty")
	return cmd
}

func exportApp(ctx context.Context, env command.Env, f *exportFlags, dir string) error {
	if f.adk == "" {
		return errors.New("--adk is required: the output folder")
	}
	l, err := f.load.NewLoader(dir)
	if err != nil {
		return err
	}
	if entries, err := os.ReadDir(f.adk); err == nil && len(entries) > 0 {
		return command.FailWithf("%s is not empty: export requires a new or empty folder", f.adk)
	}
	files, ds := export.ConvertApp(ctx, l, dir)
	if err := env.WriteDiagnostics(ds); err != nil {
		return err
	}
	if files == nil {
		return &command.ExitError{Code: command.ExitProblems, Err: fmt.Errorf("cannot export %s to ADK", dir)}
	}
	if err := os.MkdirAll(f.adk, 0o755); err != nil {
		return command.FailWith(err)
	}
	var written []string
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := os.WriteFile(filepath.Join(f.adk, name), files[name], 0o644); err != nil {
			return command.FailWith(err)
		}
		written = append(written, filepath.Join(f.adk, name))
	}
	if f.json {
		return env.PrintJSON(map[string]any{"files": written})
	}
	for _, name := range written {
		fmt.Fprintln(env.Out, name)
	}
	return nil
}
