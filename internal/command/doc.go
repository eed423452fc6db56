// Package command has what the program's commands share: the streams and the kinds that the program
// hands to each, flags for loading apps and for opening stores, errors with an exit code, and
// output for terminals.
//
// A package with commands returns them as a list, which cmd/agenthost adds to its own:
//
//	func Commands(env command.Env) []*cobra.Command
//
// RunE returns an [ExitError] for an exit code; another error is a wrong command line. See
// [FailWith] and [ExitProblems].
package command
