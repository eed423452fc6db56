package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"agenthost/pkg/spec"
)

// newRootCommand builds the command line with all verbs.
func newRootCommand(io stdio) *cobra.Command {
	io.version, io.kinds = buildVersion(), listKinds()
	root := &cobra.Command{
		Use:           "agenthost",
		Short:         "Turns folders of YAML into running AI agents",
		Long:          rootHelp,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.Version = versionLine()
	root.SetVersionTemplate("agenthost {{.Version}}\n")
	root.SetIn(io.in)
	root.SetOut(io.out)
	root.SetErr(io.err)
	root.CompletionOptions.HiddenDefaultCmd = true
	root.AddCommand(
		newServeCommand(io), newReadyCommand(io), newRunCommand(io), newCheckCommand(io), newTestCommand(io), newEvalCommand(io), newEvalSetCommand(io), newConformanceCommand(io), newOptimizeCommand(io), newRecordCommand(io), newLSPCommand(io), newModelsCommand(io), newPreviewCommand(io), newConfigCommand(io), newExportCommand(io),
		newSessionCommand(io), newMemoryCommand(io), newDBCommand(io), newRevisionsCommand(io), newDiffCommand(io), newPlanCommand(io), newRollbackCommand(io), newWhyCommand(io),
		newSchemaCommand(io), newNewCommand(io), newVersionCommand(io), newLicensesCommand(io),
	)
	root.SetFlagErrorFunc(explainFlags)
	stopOnSignal(root)
	return root
}

const rootHelp = `agenthost turns folders of YAML into running AI agents.

An app is a folder with a root_agent.yaml, the format of Google's Agent Development
Kit, or with an app.yaml. A folder of Agent Config files loads unchanged.

  agenthost new hello            create an app that runs offline
  agenthost run hello "Hi"       talk to it
  agenthost serve hello          serve it with hot reload
`

// requireArgs accepts between minimum and maximum arguments; a negative maximum means no limit.
func requireArgs(minimum, maximum int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < minimum || maximum >= 0 && len(args) > maximum {
			return fmt.Errorf("wrong number of arguments, usage: %s", strings.TrimSuffix(cmd.UseLine(), " [flags]"))
		}
		return nil
	}
}

// addSubcommands adds subcommands to a verb that cannot run without one. An unknown
// subcommand is an error that suggests the most similar one.
func addSubcommands(cmd *cobra.Command, verbs ...*cobra.Command) {
	cmd.AddCommand(verbs...)
	names := make([]string, len(verbs))
	for i, v := range verbs {
		names[i] = v.Name()
	}
	cmd.Args = func(_ *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		unknown := fmt.Sprintf("unknown command %q for %q", args[0], cmd.CommandPath())
		if near := spec.Suggest(args[0], names); near != "" {
			return fmt.Errorf("%s: did you mean %q?", unknown, near)
		}
		return errors.New(unknown + ": available commands are " + joinNames(names))
	}
	cmd.RunE = func(*cobra.Command, []string) error {
		return fmt.Errorf("%s requires one of the commands %s", cmd.Name(), joinNames(names))
	}
}

// joinNames formats names as "a, b and c".
func joinNames(names []string) string {
	return strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1]
}

// setFromEnv sets flags that are not on the command line from their environment
// variables: --session-db from AGENTHOST_SESSION_DB.
func setFromEnv(flags *pflag.FlagSet) error {
	var failure error
	flags.VisitAll(func(f *pflag.Flag) {
		name := flagVariable(f.Name)
		v, ok := os.LookupEnv(name)
		if !ok || f.Changed || failure != nil {
			return
		}
		if err := flags.Set(f.Name, v); err != nil {
			if failure = explainFlag(name, err); errors.Is(failure, err) {
				failure = fmt.Errorf("%s: %w", name, err)
			}
		}
	})
	return failure
}

// applyEnvironment calls setFromEnv before a verb runs.
func applyEnvironment(cmd *cobra.Command, _ []string) error { return setFromEnv(cmd.Flags()) }
