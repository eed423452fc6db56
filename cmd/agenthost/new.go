package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"agenthost/internal/command"
	"agenthost/pkg/loader"
	"agenthost/pkg/spec"
)

// newFlags are the flags for new.
type newFlags struct{ template, model string }

func newNewCommand(env command.Env) *cobra.Command {
	var f newFlags
	cmd := &cobra.Command{
		Use:   "new DIR",
		Short: "Create a new app",
		Long: `New creates a small app in a new folder DIR, with tests and a README. --template is
one of:

  chat     one agent (default)
  team     a coordinator that transfers to two specialists
  tools    an HTTP call, an expression, and a tool that waits for an approval
  rag      an agent that answers from articles, which a tool searches
  openapi  an agent that uses a REST API by its OpenAPI document
  mcp      an agent that uses the tools of an MCP server

With --model the app uses the model of this name. Otherwise it answers from a script,
without an API key or network access, until you configure a model.`,
		Args:    command.RequireArgs(1, 1),
		PreRunE: command.ApplyEnvironment,
		RunE: func(cmd *cobra.Command, args []string) error {
			return createApp(cmd.Context(), env, &f, filepath.Clean(args[0]))
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.template, "template", "chat", strings.Join(templateNames(), ", "))
	flags.StringVar(&f.model, "model", "", "the model, such as gemini-flash-latest or openai/gpt-4o (default: a script)")
	return cmd
}

func createApp(ctx context.Context, env command.Env, f *newFlags, dir string) error {
	if err := f.validateFlags(); err != nil {
		return err
	}
	if err := loader.CheckAppName(dir); err != nil {
		return command.FailWith(err)
	}
	if _, err := os.Lstat(dir); err == nil {
		return command.FailWithf("%s already exists: new requires a new folder", dir)
	}
	app := newApp{Name: loader.AppName(dir), Template: f.template, Model: f.model}
	if f.model != "" {
		l := newLoader(nil)
		app.keys, app.missing = l.KeyVariables(f.model), l.MissingVariables(f.model)
	}
	if err := app.createFolder(ctx, dir); err != nil {
		return err
	}
	printNextSteps(env, &app, dir)
	return nil
}

// modelName matches the names that need no quotes in YAML and contain no references.
var modelName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:/@+~-]*[A-Za-z0-9]$`)

func (f *newFlags) validateFlags() error {
	if !slices.Contains(templateNames(), f.template) {
		text := fmt.Sprintf("unknown template %q: the templates are %s", f.template, command.JoinNames(templateNames()))
		if near := spec.Suggest(f.template, templateNames()); near != "" {
			text = fmt.Sprintf("unknown template %q: did you mean %q?", f.template, near)
		}
		return errors.New(text)
	}
	if f.model != "" && (!modelName.MatchString(f.model) || !isPlainString(f.model)) {
		return fmt.Errorf("--model must consist of letters, digits and . _ : / @ + ~ -, such as openai/gpt-4o, got %q", f.model)
	}
	return nil
}

// isPlainString reports whether YAML reads it as a string without quotes, unlike null
// or 12.
func isPlainString(text string) bool {
	n, ds := spec.Parse("", []byte(text))
	return !ds.HasErrors() && n.Any() == text
}

// printNextSteps prints the commands that lead to the first answer.
func printNextSteps(env command.Env, app *newApp, dir string) {
	lacksKey := slices.ContainsFunc(app.missing, func(name string) bool { return slices.Contains(app.keys, name) })
	switch {
	case app.IsScripted():
		fmt.Fprintf(env.Out, "Wrote %s. Talk to it:\n\n", dir)
	case len(app.missing) == 0:
		fmt.Fprintf(env.Out, "Wrote %s, which uses the model %s. Talk to it:\n\n", dir, app.Model)
	default:
		what := "variables"
		if lacksKey && len(app.missing) == 1 {
			what = "key"
		}
		fmt.Fprintf(env.Out, "Wrote %s, which uses the model %s. Set its %s, and talk to it:\n\n  export %s=…\n",
			dir, app.Model, what, strings.Join(app.missing, "=… "))
	}
	fmt.Fprintf(env.Out, "  agenthost run %s\n\n", dir)
	switch {
	case app.IsScripted():
		fmt.Fprintf(env.Out, "It answers from a script; %s shows how to use a real model.\n", filepath.Join(dir, "README.md"))
	case lacksKey && len(app.missing) == 1:
		fmt.Fprintf(env.Out, "The key can also be in %s, which git ignores.\n", filepath.Join(dir, ".env"))
	case lacksKey:
		fmt.Fprintf(env.Out, "The variables can also be in %s, which git ignores.\n", filepath.Join(dir, ".env"))
	}
	fmt.Fprintln(env.Out, "Edit the files while you chat: the next answer uses the saved version.")
}
