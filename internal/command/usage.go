package command

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// RequireArgs accepts between minimum and maximum arguments; a negative maximum means no limit.
func RequireArgs(minimum, maximum int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < minimum || maximum >= 0 && len(args) > maximum {
			return fmt.Errorf("wrong number of arguments, usage: %s", strings.TrimSuffix(cmd.UseLine(), " [flags]"))
		}
		return nil
	}
}

// AddSubcommands adds subcommands to a command that cannot run without one.
func AddSubcommands(cmd *cobra.Command, verbs ...*cobra.Command) {
	cmd.AddCommand(verbs...)
	var names []string
	for _, v := range verbs {
		names = append(names, v.Name())
	}
	RejectUnknownCommands(cmd, names)
	cmd.RunE = func(*cobra.Command, []string) error {
		return fmt.Errorf("%s requires one of the commands %s", cmd.Name(), JoinNames(names))
	}
}

// RejectUnknownCommands makes an unknown subcommand an error that suggests the one that it may mean.
// Without a subcommand the command prints its help.
func RejectUnknownCommands(cmd *cobra.Command, names []string) {
	cmd.Args = func(_ *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		return newUnknownCommand(cmd, args[0], names)
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
}

// JoinNames formats names as "a, b and c".
func JoinNames(names []string) string {
	return strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1]
}

// ApplyEnvironment sets a command's flags from the environment before it runs.
func ApplyEnvironment(cmd *cobra.Command, _ []string) error { return setFromEnv(cmd.Flags()) }

// setFromEnv sets flags that are not on the command line from their environment
// variables: --session-db from AGENTHOST_SESSION_DB.
func setFromEnv(flags *pflag.FlagSet) error {
	var failure error
	flags.VisitAll(func(f *pflag.Flag) {
		name := FlagVariable(f.Name)
		v, ok := os.LookupEnv(name)
		if !ok || f.Changed || failure != nil {
			return
		}
		if err := flags.Set(f.Name, v); err != nil {
			if failure = ExplainFlag(name, err); errors.Is(failure, err) {
				failure = fmt.Errorf("%s: %w", name, err)
			}
		}
	})
	return failure
}

// FlagVariable returns a flag's environment variable: AGENTHOST_SESSION_DB for --session-db.
func FlagVariable(flag string) string {
	return VariablePrefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// VariablePrefix begins the names of the flags' environment variables.
const VariablePrefix = "AGENTHOST_"

// A FlagError is an invalid flag value from the command line, the environment or the config file.
type FlagError struct{ Message, Hint string }

// ExplainFlag explains an invalid duration, with the name of the flag, variable or key
// that has it. It returns other errors unchanged.
func ExplainFlag(name string, err error) error {
	var invalid *pflag.InvalidValueError
	if !errors.As(err, &invalid) || invalid.GetFlag().Value.Type() != "duration" {
		return err
	}
	value := invalid.GetValue()
	e := &FlagError{fmt.Sprintf("%s must be a duration with a unit, got %s", name, value), "write 30s, 5m or 1h30m"}
	if _, err := time.ParseDuration(value + "s"); err == nil {
		e.Hint = fmt.Sprintf("write %ss (seconds), %[1]sm (minutes) or %[1]sh (hours)", value)
	}
	if strings.TrimSpace(value) == "" {
		e.Message = fmt.Sprintf("%s must be a duration with a unit, got an empty string", name)
	}
	return e
}

// Error returns the message and the hint.
func (e *FlagError) Error() string {
	if e.Hint == "" {
		return e.Message
	}
	return e.Message + ": " + e.Hint
}

// HelpHint returns the line that is printed after an invalid command line.
func HelpHint(cmd *cobra.Command) string { return "See " + cmd.CommandPath() + " --help." }
