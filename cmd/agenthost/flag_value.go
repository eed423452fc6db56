package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// A flagError is an invalid value of a flag from the command line, the environment or
// the config file.
type flagError struct{ message, hint string }

func (e *flagError) Error() string {
	if e.hint == "" {
		return e.message
	}
	return e.message + ": " + e.hint
}

// explainFlag explains an invalid duration, with the name of the flag, variable or key
// that has it. It returns other errors unchanged.
func explainFlag(name string, err error) error {
	var invalid *pflag.InvalidValueError
	if !errors.As(err, &invalid) || invalid.GetFlag().Value.Type() != "duration" {
		return err
	}
	value := invalid.GetValue()
	e := &flagError{fmt.Sprintf("%s must be a duration with a unit, got %s", name, value), "write 30s, 5m or 1h30m"}
	if _, err := time.ParseDuration(value + "s"); err == nil {
		e.hint = fmt.Sprintf("write %ss (seconds), %[1]sm (minutes) or %[1]sh (hours)", value)
	}
	if strings.TrimSpace(value) == "" {
		e.message = fmt.Sprintf("%s must be a duration with a unit, got an empty string", name)
	}
	return e
}

// explainFlags applies explainFlag to the flags of a command line, and names the flag for
// the --port of other servers.
func explainFlags(c *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) && unknown.GetSpecifiedName() == "port" && c.Flags().Lookup("addr") != nil {
		return &flagError{err.Error(), "use --addr, such as --addr 127.0.0.1:8000"}
	}
	var invalid *pflag.InvalidValueError
	if !errors.As(err, &invalid) {
		return err
	}
	return explainFlag("--"+invalid.GetFlag().Name, err)
}
