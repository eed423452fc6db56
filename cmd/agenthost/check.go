package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"agenthost/internal/command"
	"agenthost/pkg/loader"
	"agenthost/pkg/spec"
	"agenthost/wing/adk/export"
)

// checkRun holds the flags for one check run.
type checkRun struct {
	load     command.LoadFlags
	format   string
	portable bool
	fix      bool
}

func newCheckCommand(env command.Env) *cobra.Command {
	var c checkRun
	cmd := &cobra.Command{
		Use:   "check DIR...",
		Short: "Check apps and report all problems",
		Long: `Check reports all problems of all apps at once, each with its file and line, and
exits with status 1 when there are errors. DIR is an app or a folder of apps.

With --fix, check repairs problems that have exactly one fix: misspelt fields,
missing quotes inside { } and [ ], and misspelt state prefixes. The rest of the
files does not change. Repairs are reported on standard error, remaining problems
on standard output.`,
		Args:    command.RequireArgs(1, -1),
		PreRunE: command.ApplyEnvironment,
		RunE: func(cmd *cobra.Command, dirs []string) error {
			if !slices.Contains(checkFormats(), c.format) {
				return fmt.Errorf("--output must be one of %s, got %q", strings.Join(checkFormats(), ", "), c.format)
			}
			if c.fix && c.portable {
				return errors.New("--fix and --portable cannot be combined: features that plain ADK lacks have no fix")
			}
			return c.checkApps(cmd.Context(), env, dirs)
		},
	}
	c.load.RegisterFlags(env, cmd.Flags())
	cmd.Flags().BoolVar(&c.portable, "portable", false, "warn about features that plain ADK does not support")
	command.RegisterFormat(cmd.Flags(), &c.format, "output format: "+strings.Join(checkFormats(), ", "))
	cmd.Flags().BoolVar(&c.fix, "fix", false, "repair problems that have exactly one fix")
	return cmd
}

func checkFormats() []string { return []string{"text", "json", "sarif", "github"} }

func (c *checkRun) checkApps(ctx context.Context, env command.Env, dirs []string) error {
	began := time.Now()
	apps, err := command.DiscoverApps(dirs)
	if err != nil {
		return err
	}
	opts, err := c.load.LoaderOptions(nil, apps...)
	if err != nil {
		return err
	}
	ds := spec.Diagnostics{}
	opts.MissingKey = func(_ string, _ loader.ModelUse, d spec.Diagnostic) { ds = append(ds, d) }
	l := newLoader(opts)
	for _, app := range apps {
		found, err := c.findProblems(ctx, env, l, app)
		if err != nil {
			return command.FailWith(err)
		}
		ds = append(ds, found...)
	}
	ds.Sort()
	if ctx.Err() != nil {
		return command.FailWithf("interrupted by a signal before all apps were checked")
	}
	if err := c.writeProblems(env, ds); err != nil {
		return command.FailWith(err)
	}
	if c.format == "text" {
		fmt.Fprintf(env.Err, "%s in %s checked in %s\n", command.FormatCount(len(ds), "problem"), command.FormatCount(len(apps), "app"), time.Since(began).Round(time.Millisecond))
	}
	if ds.HasErrors() {
		return &command.ExitError{Code: command.ExitProblems}
	}
	return nil
}

// findProblems returns the problems of an app. With --fix, it repairs what it can
// and reports each repair immediately.
func (c *checkRun) findProblems(ctx context.Context, env command.Env, l *loader.Loader, app string) (spec.Diagnostics, error) {
	switch {
	case c.portable:
		return export.CheckPortability(ctx, l, app), nil
	case !c.fix:
		return l.Check(ctx, app), nil
	}
	repaired, remaining, err := l.Fix(ctx, app)
	for _, d := range repaired {
		at := spec.Pos{File: d.Pos.File, Line: d.Fix.Line, Col: d.Fix.Col}
		fmt.Fprintf(env.Err, "%s: %s → %s [%s]\n", at, d.Fix.Old, d.Fix.New, d.Rule)
	}
	return remaining, err
}

func (c *checkRun) writeProblems(env command.Env, ds spec.Diagnostics) error {
	switch c.format {
	case "json":
		return json.NewEncoder(env.Out).Encode(ds)
	case "sarif":
		return ds.WriteSARIF(env.Out, buildVersion())
	case "github":
		return ds.WriteGitHub(env.Out)
	}
	return command.PrintDiagnostics(env.Out, ds)
}
