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

// newRoot is the whole command line.
func newRoot(io stdio) *cobra.Command {
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
		newServe(io), newReady(io), newRun(io), newCheck(io), newTest(io), newRecord(io), newLSP(io), newPreview(io), newConfig(io), newExport(io),
		newSession(io), newMemory(io), newDB(io), newRevisions(io), newDiff(io), newPlan(io), newRollback(io), newWhy(io),
		newSchema(io), newNew(io), newVersion(io), newLicenses(io),
	)
	root.SetFlagErrorFunc(explainFlags)
	stopOnSignal(root)
	return root
}

const rootHelp = `agenthost turns folders of YAML into running AI agents.

An app is a folder with a root_agent.yaml, as Google's Agent Development Kit
has it, or with an app.yaml. A folder of Agent Config files loads as it is.

  agenthost new hello            write an app that runs, offline
  agenthost run hello "Hi"       talk to it
  agenthost serve hello          serve it, and take in every change as you save
`

// requireArgs wants so many arguments; at most below 0 is no bound.
func requireArgs(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < least || most >= 0 && len(args) > most {
			return fmt.Errorf("write %s", strings.TrimSuffix(cmd.UseLine(), " [flags]"))
		}
		return nil
	}
}

// addVerbs makes a verb that is nothing without one of those below it. A word that is
// none of them is named, with the one that was meant.
func addVerbs(cmd *cobra.Command, verbs ...*cobra.Command) {
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
		return errors.New(unknown + ": there are " + joinNames(names))
	}
	cmd.RunE = func(*cobra.Command, []string) error {
		return fmt.Errorf("%s needs one of %s", cmd.Name(), joinNames(names))
	}
}

// joinNames is a, b and c.
func joinNames(names []string) string {
	return strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1]
}

// setFromEnv gives flags that were not set the values of their variables:
// --session-db is AGENTHOST_SESSION_DB.
func setFromEnv(flags *pflag.FlagSet) error {
	var failure error
	flags.VisitAll(func(f *pflag.Flag) {
		name := flagVariable(f.Name)
		v, ok := os.LookupEnv(name)
		if !ok || f.Changed || failure != nil {
			return
		}
		if err := flags.Set(f.Name, v); err != nil {
			if failure = explainFlag(name, err); failure == err {
				failure = fmt.Errorf("%s: %w", name, err)
			}
		}
	})
	return failure
}

// applyEnvironment is setFromEnv as a step before a verb runs.
func applyEnvironment(cmd *cobra.Command, _ []string) error { return setFromEnv(cmd.Flags()) }
