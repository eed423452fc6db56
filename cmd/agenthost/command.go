package main

import (
	"github.com/spf13/cobra"

	"agenthost/internal/command"
)

// newRootCommand builds the command line with all verbs.
func newRootCommand(env command.Env) *cobra.Command {
	env.Version, env.Kinds, env.Schemes, env.Engines = buildVersion(), listKinds(), storeSchemes(), databaseEngines()
	root := &cobra.Command{
		Use:           "agenthost",
		Short:         "Turns YAML folders into running AI agents",
		Long:          rootHelp,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.Version = versionLine()
	root.SetVersionTemplate("agenthost {{.Version}}\n")
	root.SetIn(env.In)
	root.SetOut(env.Out)
	root.SetErr(env.Err)
	root.CompletionOptions.HiddenDefaultCmd = true
	root.AddCommand(
		newServeCommand(env), newReadyCommand(env), newDoctorCommand(env), newRunCommand(env), newCheckCommand(env), newRecordCommand(env), newLSPCommand(env), newModelsCommand(env), newPreviewCommand(env), newConfigCommand(env),
		newSessionCommand(env), newMemoryCommand(env), newDBCommand(env), newRevisionsCommand(env), newDiffCommand(env), newPlanCommand(env), newRollbackCommand(env), newWhyCommand(env),
		newSchemaCommand(env), newNewCommand(env), newVersionCommand(env), newLicensesCommand(env),
	)
	root.AddCommand(wingCommands(env)...)
	root.SetFlagErrorFunc(command.ExplainFlags)
	var names []string
	for _, c := range root.Commands() {
		names = append(names, c.Name())
	}
	command.RejectUnknownCommands(root, names)
	stopOnSignal(root)
	return root
}

const rootHelp = `agenthost turns YAML folders into running AI agents.

An app is a folder with a root_agent.yaml, the format of Google's Agent Development
Kit, or with an app.yaml. A folder of Agent Config files loads unchanged.

  agenthost new hello            create an app that runs offline
  agenthost run hello "Hi"       talk to it
  agenthost serve hello          serve it with hot reload
`
