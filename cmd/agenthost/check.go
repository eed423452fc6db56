package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"agenthost/pkg/loader"
	"agenthost/pkg/spec"
)

// checkFlags are those of check.
type checkFlags struct {
	load     loadFlags
	format   string
	portable bool
}

func newCheck(io stdio) *cobra.Command {
	var f checkFlags
	cmd := &cobra.Command{
		Use:   "check DIR...",
		Short: "Report all problems of apps",
		Long: `Check reports all problems of all apps at once, each with its place, and exits
with status 1 when there are errors. DIR is an app or a folder of apps.`,
		Args:    between(1, -1),
		PreRunE: fromEnv,
		RunE: func(cmd *cobra.Command, dirs []string) error {
			if f.format != "text" && f.format != "json" {
				return fmt.Errorf("--format %q: write text or json", f.format)
			}
			return check(cmd.Context(), io, &f, dirs)
		},
	}
	f.load.add(cmd.Flags())
	cmd.Flags().BoolVar(&f.portable, "portable", false, "warn of what plain ADK would not understand")
	cmd.Flags().StringVar(&f.format, "format", "text", "text or json")
	return cmd
}

func check(ctx context.Context, io stdio, f *checkFlags, dirs []string) error {
	began := time.Now()
	apps, err := discover(dirs)
	if err != nil {
		return err
	}
	opts, err := f.load.onto(nil, apps...)
	if err != nil {
		return err
	}
	l := loader.New(opts)
	ds := spec.Diagnostics{}
	for _, app := range apps {
		if f.portable {
			ds = append(ds, l.Portable(ctx, app)...)
		} else {
			ds = append(ds, l.Check(ctx, app)...)
		}
	}
	if f.format == "json" {
		err = json.NewEncoder(io.out).Encode(ds)
	} else {
		err = ds.WriteText(io.out)
		fmt.Fprintf(io.err, "%s in %s checked in %s\n", count(len(ds), "problem"), count(len(apps), "app"), time.Since(began).Round(time.Millisecond))
	}
	if err != nil {
		return failed(err)
	}
	if ds.HasErrors() {
		return &codedError{code: exitNo}
	}
	return nil
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
			return nil, failedf("there is no app in %s: an app is a folder with a root_agent.yaml or an app.yaml", dir)
		}
		apps = append(apps, found...)
	}
	return apps, nil
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
