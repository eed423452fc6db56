package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"agenthost/pkg/loader"
	"agenthost/pkg/spec"
)

// checkRun holds the flags of one run of check.
type checkRun struct {
	load     loadFlags
	format   string
	portable bool
	fix      bool
}

func newCheckCommand(io stdio) *cobra.Command {
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
		Args:    requireArgs(1, -1),
		PreRunE: applyEnvironment,
		RunE: func(cmd *cobra.Command, dirs []string) error {
			if !slices.Contains(checkFormats(), c.format) {
				return fmt.Errorf("--format must be one of %s, got %q", strings.Join(checkFormats(), ", "), c.format)
			}
			if c.fix && c.portable {
				return errors.New("--fix and --portable cannot be combined: features that plain ADK lacks have no fix")
			}
			return c.checkApps(cmd.Context(), io, dirs)
		},
	}
	c.load.registerFlags(io, cmd.Flags())
	cmd.Flags().BoolVar(&c.portable, "portable", false, "warn about features that plain ADK does not support")
	cmd.Flags().StringVar(&c.format, "format", "text", "output format: "+strings.Join(checkFormats(), ", "))
	cmd.Flags().BoolVar(&c.fix, "fix", false, "repair problems that have exactly one fix")
	return cmd
}

func checkFormats() []string { return []string{"text", "json", "sarif", "github"} }

func (c *checkRun) checkApps(ctx context.Context, io stdio, dirs []string) error {
	began := time.Now()
	apps, err := discoverApps(dirs)
	if err != nil {
		return err
	}
	opts, err := c.load.loaderOptions(nil, apps...)
	if err != nil {
		return err
	}
	ds := spec.Diagnostics{}
	opts.MissingKey = func(_ string, _ loader.ModelUse, d spec.Diagnostic) { ds = append(ds, d) }
	l := newLoader(opts)
	for _, app := range apps {
		found, err := c.findProblems(ctx, io, l, app)
		if err != nil {
			return failWith(err)
		}
		ds = append(ds, found...)
	}
	ds.Sort()
	if ctx.Err() != nil {
		return failWithf("interrupted by a signal before all apps were checked")
	}
	if err := c.writeProblems(io, ds); err != nil {
		return failWith(err)
	}
	if c.format == "text" {
		fmt.Fprintf(io.err, "%s in %s checked in %s\n", formatCount(len(ds), "problem"), formatCount(len(apps), "app"), time.Since(began).Round(time.Millisecond))
	}
	if ds.HasErrors() {
		return &codedError{code: exitProblems}
	}
	return nil
}

// findProblems returns the problems of an app. With --fix, it repairs what it can
// and reports each repair immediately.
func (c *checkRun) findProblems(ctx context.Context, io stdio, l *loader.Loader, app string) (spec.Diagnostics, error) {
	switch {
	case c.portable:
		return l.CheckPortable(ctx, app), nil
	case !c.fix:
		return l.Check(ctx, app), nil
	}
	repaired, remaining, err := l.Fix(ctx, app)
	for _, d := range repaired {
		at := spec.Pos{File: d.Pos.File, Line: d.Fix.Line, Col: d.Fix.Col}
		fmt.Fprintf(io.err, "%s: %s → %s [%s]\n", at, d.Fix.Old, d.Fix.New, d.Rule)
	}
	return remaining, err
}

func (c *checkRun) writeProblems(io stdio, ds spec.Diagnostics) error {
	switch c.format {
	case "json":
		return json.NewEncoder(io.out).Encode(ds)
	case "sarif":
		return ds.WriteSARIF(io.out, buildVersion())
	case "github":
		return ds.WriteGitHub(io.out)
	}
	return ds.WriteText(io.out)
}

// discoverApps finds the apps in the folders; a folder without apps is an error.
func discoverApps(dirs []string) ([]string, error) {
	var apps []string
	for _, dir := range dirs {
		if err := checkFolder(dir); err != nil {
			return nil, err
		}
		found, err := loader.Discover(dir)
		if err != nil {
			return nil, failWith(err)
		}
		if len(found) == 0 {
			return nil, noAppError(dir)
		}
		apps = append(apps, found...)
	}
	return apps, nil
}

// noAppError reports that a folder contains no app, and names a file that may be
// misnamed.
func noAppError(dir string) error {
	if file, name := loader.FindMisnamed(dir); file != "" {
		return failWithf("no app found in %s: rename %s to %s", dir, file, name)
	}
	return failWithf("no app found in %s: an app is a folder with a root_agent.yaml or an app.yaml", dir)
}

// checkApp returns an error unless the folder is exactly one app.
func checkApp(dir string) error {
	apps, err := discoverApps([]string{dir})
	if err == nil && apps[0] != dir {
		return failWithf("%s contains several apps: name one of them, such as %s", dir, apps[0])
	}
	return err
}

func formatCount(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// checkFolder returns an error unless dir is an existing folder.
func checkFolder(dir string) error {
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return failWithf("folder %s not found", dir)
	case err != nil:
		return failWith(err)
	case !info.IsDir():
		return failWithf("%s is a file: use the app's folder, %s", dir, filepath.Dir(dir))
	}
	return nil
}
