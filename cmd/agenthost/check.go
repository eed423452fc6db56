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

// checkRun is one run of check, as its flags say.
type checkRun struct {
	load     loadFlags
	format   string
	portable bool
	fix      bool
}

func newCheck(io stdio) *cobra.Command {
	var c checkRun
	cmd := &cobra.Command{
		Use:   "check DIR...",
		Short: "Report all problems of apps",
		Long: `Check reports all problems of all apps at once, each with its place, and exits
with status 1 when there are errors. DIR is an app or a folder of apps.

With --fix, problems with one certain repair are repaired in the files: misspelt
fields, missing quotes inside { } and [ ], misspelt prefixes of the state. All
else in the files stays as it is. What was repaired is told on standard error,
what is left on standard output.`,
		Args:    between(1, -1),
		PreRunE: fromEnv,
		RunE: func(cmd *cobra.Command, dirs []string) error {
			if !slices.Contains(checkFormats(), c.format) {
				return fmt.Errorf("--format %q: write %s", c.format, strings.Join(checkFormats(), ", "))
			}
			if c.fix && c.portable {
				return errors.New("--fix and --portable exclude each other: what plain ADK lacks has no repair")
			}
			return c.check(cmd.Context(), io, dirs)
		},
	}
	c.load.add(cmd.Flags())
	cmd.Flags().BoolVar(&c.portable, "portable", false, "warn of what plain ADK would not understand")
	cmd.Flags().StringVar(&c.format, "format", "text", strings.Join(checkFormats(), ", "))
	cmd.Flags().BoolVar(&c.fix, "fix", false, "carry out the repairs that are certain")
	return cmd
}

func checkFormats() []string { return []string{"text", "json", "sarif", "github"} }

func (c *checkRun) check(ctx context.Context, io stdio, dirs []string) error {
	began := time.Now()
	apps, err := discover(dirs)
	if err != nil {
		return err
	}
	opts, err := c.load.onto(nil, apps...)
	if err != nil {
		return err
	}
	l := loader.New(opts)
	ds := spec.Diagnostics{}
	for _, app := range apps {
		found, err := c.look(ctx, io, l, app)
		if err != nil {
			return failed(err)
		}
		ds = append(ds, found...)
	}
	if ctx.Err() != nil {
		return failedf("stopped by a signal before all was checked")
	}
	if err := c.print(io, ds); err != nil {
		return failed(err)
	}
	if c.format == "text" {
		fmt.Fprintf(io.err, "%s in %s checked in %s\n", count(len(ds), "problem"), count(len(apps), "app"), time.Since(began).Round(time.Millisecond))
	}
	if ds.HasErrors() {
		return &codedError{code: exitNo}
	}
	return nil
}

// look is the problems of an app; those that --fix repairs are told at once.
func (c *checkRun) look(ctx context.Context, io stdio, l *loader.Loader, app string) (spec.Diagnostics, error) {
	switch {
	case c.portable:
		return l.Portable(ctx, app), nil
	case !c.fix:
		return l.Check(ctx, app), nil
	}
	repaired, left, err := l.Fix(ctx, app)
	for _, d := range repaired {
		at := spec.Pos{File: d.Pos.File, Line: d.Fix.Line, Col: d.Fix.Col}
		fmt.Fprintf(io.err, "%s: %s → %s [%s]\n", at, d.Fix.Old, d.Fix.New, d.Rule)
	}
	return left, err
}

func (c *checkRun) print(io stdio, ds spec.Diagnostics) error {
	switch c.format {
	case "json":
		return json.NewEncoder(io.out).Encode(ds)
	case "sarif":
		return ds.WriteSARIF(io.out, version())
	case "github":
		return ds.WriteGitHub(io.out)
	}
	return ds.WriteText(io.out)
}

// discover finds the apps of folders; a folder without any is an error.
func discover(dirs []string) ([]string, error) {
	var apps []string
	for _, dir := range dirs {
		if err := checkFolder(dir); err != nil {
			return nil, err
		}
		found, err := loader.Discover(dir)
		if err != nil {
			return nil, failed(err)
		}
		if len(found) == 0 {
			return nil, noApp(dir)
		}
		apps = append(apps, found...)
	}
	return apps, nil
}

// noApp says that a folder holds no app, and which file of it may only have the wrong
// name.
func noApp(dir string) error {
	if file, name := loader.Misnamed(dir); file != "" {
		return failedf("there is no app in %s: rename %s to %s", dir, file, name)
	}
	return failedf("there is no app in %s: an app is a folder with a root_agent.yaml or an app.yaml", dir)
}

// checkApp says in plain words why a folder cannot be the one of an app.
func checkApp(dir string) error {
	apps, err := discover([]string{dir})
	if err == nil && apps[0] != dir {
		return failedf("%s holds several apps: name one of them, such as %s", dir, apps[0])
	}
	return err
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// checkFolder says in plain words why a folder cannot be one of apps.
func checkFolder(dir string) error {
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return failedf("there is no folder %s", dir)
	case err != nil:
		return failed(err)
	case !info.IsDir():
		return failedf("%s is a file: give the app's folder, %s", dir, filepath.Dir(dir))
	}
	return nil
}
