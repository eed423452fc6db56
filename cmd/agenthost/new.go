package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"agenthost/pkg/loader"
	"agenthost/pkg/spec"
)

// newFlags are the flags of new.
type newFlags struct{ template string }

func newNewCommand(io stdio) *cobra.Command {
	var f newFlags
	cmd := &cobra.Command{
		Use:   "new DIR",
		Short: "Create a new app",
		Long: `New creates a small app in a new folder DIR, with tests and a README. --template is
one of:

  chat    one agent (default)
  team    a coordinator that transfers to two specialists
  tools   an HTTP call, an expression, and a tool that waits for an approval
  rag     an agent that answers from articles, which a tool searches

The app answers from a script, without an API key or network access, until you
configure a model.`,
		Args:    requireArgs(1, 1),
		PreRunE: applyEnvironment,
		RunE: func(_ *cobra.Command, args []string) error {
			return createApp(io, &f, filepath.Clean(args[0]))
		},
	}
	cmd.Flags().StringVar(&f.template, "template", "chat", strings.Join(templateNames(), ", "))
	return cmd
}

func createApp(io stdio, f *newFlags, dir string) error {
	if err := f.validateFlags(); err != nil {
		return err
	}
	if err := loader.CheckAppName(dir); err != nil {
		return failWith(err)
	}
	if _, err := os.Lstat(dir); err == nil {
		return failWithf("%s already exists: new requires a new folder", dir)
	}
	app := newApp{Name: loader.AppName(dir), Template: f.template}
	if err := app.createFolder(dir); err != nil {
		return err
	}
	fmt.Fprintf(io.out, "Wrote %s. Talk to it:\n\n  agenthost run %s\n\n", dir, dir)
	fmt.Fprintf(io.out, "It answers from a script; %s shows how to use a real model.\n", filepath.Join(dir, "README.md"))
	fmt.Fprintln(io.out, "Edit the files while you chat: the next answer uses the saved version.")
	return nil
}

func (f *newFlags) validateFlags() error {
	if !slices.Contains(templateNames(), f.template) {
		text := fmt.Sprintf("unknown template %q: the templates are %s", f.template, joinNames(templateNames()))
		if near := spec.Suggest(f.template, templateNames()); near != "" {
			text = fmt.Sprintf("unknown template %q: did you mean %q?", f.template, near)
		}
		return errors.New(text)
	}
	return nil
}
