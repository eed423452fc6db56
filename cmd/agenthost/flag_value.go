package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// A flagError is a value that a flag does not take, wherever it was written.
type flagError struct{ message, hint string }

func (e *flagError) Error() string {
	if e.hint == "" {
		return e.message
	}
	return e.message + ": " + e.hint
}

// explainFlag names a duration that has no unit, or is none, by the flag, variable or
// key that it was written for. Other errors stay as they are.
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

// explainFlags is explainFlag for the flags of a command line.
func explainFlags(_ *cobra.Command, err error) error {
	var invalid *pflag.InvalidValueError
	if !errors.As(err, &invalid) {
		return err
	}
	return explainFlag("--"+invalid.GetFlag().Name, err)
}
